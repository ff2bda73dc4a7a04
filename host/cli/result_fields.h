// Fields of a result of `gantry bench`, as whoever reads one back wants them. All errors are user errors that
// name the file and the field.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "host/support/error.h"

namespace gantry::cli {

/// The document, which is one of `gantry bench` of a schema version that this gantry reads (1 or 2).
nlohmann::json read_result_document(const std::filesystem::path& path);
/// Whether that is so of what has been read of `path`; discarded: it was no JSON.
void check_result_document(const nlohmann::json& json, const std::filesystem::path& path);

template <typename T>
T converted(const nlohmann::json& value, const std::string& key, const std::filesystem::path& path) {
  try {
    return value.get<T>();
  } catch (const nlohmann::json::exception&) {
    user_error("{}: field '{}' has the wrong type", path.string(), key);
  }
}

/// A field that must be there, of the type asked for.
template <typename T>
T field(const nlohmann::json& json, const char* key, const std::filesystem::path& path) {
  const auto found = json.find(key);
  if (found == json.end())
    user_error("{}: no field '{}'; is it written by `gantry bench --json`?", path.string(), key);
  return converted<T>(*found, key, path);
}

/// None where it is not there or null.
template <typename T>
std::optional<T> maybe(const nlohmann::json& json, const char* key, const std::filesystem::path& path) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return converted<T>(*found, key, path);
}

}  // namespace gantry::cli
