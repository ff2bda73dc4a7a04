// Documents held against their JSON schema, as far as a reader needs it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gantry::cli {

/// User error, naming `file` and the field, where a field that the schema describes has another type, or one
/// that may not be null is missing (where `complete`). Fields that the schema does not know, and its limits
/// on values, are not looked at. Of the schema language: type, enum, properties, required, items.
void check_types(const nlohmann::ordered_json& document, const nlohmann::ordered_json& schema, bool complete,
                 const std::string& file);

/// The schema's descriptions by the fields' paths: "memory.io_bytes", "kernels[].share".
nlohmann::ordered_json descriptions_of(const nlohmann::ordered_json& schema);

}  // namespace gantry::cli
