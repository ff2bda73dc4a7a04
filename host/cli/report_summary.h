// Results of `gantry bench` read back, to be compared.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/bench_report.h"
#include "host/cli/statistics/comparison.h"

namespace gantry::cli {

/// What a comparison needs of a result. What the document does not say is empty or none.
struct ReportSummary {
  std::string name;  ///< for people: the file, or the model that was measured just now
  std::vector<ProcessSamples> processes;
  std::string model, board, device, target, module_digest, cpu, date, precision;
  std::optional<int> opt_level;
  std::string optimize;
  int64_t threads = 0;
  uint32_t streams = 0;  ///< 0: none
  bool cold = false;
  std::map<std::string, std::string> inputs;  ///< name -> "f32 1x3x224x224, random, seed 0"
  std::optional<bool> throttled;
  std::optional<double> others_share;       ///< of the machine's CPU time
  size_t restless_processes = 0;            ///< that never became steady
  std::optional<double> undisturbed_pulse;  ///< level of pulses by which samples were left out
  std::optional<double> disturbed_share;    ///< of all samples
  bool uses_disturbed = false;              ///< those count: too few others are there

  size_t samples() const;
};

/// Reads documents of schema versions 1 and 2. What was disturbed is left out by the document's own level of
/// pulses, or by `level` where the same machine is known to have reached a lower one. User errors name the
/// file and the field.
ReportSummary read_report(const std::filesystem::path& path, std::optional<double> level = std::nullopt);
/// The same of a document that has been read of `path` already: a pipe is read but once.
ReportSummary summary_of_document(const nlohmann::json& json, const std::filesystem::path& path,
                                  std::optional<double> level = std::nullopt);
/// The level of pulses by which two are judged: the lower of theirs, where both are known and of one machine.
/// None: each by its own.
std::optional<double> common_level(const ReportSummary& first, const ReportSummary& second);
/// Both, by their common level.
std::pair<ReportSummary, ReportSummary> read_reports(const std::filesystem::path& first,
                                                     const std::filesystem::path& second);
/// Whether the file is JSON, by its first bytes: what `compare` takes for a result.
bool looks_like_json(const std::filesystem::path& path);
/// Of what was measured just now.
ReportSummary summary_of(const BenchReport& report);

/// What two results do not tell, and how much wider the interval must be for it.
struct Comparability {
  std::vector<std::string> warnings;
  double extra_spread = 0;  ///< relative, of each side
};
Comparability comparability(const ReportSummary& base, const ReportSummary& other);

}  // namespace gantry::cli
