// A series of results that is kept in a file: a line of JSON each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/cli/report_summary.h"
#include "host/cli/statistics/changes.h"

namespace gantry::cli {

/// One result in the file. Entries with the same `series` are comparable: one model, device, number of
/// threads and streams, inputs and board.
struct HistoryEntry {
  std::string series;
  SeriesPoint point;
  std::string module_digest, precision, gantry_version;
};

HistoryEntry history_entry(const ReportSummary& report, const std::string& label,
                           const std::string& gantry_version);

class History {
 public:
  /// Reads the file; none at all, a pipe or a device is an empty history, and so is a file of another kind
  /// that may be replaced. User errors name the file and the line.
  static History read(const std::filesystem::path& path, bool replace_others = false);

  /// Adds the entry to the file as it is now, and writes it whole; nothing where the same result is in it
  /// already. Another gantry that does so at the same time waits.
  static void append(const std::filesystem::path& path, const HistoryEntry& entry,
                     bool replace_others = false);

  /// False where the same result is in it already.
  bool add(const HistoryEntry& entry);
  /// The points of that series, in the order that they were added.
  std::vector<SeriesPoint> series(const std::string& name) const;

 private:
  void write() const;

  std::filesystem::path path_;
  std::vector<HistoryEntry> entries_;
};

}  // namespace gantry::cli
