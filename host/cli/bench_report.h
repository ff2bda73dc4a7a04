// The result of `gantry bench` as a document (docs/bench-schema.md) and as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/inputs.h"
#include "host/cli/kernel_table.h"
#include "host/cli/machine_peaks.h"
#include "host/cli/measurement.h"
#include "host/cli/program_choice.h"
#include "host/cli/program_facts.h"
#include "host/cli/tensor_text.h"

namespace gantry::cli {

/// One input as it was given.
struct BenchInput {
  std::string name;
  rpc::ElementType type;
  std::vector<int64_t> shape;
  std::string source;  ///< "random, seed 0" or the file's name
  std::vector<ChosenSize> chosen = {};
};

/// Everything that was measured, and what is needed to measure it again.
struct BenchReport {
  std::string gantry_version;
  std::string date;                  ///< UTC, ISO 8601
  std::vector<std::string> command;  ///< the program's arguments, URLs without passwords
  std::string model;                 ///< the file as given
  std::string module_digest;         ///< SHA-256 of the module that ran, hexadecimal
  uint64_t module_bytes = 0;
  std::string board;    ///< as the user called it; "local" for this machine
  std::string address;  ///< HOST:PORT; empty for this machine
  std::string device = "cpu";
  int opt_level = -1;     ///< -1: a module was given
  std::string optimize;   ///< "speed", "size" or "fast-math"; empty: the module does not say
  std::string precision;  ///< as resolved: "fp32-split"; empty: the module does not say
  ProgramChoice program_choice = {};  ///< of the module's programs, the one that ran
  uint64_t seed = 0;      ///< of made-up inputs
  std::vector<BenchInput> inputs;
  MeasureOptions options;
  Measurement measurement;
  std::vector<std::string> warnings;
  // Of a profile.
  std::optional<ProgramFacts> program;  ///< the plan that ran
  std::optional<MachinePeaks> peaks;    ///< of the machine
  std::string peaks_note;               ///< why there are none
};

/// What the readings of all processes say of the machine while it was sampled; none: not shown.
struct MachineSummary {
  std::optional<double> clock_mhz_mean, clock_mhz_min, clock_mhz_max;  ///< of the CPUs that ran
  std::optional<double> temperature_celsius_max;
  std::optional<int64_t> throttle_events;           ///< during the processes, summed
  std::optional<bool> throttled;                    ///< at any reading
  std::optional<double> energy_joules;              ///< of the segments that were sampled
  std::optional<double> power_watts;                ///< mean over them
  std::optional<double> others_share, steal_share;  ///< of the machine's CPU time, mean
  std::optional<double> gpu_clock_mhz, gpu_temperature_celsius_max, gpu_power_watts;
  std::optional<bool> gpu_throttled;
};
MachineSummary summarise_machine(const Measurement& measurement);

/// What about the figures should be taken with care: never steady, wide, one process, noise, other load,
/// clocks that moved, throttling, the board's deadline.
std::vector<std::string> measurement_warnings(const Measurement& measurement, const MeasureOptions& options);

/// Of those, what the machine did meanwhile, and what its server allowed.
std::vector<std::string> machine_warnings(const Measurement& measurement);

/// "the cores gave 0.68 of their speed for 80 % of the time"; empty where that was too little to matter.
std::string disturbance_text(const Measurement& measurement);

/// The document; ends with a line feed.
std::string report_to_json(const BenchReport& report);

/// The tables for people; of kernels, where they were timed, as `profile` says.
std::string report_text(const BenchReport& report, KernelTableOptions profile);

}  // namespace gantry::cli
