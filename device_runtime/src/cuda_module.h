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

/// The constants of a module on a GPU: the same bytes of the file once, whichever of its variants read them.
/// Belongs to one thread while it takes more; what it has stays where it is.
class Weights {
 public:
  /// The bytes of a constant in the file.
  struct Place {
    uint32_t segment = 0;
    uint64_t offset = 0, size = 0;
    bool operator==(const Place&) const = default;
  };
  explicit Weights(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  /// Takes those that it does not have; the sum of their sizes. The device must be entered. Errors:
  /// INVALID_MODULE for a segment that is missing; OUT_OF_MEMORY.
  Result<uint64_t> upload(const ModuleContents& contents, const std::vector<Place>& places);
  /// Of one that it has.
  DevicePointer address(const Place& place) const { return find(held_, place)->address; }

 private:
  struct Held {
    Place place;
    DevicePointer address;
  };
  /// Null if there is none. Looks at all: a module has hundreds, and a tree of them would double this code.
  static const Held* find(const std::vector<Held>& all, const Place& place);

  std::shared_ptr<const Device> device_;
  std::vector<Memory> blocks_;  ///< one an upload
  std::vector<Held> held_;
};

/// Loaded once a module and shared by its sessions. Immutable.
class Program {
 public:
  /// Assembled code where it fits the GPU, else PTX, which the driver compiles. Uploads the constants that
  /// the GPU's kernels read and that `weights`, which are of that device, lack. Errors: INVALID_MODULE names
  /// an entry that the code lacks, or has the driver's log of PTX that it refuses; OUT_OF_MEMORY.
  static Result<std::shared_ptr<const Program>> load(std::shared_ptr<Device> device,
                                                     const ModuleContents& contents,
                                                     const module_format::Variant& variant,
                                                     const std::shared_ptr<Weights>& weights);
  ~Program();
  Program() = default;
  Program(const Program&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  /// Entry of a launch of a kernel that runs on the GPU.
  Function function(uint32_t kernel, uint32_t launch) const { return functions_[kernel][launch]; }
  /// Address of a constant, 0 for one that only the CPU reads.
  DevicePointer constant(uint32_t index) const { return constants_[index]; }
  /// Of the constants that were uploaded for it: those that others had are theirs.
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
  std::shared_ptr<Weights> weights_;
  uint64_t weights_bytes_ = 0;
};

}  // namespace gantry::runtime::cuda
