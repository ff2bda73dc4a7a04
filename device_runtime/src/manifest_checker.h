// What check_manifest() looks at, a part a file: the module as a whole in manifest_check.cpp, a variant's
// code and its kernels in manifest_check_code.cpp, the steps of its plans in manifest_check_plan.cpp, those
// that run other plans or builtins in manifest_check_calls.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device_runtime/src/status.h"
#include "module_generated.h"

namespace gantry::runtime::manifest {

using namespace module_format;  // NOLINT: this is about nothing else

// Parts of a FlatBuffer may be shared, so that a small file could ask for endless work. Entries looked at,
// bytes of texts included, may sum up to this; real models stay far below.
inline constexpr uint64_t kMaxWork = uint64_t{1} << 26;

/// INVALID_MODULE, with what is wrong with the manifest.
Status damaged(const char* text);
Status damaged(const std::string& text);

/// The same; `format`: of printf.
template <typename First, typename... Args>
Status damaged(const char* format, First first, Args... arguments) {
  return damaged(format_text(format, first, arguments...));
}

/// Entries of a list, which may be null.
template <typename List>
uint32_t count(const List* list) {
  return list == nullptr ? 0 : list->size();
}

/// A variant's plan, or one of its `plans`: what its steps may name.
struct PlanParts {
  const flatbuffers::Vector<flatbuffers::Offset<Buffer>>& buffers;
  const flatbuffers::Vector<flatbuffers::Offset<Step>>& steps;
  const flatbuffers::Vector<flatbuffers::Offset<Stretch>>* stretches;
  uint32_t inputs = 0, outputs = 0, results = 0;
  uint32_t next_plan = 0;  ///< its steps run plans from here on: so none runs itself
  uint32_t depth = 0;      ///< how many plans are around it
};

/// One look at a manifest whose structure is whole; errors of all: INVALID_MODULE, or INCOMPATIBLE for what
/// this runtime does not have.
class ManifestChecker {
 public:
  explicit ManifestChecker(const Manifest& manifest)
      : manifest_(manifest), dim_count_(count(manifest.dim_exprs())) {}

  Status check();

 private:
  Status check_requirements();
  Status check_dims();
  Status check_tensors(const flatbuffers::Vector<flatbuffers::Offset<TensorInfo>>& tensors, const char* role);
  Status check_constraints();
  Status check_segments();
  Status check_variant(const Variant& variant);
  Status check_code(const Variant& variant);
  Status check_gpu_code(const Variant& variant, bool needed);
  Status check_kernel(const Variant& variant, const Kernel& kernel);
  Status check_launches(const Kernel& kernel);
  Status check_grids(const Kernel& kernel, const CallKernel& call);
  Status check_constant(const ConstantRef& constant);
  Status check_buffer(const Variant& variant, const PlanParts& plan, const Buffer& buffer);
  Status check_step(const Variant& variant, const PlanParts& plan, const Step& step);
  Status check_call(const Variant& variant, const PlanParts& plan, const CallKernel& call);
  Status check_copy(const PlanParts& plan, const CopyBuffer& copy);
  Status check_binding(const PlanParts& plan, const BindSymbols& binding);
  Status check_stretches(const Variant& variant, const PlanParts& plan);
  Status check_branches(const Variant& variant, const PlanParts& plan, const RunIf& step);
  /// `own`: inputs that the runtime adds in front of those of the step.
  Status check_called(const Variant& variant, const PlanParts& plan, uint32_t called,
                      const flatbuffers::Vector<uint32_t>* inputs, uint32_t own);
  Status check_loop(const Variant& variant, const PlanParts& plan, const RunLoop& step);
  Status check_loop_symbols(const RunLoop& step, const Plan& body,
                            const flatbuffers::Vector<const LoopSymbol*>* symbols, uint32_t results);
  Status check_flag(const PlanParts& plan, uint32_t buffer, const char* what);
  Status check_builtin(const PlanParts& plan, const CallBuiltin& call);
  Status check_strings();
  Status check_plan(const Variant& variant, const PlanParts& plan);
  Status check_plans(const Variant& variant);
  Status check_specialized(const Variant& variant);
  bool is_dim(uint32_t index) const { return index < dim_count_; }
  Status spend(uint64_t entries) {
    work_ += entries;
    return work_ > kMaxWork ? damaged("too large") : Status();
  }
  Status spend_texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* texts) {
    for (uint32_t i = 0; i < count(texts); ++i) GANTRY_TRY(spend(texts->Get(i)->size() + 1));
    return Status();
  }

  const Manifest& manifest_;
  uint32_t dim_count_;
  uint64_t work_ = 0;
  bool has_strings_ = false;      ///< the module requires them
  bool has_images_ = false;       ///< as well
  std::vector<uint32_t> depths_;  ///< by plan of the variant: how many are around it; 0: no step runs it
};

}  // namespace gantry::runtime::manifest
