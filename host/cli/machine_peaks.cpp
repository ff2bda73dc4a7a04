#include "host/cli/machine_peaks.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gantry::cli {

double least_ms(const MachinePeaks& peaks, double flops, double bytes) {
  return std::max(flops / peaks.gflop_per_s, bytes / peaks.gb_per_s) / 1e6;
}

nlohmann::ordered_json peaks_json(const MachinePeaks& peaks) {
  return {{"gflop_per_s", peaks.gflop_per_s},
          {"gb_per_s", peaks.gb_per_s},
          {"cache_gb_per_s", nullptr},
          {"threads", peaks.threads},
          {"how", peaks.how}};
}

}  // namespace gantry::cli
