#include "host/conformance/record.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/conformance/summary.h"
#include "host/support/error.h"
#include "host/support/input_file.h"
#include "host/support/output_file.h"

namespace gantry::conformance {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "gantry-conformance";
constexpr int kVersion = 1;

Json counts_json(const Counts& counts) {
  Json json;
  for (const Status status : kStatuses) json[std::string(name_of(status))] = counts.of(status);
  return json;
}

Json settings_json(const RunSettings& settings) {
  return {{"target", settings.target},
          {"device", settings.device},
          {"board", settings.board.empty() ? Json(nullptr) : Json(settings.board)},
          {"opt_level", settings.opt_level},
          {"precision", settings.precision},
          {"timeout_s", settings.timeout_seconds}};
}

RunSettings settings_from_json(const Json& json) {
  RunSettings settings;
  settings.target = json.at("target").get<std::string>();
  settings.device = json.at("device").get<std::string>();
  if (json.at("board").is_string()) settings.board = json.at("board").get<std::string>();
  settings.opt_level = json.at("opt_level").get<int>();
  settings.precision = json.at("precision").get<std::string>();
  settings.timeout_seconds = json.at("timeout_s").get<double>();
  return settings;
}

RunRecord record_from_json(const Json& json, const std::filesystem::path& file) {
  RunRecord record;
  record.settings = settings_from_json(json.at("settings"));
  record.settings.gantry = json.at("gantry").get<std::string>();
  record.folders = json.at("folders").get<std::vector<std::string>>();
  record.filters = json.at("filters").get<std::vector<std::string>>();
  record.tests_found = json.at("tests_found").get<int64_t>();
  for (const Json& test : json.at("tests")) {
    auto result = result_from_json(test);
    if (!result)
      user_error("{}: has a test that is no result: {}", file.string(), test.dump().substr(0, 200));
    record.results.push_back(std::move(*result));
  }
  return record;
}

}  // namespace

Json to_json(const RunRecord& record) {
  Counts counts;
  for (const TestResult& result : record.results) counts.add(result.status);
  Json json;
  json["schema"] = kSchema;
  json["schema_version"] = kVersion;
  json["gantry"] = record.settings.gantry;
  json["settings"] = settings_json(record.settings);
  json["folders"] = record.folders;
  json["filters"] = record.filters;
  json["tests_found"] = record.tests_found;
  json["complete"] = record.tests_found == static_cast<int64_t>(record.results.size());
  json["counts"] = counts_json(counts);
  json["operators"] = Json::array();
  for (const OperatorRow& row : by_operator(record.results)) {
    Json entry{{"operator", row.name}};
    entry.update(counts_json(row.counts));
    json["operators"].push_back(std::move(entry));
  }
  json["tests"] = Json::array();
  for (const TestResult& result : record.results) json["tests"].push_back(to_json(result));
  return json;
}

RunRecord read_record(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) cannot_read(file, errno);
  const Json json = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  try {
    if (!json.is_object() || json.value("schema", "") != kSchema)
      user_error("{}: is no result of gantry conformance", file.string());
    if (const int version = json.value("schema_version", 0); version != kVersion)
      user_error("{}: is of version {} of its schema; this gantry knows {}", file.string(), version,
                 kVersion);
    return record_from_json(json, file);
  } catch (const nlohmann::json::exception& error) {
    user_error("{}: is no whole result of gantry conformance: {}", file.string(), error.what());
  }
}

std::string settings_difference(const RunSettings& before, const RunSettings& now) {
  const Json a = settings_json(before), b = settings_json(now);
  for (const auto& [name, value] : a.items()) {
    if (name != "timeout_s" && value != b.at(name))
      return fmt::format("{}: {} and {}", name, value.dump(), b.at(name).dump());
  }
  return "";
}

RecordFile::RecordFile(std::filesystem::path file)
    : file_(std::move(file)), is_kept_(!file_.empty() && !find_output_target(file_).is_stream()) {}

void RecordFile::update(const RunRecord& record) {
  using std::chrono::seconds;
  if (!is_kept_) return;
  // A tenth of the time at most goes into writing.
  const auto since = std::chrono::steady_clock::now() - written_;
  if (since > std::max<std::chrono::steady_clock::duration>(seconds(1), took_ * 10)) write(record);
}

void RecordFile::write(const RunRecord& record) {
  if (file_.empty()) return;
  const auto began = std::chrono::steady_clock::now();
  OutputFile file(file_);
  file.write(to_json(record).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  file.commit(/*durable=*/false);
  written_ = std::chrono::steady_clock::now();
  took_ = written_ - began;
}

}  // namespace gantry::conformance
