// Builds small modules for tests, with a writer of its own: an independent reading of docs/module-format.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/memory.h"
#include "device_runtime/src/status.h"
#include "module_generated.h"

namespace gantry::runtime::testing {

/// Bytes of a file in testdata; empty if it cannot be read.
std::vector<std::byte> read_testdata(const std::string& name);
/// The image testdata/NAME_ARCH.so of the running architecture.
std::vector<std::byte> read_image(const std::string& name);
/// The running architecture in a manifest's terms.
module_format::Architecture running_architecture();

/// Everything of a module that tests alter before it is written.
struct ModuleBuilder {
  module_format::ManifestT manifest;
  std::vector<std::vector<std::byte>> segments;  ///< of manifest.segments

  /// A variant for the running machine with the image of testdata/kernels.c and an empty plan.
  ModuleBuilder();

  module_format::VariantT& variant() { return *manifest.variants[0]; }
  uint32_t constant(int64_t value);
  /// The dimension that is the symbol; adds the symbol where it is new.
  uint32_t symbol(const std::string& name);
  /// `left op right` for expressions that exist.
  uint32_t combine(module_format::DimOpcode opcode, uint32_t left, uint32_t right);
  void add_input(const std::string& name, std::vector<uint32_t> shape, ElementType type = ElementType::kF32);
  void add_output(const std::string& name, std::vector<uint32_t> shape, ElementType type = ElementType::kF32);
  /// Indices of new buffers of the variant.
  uint32_t input_buffer(uint32_t input, uint32_t bytes);
  uint32_t output_buffer(uint32_t output, uint32_t bytes);
  uint32_t workspace_buffer(uint32_t offset, uint32_t bytes);
  uint32_t constant_buffer(std::span<const float> values);
  /// Adds the kernel of that symbol, and a step that calls it.
  void call(const std::string& symbol, std::vector<uint32_t> buffers, std::vector<uint32_t> dims,
            std::vector<std::string> origin = {});
  void copy(uint32_t source, uint32_t target);

  /// Fills in the segment table and returns the file's bytes.
  std::vector<std::byte> write();
  /// The manifest's bytes; the segment table is filled in.
  std::vector<std::byte> write_manifest();

 private:
  uint32_t add_buffer(module_format::BufferKind kind, uint32_t index, uint32_t offset, uint32_t bytes);
};

/// out = (in + 1)², in: f32 (N, 4) with a symbolic N, through the workspace.
ModuleBuilder symbolic_module();
/// out = in + 1, in: f32 (2, 3).
ModuleBuilder static_module();
/// As symbolic_module() by two steps, but in + 1 by one for N = 2.
ModuleBuilder specialized_module();

/// A copy in memory as aligned as the reader wants it.
SharedBytes share(std::span<const std::byte> bytes);

}  // namespace gantry::runtime::testing
