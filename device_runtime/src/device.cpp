#include "device_runtime/src/device.h"

#include <charconv>

namespace gantry::runtime {

using module_format::Device;

const char* device_type_text(Device type) {
  switch (type) {
    case Device::Cpu:
      return "cpu";
    case Device::Cuda:
      return "cuda";
    case Device::CudaEmulated:
      return "cuda-emulated";
  }
  return "unknown";
}

Result<DeviceName> parse_device(std::string_view text) {
  if (text.empty() || text == "cpu") return DeviceName{};
  if (text == "cuda") return DeviceName{Device::Cuda, 0};
  if (text == "cuda-emulated") return DeviceName{Device::CudaEmulated, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const std::string_view digits = text.substr(kPrefix.size());
    DeviceName device{Device::Cuda, 0};
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), device.index);
    if (error == std::errc() && stop == digits.data() + digits.size() && device.index >= 0) return device;
  }
  const int shown = static_cast<int>(text.size() < 64 ? text.size() : 64);
  return failure(GANTRY_INVALID_ARGUMENT,
                 "unknown device '%.*s': there are cpu, cuda (cuda:1 for the second GPU) and cuda-emulated",
                 shown, text.data());
}

std::string device_text(const DeviceName& device) {
  const std::string type = device_type_text(device.type);
  return device.index == 0 ? type : type + ":" + std::to_string(device.index);
}

}  // namespace gantry::runtime
