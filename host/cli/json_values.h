// What may not be known, as a JSON value or null.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

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

}  // namespace gantry::cli
