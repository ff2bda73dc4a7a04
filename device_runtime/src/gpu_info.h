// The GPUs of this machine, for people and for the compiler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

struct GpuInfo {
  std::string name;
  int compute_capability = 0;  ///< 10 * major + minor
  int multiprocessors = 0;
  int clock_mhz = 0;  ///< the highest
  uint64_t memory_bytes = 0;
  uint64_t memory_free_bytes = 0;  ///< 0 where not asked for
  uint64_t l2_bytes = 0;
  int cuda_version = 0;  ///< that the driver supports: 1000 * major + 10 * minor
  std::string driver;    ///< "550.54.14"; "" where not shown
};

struct GpuList {
  std::vector<GpuInfo> gpus;
  std::string problem;  ///< why there are none
};

/// Starts NVIDIA's driver in this process: see cuda::driver.
GpuList describe_gpus();
/// As describe_gpus in a child process, so that this one may fork. A driver that does not answer within
/// `timeout_ms` is a problem. The child has open what this process has; it ends with the thread that asks.
GpuList describe_gpus_in_child(int timeout_ms = 15000);

/// What changes while a GPU works; members without a value are not shown by this machine.
struct GpuState {
  std::optional<double> clock_mhz;
  std::optional<double> temperature_c;
  std::optional<double> power_watts;
  std::optional<bool> throttled;   ///< by heat or power
  std::optional<double> energy_j;  ///< since its driver started
};
/// Of the GPU with that bus id, by NVIDIA's management library where the machine has it (libnvidia-ml.so.1).
GpuState read_gpu_state(const std::string& bus_id);

}  // namespace gantry::runtime
