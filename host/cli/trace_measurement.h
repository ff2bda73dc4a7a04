// What was measured, as tracks of a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/measurement.h"
#include "host/trace/trace.h"

namespace gantry::cli {

/// Kernels on the threads that computed them, of the timeline; where there is none, by their medians one
/// after another, and without kernels no tracks. The first track has the steps, whole. The run begins at
/// `begin_ns`.
TraceProcess kernel_tracks(const rpc::BenchmarkResult& result, const std::string& name, int64_t begin_ns);

/// Of every process a track with its load, first inference, warm-up and samples; and counters of what the
/// machine showed. `sampled_ns`: when each process's first sample began; empty: one process follows another.
/// Of streams, whose runs overlap, the samples are a counter.
TraceProcess sample_tracks(const Measurement& measurement, const std::string& name,
                           const std::vector<int64_t>& sampled_ns);
/// When the last one's tracks end.
int64_t end_of(const TraceProcess& process);

}  // namespace gantry::cli
