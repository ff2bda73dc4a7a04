// Documents that a page is made from, read and held against their schemas.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gantry::cli {

/// As the file has it; discarded where it is no JSON. User error where it cannot be read or is nested deeper
/// than any document.
nlohmann::ordered_json parse_document(const std::string& file);
/// What a page of results needs of a document of bench, whose samples have been checked (read_report) or are
/// by the caller; one of version 1 becomes one of version 2. User errors name the field, and `name`.
void check_result(nlohmann::ordered_json& document, const std::string& name);

/// A document of compare. User errors name the field.
bool is_comparison(const nlohmann::ordered_json& document);
void check_comparison(nlohmann::ordered_json& document, const std::string& file);

}  // namespace gantry::cli
