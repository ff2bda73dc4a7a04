// A result of `gantry bench` read back, to be drawn over time.
#pragma once

#include <filesystem>
#include <string>

#include "host/cli/measurement.h"

namespace gantry::cli {

struct RecordedResult {
  std::string model, board;
  /// Its processes with their samples and readings; of `last` the kernels, in the plan's order, and the
  /// timeline.
  Measurement measurement;
};

/// Reads documents of schema versions 1 and 2. User errors name the file and the field.
RecordedResult read_recorded_result(const std::filesystem::path& path);

}  // namespace gantry::cli
