// Module files executed in this process through the runtime's C interface. Without the compiler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gantry/dlpack.h"
#include "host/graph/graph.h"

namespace gantry {

DLDataType to_dlpack(DType dtype);
/// Copies `data`. An internal error for a type that gantry does not have.
ConstantPtr to_constant(uint8_t code, uint8_t bits, const std::vector<int64_t>& shape, const void* data);

/// A loaded module on this machine; run() may be called with inputs of any shapes that the model allows.
class LoadedProgram {
 public:
  /// `device`: "cpu", "cuda" or "cuda-emulated". Throws an Error with the runtime's message.
  explicit LoadedProgram(const std::vector<std::byte>& module_file, int threads = 2,
                         const std::string& device = "cpu");
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  /// Outputs, copied, for inputs in the module's order. Throws an Error with the runtime's message.
  std::vector<ConstantPtr> run(const std::vector<ConstantPtr>& inputs);
  /// Milliseconds of the fastest of `runs` runs with these inputs: for choosing among schedules. To compare builds or
  /// boards, measure with `gantry bench` and `gantry compare`, which say how certain a figure is.
  double fastest_ms(const std::vector<ConstantPtr>& inputs, int runs);

 private:
  void set_inputs(const std::vector<ConstantPtr>& inputs);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry
