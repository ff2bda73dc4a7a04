// The result of `gantry bench` as a document: docs/bench-schema.md.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/cli/tensor_text.h"
#include "rpc/client/types.h"

namespace gantry::cli {

/// One input as it was given.
struct BenchInput {
  std::string name;
  rpc::ElementType type;
  std::vector<int64_t> shape;
  std::string source;  ///< "random, seed 0" or the file's name
};

/// Everything that was measured, and what is needed to measure it again.
struct BenchReport {
  std::string gantry_version;
  std::string date;                  ///< UTC, ISO 8601
  std::vector<std::string> command;  ///< the program's arguments
  std::string model;                 ///< the file as given
  std::string module_digest;         ///< SHA-256 of the module that ran, hexadecimal
  uint64_t module_bytes = 0;
  std::string board;    ///< as the user called it; "local" for this machine
  std::string address;  ///< HOST:PORT; empty for this machine
  std::string device = "cpu";
  int opt_level = -1;  ///< -1: a module was given
  std::vector<BenchInput> inputs;
  rpc::BenchmarkOptions options;
  rpc::BenchmarkResult result;
  std::vector<std::string> warnings;
};

/// What about the figures should be taken with care: noise, clocks that moved, throttling, few samples.
std::vector<std::string> noise_warnings(const rpc::BenchmarkResult& result);

std::string report_to_json(const BenchReport& report);
/// What `compare` needs of a document. User errors name the file and the field.
struct ReportSummary {
  std::filesystem::path path;
  std::vector<double> samples_ms;
  std::string model, board, device, target, module_digest, cpu, date;
  int64_t threads = 0;
  std::map<std::string, std::string> inputs;  ///< name -> "f32 1x3x224x224"
};
ReportSummary read_report(const std::filesystem::path& path);
/// Differences that make a comparison say less: another board, thread count, model or input shape.
std::vector<std::string> comparability_warnings(const ReportSummary& base, const ReportSummary& other);

/// The table for people. `profile`: also the kernels, worst first. `width` of the terminal, 0: unlimited.
std::string report_text(const BenchReport& report, size_t width);

}  // namespace gantry::cli
