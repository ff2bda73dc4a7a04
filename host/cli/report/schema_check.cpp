#include "host/cli/report/schema_check.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
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

bool may_be_null(const Json& schema) {
  const std::vector<std::string> types = types_of(schema);
  return std::ranges::find(types, "null") != types.end();
}

class Checker {
 public:
  Checker(bool complete, const std::string& file) : complete_(complete), file_(file) {}

  void check(const Json& value, const Json& schema, const std::string& path) const {
    check_type(value, schema, path);
    if (value.is_object() && schema.contains("properties")) check_fields(value, schema, path);
    if (value.is_array() && schema.contains("items") && schema["items"].is_object()) {
      for (size_t i = 0; i < value.size(); ++i)
        check(value[i], schema["items"], fmt::format("{}[{}]", path, i));
    }
  }

 private:
  void check_type(const Json& value, const Json& schema, const std::string& path) const {
    const std::vector<std::string> types = types_of(schema);
    const auto fits = [&](const std::string& type) { return is_of_type(value, type); };
    if (types.empty() || std::ranges::any_of(types, fits)) return;
    user_error("{}: field '{}' is of type {} where {} is wanted; is it written by `gantry bench --json`?",
               file_, path, value.type_name(), fmt::join(types, " or "));
  }
  void check_fields(const Json& object, const Json& schema, const std::string& path) const {
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const auto& [name, field] : schema["properties"].items()) {
      const auto found = object.find(name);
      if (found != object.end()) check(*found, field, prefix + name);
    }
    if (!complete_ || !schema.contains("required")) return;
    for (const Json& required : schema["required"]) {
      const auto name = required.get<std::string>();
      if (object.contains(name) || may_be_null(schema["properties"][name])) continue;
      user_error("{}: no field '{}'; is it written by `gantry bench --json`?", file_, prefix + name);
    }
  }

  bool complete_;
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

void check_types(const Json& document, const Json& schema, bool complete, const std::string& file) {
  Checker(complete, file).check(document, schema, "");
}

Json descriptions_of(const Json& schema) {
  Json descriptions = Json::object();
  add_descriptions(schema, "", descriptions);
  return descriptions;
}

}  // namespace gantry::cli
