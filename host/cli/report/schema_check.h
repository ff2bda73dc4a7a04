// Documents held against their JSON schema, as far as a reader needs it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace gantry::cli {

/// User error, naming `file` and the field, where a field that the schema describes has another type, or one
/// of `needed` ("kernels[].total_ms") is not in an object that should have it. Others may be missing:
/// documents of older versions lack what was added. Fields that the schema does not know, and its limits on
/// values, are not looked at. Of the schema language: type, properties, items.
void check_types(const nlohmann::ordered_json& document, const nlohmann::ordered_json& schema,
                 std::span<const std::string_view> needed, const std::string& file);

/// The schema's descriptions by the fields' paths: "memory.io_bytes", "kernels[].share".
nlohmann::ordered_json descriptions_of(const nlohmann::ordered_json& schema);

}  // namespace gantry::cli
