// A module's variant on a GPU: its kernels and its weights.
#pragma once

#include <memory>
#include <vector>

#include "device_runtime/src/cuda_device.h"
#include "module_generated.h"

namespace gantry::runtime {
class ModuleContents;
}

namespace gantry::runtime::cuda {

/// Loaded once a module and shared by its sessions. Immutable.
class Program {
 public:
  /// Assembled code where it fits the GPU, else PTX, which the driver compiles. Uploads the constants that
  /// the GPU's kernels read. Errors: INVALID_MODULE names an entry that the code lacks, or has the driver's
  /// log of PTX that it refuses; OUT_OF_MEMORY.
  static Result<std::shared_ptr<const Program>> load(std::shared_ptr<Device> device,
                                                     const ModuleContents& contents,
                                                     const module_format::Variant& variant);
  ~Program();
  Program() = default;
  Program(const Program&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  /// Entry of a launch of a kernel that runs on the GPU.
  Function function(uint32_t kernel, uint32_t launch) const { return functions_[kernel][launch]; }
  /// Address of a constant, 0 for one that only the CPU reads.
  DevicePointer constant(uint32_t index) const { return constants_[index]; }
  uint64_t weights_bytes() const { return weights_bytes_; }

 private:
  Status load_code(const ModuleContents& contents, const module_format::Variant& variant);
  Status load_image(const void* image, const char* what);
  Status find_functions(const module_format::Variant& variant);
  Status upload_constants(const ModuleContents& contents, const module_format::Variant& variant);

  std::shared_ptr<Device> device_;
  ModuleHandle module_ = nullptr;
  std::vector<std::vector<Function>> functions_;
  std::vector<DevicePointer> constants_;
  Memory weights_;
  uint64_t weights_bytes_ = 0;
};

}  // namespace gantry::runtime::cuda
