// What the machine that ran can do at most, measured there by a module made for that.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gantry::cli {

/// The roofs that kernels stand under. Both are what gantry's own kernels reach where nothing else holds them
/// back, so that a share of them is what is left to gain.
struct MachinePeaks {
  double gflop_per_s = 0;  ///< of a matrix product in the precision of the module that ran
  double gb_per_s = 0;     ///< of reading an array that no cache holds
  int threads = 0;
  std::string how;  ///< a sentence for people
};

/// Milliseconds that so many operations on so many bytes take at least under the nearer of the roofs. Less is
/// possible where fewer operations are done than counted (Winograd's algorithm), or caches hold the bytes.
double least_ms(const MachinePeaks& peaks, double flops, double bytes);

/// As in docs/bench.schema.json.
nlohmann::ordered_json peaks_json(const MachinePeaks& peaks);

}  // namespace gantry::cli
