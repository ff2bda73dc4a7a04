// Names of kernels for Linux's perf, which finds no symbols in memory that no file was mapped to.
#pragma once

#include <span>

#include "device_runtime/src/elf_loader.h"

namespace gantry::runtime {

/// Where the environment has GANTRY_PERF_MAP (not empty, not 0): appends a line for each range to
/// /tmp/perf-PID.map, which `perf report` reads. The file is this user's alone; one that somebody else made,
/// a link or anything but a plain file is left alone, and a line on stderr says why there is no map. What a
/// dead process of the same number left goes. Ranges of unloaded images stay, as perf looks at the map when
/// all is over. Thread-safe.
void add_to_perf_map(std::span<const CodeRange> ranges);

}  // namespace gantry::runtime
