// What runs a module's kernels, by the names that users give: "cpu", "cuda", "cuda:1", "cuda-emulated".
#pragma once

#include <string>
#include <string_view>

#include "device_runtime/src/status.h"
#include "module_generated.h"

namespace gantry::runtime {

struct DeviceName {
  module_format::Device type = module_format::Device::Cpu;
  int index = 0;  ///< of several GPUs

  bool operator==(const DeviceName&) const = default;
};

/// "" is the CPU. INVALID_ARGUMENT lists the devices that there are.
Result<DeviceName> parse_device(std::string_view text);
/// As parse_device reads it.
std::string device_text(const DeviceName& device);
/// "cpu", "cuda", "cuda-emulated"
const char* device_type_text(module_format::Device type);

}  // namespace gantry::runtime
