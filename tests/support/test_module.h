/// Module files for tests, made without the compiler: one kernel in C, built by the machine's C compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gantry::testing {

struct TestModule {
  /// Body of int kernel(float* in, float* out, const float* weights, char* workspace).
  std::string body = "for (int i = 0; i < 4; ++i) out[i] = 2 * in[i] + weights[0]; return 0;";
  std::string kernel_name = "test.double";
  std::string origin = "Node_7";
  std::int64_t elements = 4;           ///< floats in and out
  std::uint64_t weights_bytes = 4096;  ///< the first float is 1, the rest is noise of `seed`
  std::uint64_t workspace_bytes = 64;
  std::uint32_t seed = 1;
  bool other_architecture = false;  ///< claims to be for a CPU that this one is not
  std::string compiler = "cc";      ///< a cross-compiler for a module that really is
};

/// The module file's bytes. Throws std::runtime_error if there is no C compiler.
std::vector<std::byte> build(const TestModule& module);
/// Its kernel's image, and the module around such an image: for many modules whose kernel is the same.
std::vector<std::byte> build_kernel(const TestModule& module);
std::vector<std::byte> build(const TestModule& module, const std::vector<std::byte>& kernel);

}  // namespace gantry::testing
