// JSON of reports: values that may not be known, and the document's text.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace gantry::cli {

/// Null where it is T{}: "", 0, an empty list.
template <typename T>
nlohmann::ordered_json said(const T& value) {
  return value == T{} ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(value);
}

/// The same of what may be 0.
template <typename T>
nlohmann::ordered_json shown(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// As reports print it. Names of files may be no UTF-8: what is none becomes U+FFFD.
template <typename Json>
std::string document_text(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gantry::cli
