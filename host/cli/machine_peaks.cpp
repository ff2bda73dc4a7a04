#include "host/cli/machine_peaks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/cli/json_values.h"

namespace gantry::cli {
namespace {

/// Of the pulses: a roof is what the fastest of several runs reaches, for which the other half is enough.
constexpr double kMostlyDisturbed = 0.5;

}  // namespace

double least_ms(const MachinePeaks& peaks, double flops, double bytes) {
  return std::max(flops / peaks.gflop_per_s, bytes / peaks.gb_per_s) / 1e6;
}

std::string busy_text(const MachinePeaks& peaks) {
  std::vector<std::string> causes;
  if (peaks.others_share.value_or(0) > kMuchOtherLoad)
    causes.push_back(
        fmt::format("other processes took {:.0f} % of the machine's CPU time", 100 * *peaks.others_share));
  if (peaks.steal_share.value_or(0) > kMuchOtherLoad)
    causes.push_back(
        fmt::format("the hypervisor took {:.0f} % of the CPU time for others", 100 * *peaks.steal_share));
  if (peaks.disturbed_share.value_or(0) > kMostlyDisturbed)
    causes.push_back(
        fmt::format("something outside of the machine's sight used its cores for {:.0f} % of the time",
                    100 * *peaks.disturbed_share));
  return fmt::format("{}", fmt::join(causes, ", "));
}

std::string peaks_warning(const MachinePeaks& peaks) {
  const std::string busy = busy_text(peaks);
  if (busy.empty()) return "";
  return fmt::format(
      "the roofs are too low: {} while they were measured; measure again when nothing else runs there", busy);
}

nlohmann::ordered_json peaks_json(const MachinePeaks& peaks) {
  return {{"gflop_per_s", peaks.gflop_per_s},
          {"gb_per_s", peaks.gb_per_s},
          {"cache_gb_per_s", nullptr},
          {"threads", peaks.threads},
          {"how", peaks.how},
          {"others_share", shown(peaks.others_share)},
          {"steal_share", shown(peaks.steal_share)},
          {"disturbed_share", shown(peaks.disturbed_share)},
          {"busy", said(busy_text(peaks))}};
}

}  // namespace gantry::cli
