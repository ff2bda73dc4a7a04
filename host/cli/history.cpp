#include "host/cli/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/cli/file_kind.h"
#include "host/cli/json_values.h"
#include "host/support/error.h"
#include "host/support/folder_lock.h"
#include "host/support/input_file.h"
#include "host/support/output_file.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "gantry-history";
constexpr int kSchemaVersion = 1;

std::string header_line() {
  return Json({{"schema", kSchema}, {"schema_version", kSchemaVersion}}).dump() + "\n";
}

Json to_json(const HistoryEntry& entry) {
  return {{"date", entry.point.date},
          {"label", entry.point.label},
          {"series", entry.series},
          {"process_medians_ms", entry.point.process_medians_ms},
          {"module_digest", entry.module_digest},
          {"precision", said(entry.precision)},
          {"gantry_version", entry.gantry_version}};
}

HistoryEntry from_json(const Json& json) {
  HistoryEntry entry;
  entry.series = json.at("series").get<std::string>();
  entry.point.date = json.at("date").get<std::string>();
  entry.point.label = json.at("label").get<std::string>();
  entry.point.process_medians_ms = json.at("process_medians_ms").get<std::vector<double>>();
  entry.module_digest = json.at("module_digest").get<std::string>();
  if (!json.at("precision").is_null()) entry.precision = json.at("precision").get<std::string>();
  entry.gantry_version = json.at("gantry_version").get<std::string>();
  return entry;
}

/// As the file gives it back: names of files may be no UTF-8.
std::string as_kept(const std::string& text) {
  return Json::parse(document_text(Json(text))).get<std::string>();
}

bool is_header(const Json& json) {
  const auto has = [&](const char* field, const Json& value) {
    return json.contains(field) && json.at(field) == value;
  };
  return has("schema", kSchema) && has("schema_version", kSchemaVersion);
}

bool usable(const HistoryEntry& entry) {
  return !entry.point.process_medians_ms.empty() &&
         std::ranges::all_of(entry.point.process_medians_ms,
                             [](double ms) { return std::isfinite(ms) && ms > 0; });
}

}  // namespace

HistoryEntry history_entry(const ReportSummary& report, const std::string& label,
                           const std::string& gantry_version) {
  HistoryEntry entry;
  entry.point.date = report.date;
  entry.point.label = label;
  for (const ProcessSamples& process : report.processes) {
    entry.point.process_medians_ms.push_back(median_of(process.samples_ms));
  }
  entry.series = fmt::format("{} on {} ({}), {}, {}", std::filesystem::path(report.model).stem().string(),
                             report.board, report.cpu, report.device, counted(report.threads, "thread"));
  if (report.streams > 0) entry.series += fmt::format(", {} streams", report.streams);
  if (report.cold) entry.series += ", cold";
  for (const auto& [name, type] : report.inputs) {
    entry.series += fmt::format(", {} {}", name, type.substr(0, type.find(',')));
  }
  entry.series = as_kept(entry.series);
  entry.module_digest = report.module_digest;
  entry.precision = report.precision;
  entry.gantry_version = gantry_version;
  return entry;
}

History History::read(const std::filesystem::path& path, bool replace_others) {
  History history;
  history.path_ = path;
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return history;
  // Pipes and devices keep nothing, and may have no end.
  if (!std::filesystem::is_regular_file(path, code) && !std::filesystem::is_directory(path, code))
    return history;
  if (replace_others && kind_of_file(path) != FileKind::kHistory) return history;
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    const Json json = Json::parse(text, nullptr, false);
    if (line == 1) {
      if (!is_header(json)) {
        user_error(
            "{}: is not a history of gantry's (its first line is not '{}'); give --history another file",
            path.string(), header_line().substr(0, header_line().size() - 1));
      }
      continue;
    }
    try {
      history.entries_.push_back(from_json(json));
    } catch (const Json::exception&) {
      user_error("{}: line {} is damaged; remove it", path.string(), line);
    }
    if (!usable(history.entries_.back()))
      user_error("{}: line {} has no usable times; remove it", path.string(), line);
  }
  return history;
}

bool History::add(const HistoryEntry& entry) {
  const bool known = std::ranges::any_of(entries_, [&](const HistoryEntry& other) {
    return other.series == entry.series && other.point.date == entry.point.date &&
           other.point.process_medians_ms == entry.point.process_medians_ms;
  });
  if (!known) entries_.push_back(entry);
  return !known;
}

void History::append(const std::filesystem::path& path, const HistoryEntry& entry, bool replace_others) {
  const FolderLock lock(path.parent_path());
  History history = read(path, replace_others);
  if (history.add(entry)) history.write();
}

void History::write() const {
  std::string text = header_line();
  for (const HistoryEntry& entry : entries_) {
    text += to_json(entry).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  write_file(path_, text);
}

std::vector<SeriesPoint> History::series(const std::string& name) const {
  std::vector<SeriesPoint> points;
  for (const HistoryEntry& entry : entries_) {
    if (entry.series == name) points.push_back(entry.point);
  }
  return points;
}

}  // namespace gantry::cli
