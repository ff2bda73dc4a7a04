/// Module files executed in this process through the runtime's C interface.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gantry/dlpack.h"
#include "host/graph/graph.h"

namespace gantry::testing {

DLDataType to_dlpack(DType dtype);
/// Copies `data`. Throws std::runtime_error for a type that gantry does not have.
ConstantPtr to_constant(uint8_t code, uint8_t bits, const std::vector<int64_t>& shape, const void* data);

/// The device of this machine that runs code for that target: "cpu", "cuda" or "cuda-emulated".
std::string device_for(const std::string& target);

/// The target of tests that run kernels of a GPU: the emulated one, with `checks` ("+checks") where given,
/// or, on a machine that has a GPU, the one that GANTRY_TEST_GPU names: "cuda:sm_90".
std::string gpu_test_target(const std::string& checks = "");

/// A loaded module on this machine; run() may be called with inputs of any shapes that the model allows.
class LocalModel {
 public:
  explicit LocalModel(const std::vector<std::byte>& module_file, int threads = 2,
                      const std::string& device = "cpu");
  ~LocalModel();
  LocalModel(const LocalModel&) = delete;
  LocalModel& operator=(const LocalModel&) = delete;

  /// Outputs for inputs in the model's order. Throws std::runtime_error with the runtime's message.
  std::vector<ConstantPtr> run(const std::vector<ConstantPtr>& inputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry::testing
