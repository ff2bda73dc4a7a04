// All of `gantry compare` but its files, history and texts.
#pragma once

#include <filesystem>
#include <string>

#include "host/cli/compare_report.h"
#include "host/cli/compare_run.h"
#include "host/cli/execution.h"

namespace gantry::cli {

struct CompareSide {
  ExecutionOptions execution;
  std::string name;  ///< what reports call it
};

/// Compiles what is a model, measures both in turns, reports; history and verdict are the caller's. `hear` as
/// of bench_model. Errors: those of prepare_execution and compare_live.
CompareReport compare_models(const CompareSide& first, const CompareSide& second,
                             const CompareMeasureOptions& options, const Invocation& invocation,
                             const MeasureProgress& hear = {});

/// Of two results of `gantry bench --json`, measured apart. User errors: those of read_report.
CompareReport compare_results(const std::filesystem::path& first, const std::filesystem::path& second,
                              const CompareOptions& statistics);

}  // namespace gantry::cli
