// What the machine that ran can do at most, measured there by a module made for that.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace gantry::cli {

/// Of a machine's CPU time, what others take where figures are to be taken with care.
inline constexpr double kMuchOtherLoad = 0.05;

/// The roofs that kernels stand under. Both are what gantry's own kernels reach where nothing else holds them
/// back, so that a share of them is what is left to gain.
struct MachinePeaks {
  double gflop_per_s = 0;  ///< of a matrix product in the precision of the module that ran
  double gb_per_s = 0;     ///< of reading an array that no cache holds
  int threads = 0;
  std::string how;  ///< a sentence for people
  // What else used the machine meanwhile; none: not shown.
  std::optional<double> others_share = {}, steal_share = {};  ///< of its CPU time: processes, a hypervisor
  /// Of the pulses of its cores (statistics/disturbance.h), those that were disturbed.
  std::optional<double> disturbed_share = {};
};

/// What used the machine so much while the roofs were measured that they are too low: "other processes took
/// 63 % of the machine's CPU time". Empty: nothing, as far as the machine shows it.
std::string busy_text(const MachinePeaks& peaks);
/// The same as a warning; empty likewise.
std::string peaks_warning(const MachinePeaks& peaks);

/// Milliseconds that so many operations on so many bytes take at least under the nearer of the roofs. Less is
/// possible where fewer operations are done than counted (Winograd's algorithm), or caches hold the bytes.
double least_ms(const MachinePeaks& peaks, double flops, double bytes);

/// As in docs/bench.schema.json.
nlohmann::ordered_json peaks_json(const MachinePeaks& peaks);

}  // namespace gantry::cli
