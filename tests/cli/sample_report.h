// Bench reports made up for tests.
#pragma once

#include <string>
#include <vector>

#include "host/cli/bench_report.h"

namespace gantry::cli::testing {

/// Computes the interval again, after processes were changed.
inline void finish(BenchReport& report) {
  Measurement& measurement = report.measurement;
  const std::vector<ProcessSamples> speed = speed_of(measurement.processes);
  measurement.interval.reset();
  if (speed.size() > 1 || speed.front().samples_ms.size() >= kFewestSamples)
    measurement.interval = median_interval(speed);
}

/// Gives a process samples that began 10 ms apart, and a pulse before each and after the last.
inline void set_pulses(ProcessMeasurement& process, const std::vector<double>& values) {
  process.started_ms.clear();
  process.pulses.clear();
  for (size_t i = 0; i < process.samples_ms.size(); ++i)
    process.started_ms.push_back(10 * static_cast<double>(i));
  for (size_t i = 0; i < values.size(); ++i)
    process.pulses.push_back({10 * static_cast<double>(i) - 1, values[i], values[i]});
}

/// A report of `samples`, a list of times a process, on a board called pi4.
inline BenchReport sample_report(const std::vector<std::vector<double>>& samples) {
  BenchReport report;
  report.gantry_version = "0.1.0";
  report.date = "2025-01-01T00:00:00Z";
  report.command = {"gantry", "bench", "m.onnx"};
  report.model = "m.onnx";
  report.module_digest = std::string(64, 'a');
  report.module_bytes = 1000;
  report.board = "pi";
  report.address = "10.0.0.1:7453";
  report.opt_level = 3;
  report.precision = "fp32";
  report.inputs = {{"input", *parse_type_name("f32"), {1, 3, 8, 8}, "random, seed 0"}};
  Measurement& measurement = report.measurement;
  for (const std::vector<double>& times : samples) {
    ProcessMeasurement& process = measurement.processes.emplace_back();
    process.load_ms = 3;
    process.first_inference_ms = 5;
    process.warm_up = {10, 100, true};
    process.samples_ms = times;
  }
  measurement.elapsed_s = 1;
  measurement.last.threads = 2;
  measurement.last.target = "aarch64";
  measurement.board.version = "0.1.0";
  measurement.board.hostname = "pi4";
  measurement.board.architecture = "aarch64";
  measurement.board.cpu = "Cortex-A72";
  measurement.board.logical_cpus = measurement.board.physical_cores = 4;
  measurement.board.memory_bytes = 1u << 30;
  finish(report);
  return report;
}

}  // namespace gantry::cli::testing
