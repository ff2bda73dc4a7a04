#include "host/cli/result_fields.h"

#include <fstream>

#include "host/support/input_file.h"

namespace gantry::cli {
namespace {

constexpr const char* kSchema = "gantry-bench";
constexpr int kNewestVersion = 2;

}  // namespace

nlohmann::json read_result_document(const std::filesystem::path& path) {
  std::ifstream file = open_document(path);
  nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  check_result_document(json, path);
  return json;
}

void check_result_document(const nlohmann::json& json, const std::filesystem::path& path) {
  if (json.is_discarded() || !json.is_object()) {
    user_error("{}: not a bench result; write one with `gantry bench MODEL --json FILE`", path.string());
  }
  const auto schema = field<std::string>(json, "schema", path);
  if (schema == "gantry-comparison")
    user_error(
        "{}: is a comparison, of which `gantry report` makes a page where it is given alone; here results "
        "are "
        "wanted: measure each side by `gantry profile MODEL --json FILE`",
        path.string());
  if (schema != kSchema)
    user_error("{}: is a document of kind '{}', not a result of `gantry bench --json` ('{}')", path.string(),
               schema, kSchema);
  const auto version = field<int>(json, "schema_version", path);
  if (version < 1 || version > kNewestVersion) {
    user_error("{}: schema version {}; this gantry reads 1 to {}", path.string(), version, kNewestVersion);
  }
}

}  // namespace gantry::cli
