#include "host/cli/report/schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

/// To JSON Schema 1.0 is an integer too.
bool is_whole(const Json& value) {
  if (value.is_number_integer()) return true;
  return value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return is_whole(value);
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

std::vector<std::string> types_of(const Json& schema) {
  const auto type = schema.find("type");
  if (type == schema.end()) return {};
  if (type->is_string()) return {type->get<std::string>()};
  return type->get<std::vector<std::string>>();
}

/// Where in a document: "kernels[3].total_ms", and in any: "kernels[].total_ms".
struct Path {
  std::string here, general;
  Path field(const std::string& name) const {
    const char* dot = here.empty() ? "" : ".";
    return {here + dot + name, general + dot + name};
  }
  Path item(size_t index) const { return {fmt::format("{}[{}]", here, index), general + "[]"}; }
};

class Checker {
 public:
  Checker(std::span<const std::string_view> needed, const std::string& file) : needed_(needed), file_(file) {}

  void check(const Json& value, const Json& schema, const Path& path) const {
    check_type(value, schema, path);
    if (value.is_object() && schema.contains("properties")) check_fields(value, schema["properties"], path);
    if (value.is_array() && schema.contains("items") && schema["items"].is_object()) {
      for (size_t i = 0; i < value.size(); ++i) check(value[i], schema["items"], path.item(i));
    }
  }

 private:
  void check_type(const Json& value, const Json& schema, const Path& path) const {
    const std::vector<std::string> types = types_of(schema);
    const auto fits = [&](const std::string& type) { return is_of_type(value, type); };
    if (types.empty() || std::ranges::any_of(types, fits)) return;
    user_error("{}: field '{}' is of type {} where {} is wanted; is it as gantry's --json writes it?", file_,
               path.here, value.type_name(), fmt::join(types, " or "));
  }
  void check_fields(const Json& object, const Json& properties, const Path& path) const {
    for (const auto& [name, schema] : properties.items()) {
      const Path field = path.field(name);
      const auto found = object.find(name);
      if (found != object.end()) {
        check(*found, schema, field);
      } else if (std::ranges::find(needed_, field.general) != needed_.end()) {
        user_error("{}: no field '{}'; is it as gantry's --json writes it?", file_, field.here);
      }
    }
  }

  std::span<const std::string_view> needed_;
  const std::string& file_;
};

void add_descriptions(const Json& schema, const std::string& prefix, Json& descriptions) {
  if (!schema.contains("properties")) return;
  for (const auto& [name, field] : schema["properties"].items()) {
    const std::string path = prefix + name;
    if (field.contains("description")) descriptions[path] = field["description"];
    add_descriptions(field, path + ".", descriptions);
    if (field.contains("items")) add_descriptions(field["items"], path + "[].", descriptions);
  }
}

}  // namespace

void check_types(const Json& document, const Json& schema, std::span<const std::string_view> needed,
                 const std::string& file) {
  Checker(needed, file).check(document, schema, {});
}

Json descriptions_of(const Json& schema) {
  Json descriptions = Json::object();
  add_descriptions(schema, "", descriptions);
  return descriptions;
}

}  // namespace gantry::cli
