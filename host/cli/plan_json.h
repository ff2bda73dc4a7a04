// A plan of a checked manifest as JSON, and what reading it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/graph/dim.h"
#include "module_generated.h"

namespace gantry::cli {

/// The manifest's dimension expressions as the host's, for printing. The manifest was checked, and outlives
/// it.
class ManifestDims {
 public:
  explicit ManifestDims(const module_format::Manifest& manifest) : manifest_(manifest) {}

  Dim get(uint32_t expression) const;
  /// "(N, 3, 224, 224)"
  std::string shape(const flatbuffers::Vector<uint32_t>& dims) const;

 private:
  void apply(const module_format::DimStep& step, std::vector<Dim>& stack) const;

  const module_format::Manifest& manifest_;
};

/// Empty where there is none.
std::string string_of(const flatbuffers::String* text);
/// "cpu", "cuda", "cuda-emulated".
const char* name_of(module_format::Device device);
/// With memory of its own: plans then say what lies where.
bool is_cuda(const module_format::Variant& variant);
size_t launch_count(const module_format::Kernel& kernel);

/// How the steps of a variant use one of its kernels.
struct KernelUse {
  int calls = 0;
  Dim flops, bytes;
};
/// Parallel to the variant's kernels.
std::vector<KernelUse> kernel_uses(const module_format::Variant& variant, const ManifestDims& dims);

/// A number where the dimension is constant, its text where it is symbolic.
nlohmann::ordered_json dim_json(const Dim& dim);
/// What `gantry inspect --json` says of a variant's kernels, of the steps of its plan, and of where its
/// buffers lie.
nlohmann::ordered_json kernels_json(const module_format::Variant& variant, const ManifestDims& dims);
nlohmann::ordered_json steps_json(const module_format::Variant& variant, const ManifestDims& dims);
nlohmann::ordered_json buffers_json(const module_format::Variant& variant, const ManifestDims& dims);

}  // namespace gantry::cli
