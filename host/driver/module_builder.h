// Lowered programs -> the module file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/codegen/codegen.h"
#include "host/codegen/module_file.h"
#include "host/driver/program.h"

namespace gantry {

/// The sizes that a variant is for.
struct VariantSizes {
  std::map<std::string, int64_t> values;  ///< of symbols
  std::map<std::string, Dim> equal;       ///< dimensions that symbols equal

  bool all() const { return values.empty() && equal.empty(); }
};

/// Collects variants into one module. Use: one constructor, add_variant for each target, finish.
class ModuleBuilder {
 public:
  /// Inputs, outputs, symbols and constraints of the model as imported.
  explicit ModuleBuilder(const Graph& graph);
  /// Plans memory and appends the program as a variant; constants that an earlier variant has too are shared.
  /// `gpu`: of targets of kind kGpu; the image then holds the kernels of the CPU beside it. `sizes`: of a
  /// program that takes the place of the one added last for all sizes, where they hold.
  void add_variant(const Program& program, const Target& target, CodeImage image, GpuImage gpu = {},
                   const VariantSizes& sizes = {});
  /// What the variants were optimised for, for reports.
  void set_optimize(std::string_view optimize) { module_.manifest.optimize = optimize; }
  ModuleFile finish();

 private:
  class VariantBuilder;
  class PlanBuilder;
  /// Index of the segment; code that an earlier variant has too is that one.
  uint32_t add_segment(module_format::SegmentKind kind, SegmentData data);
  uint32_t dim_expr(const Dim& dim);
  uint32_t symbol(const std::string& name);
  /// The module needs it of its runtime (device_runtime/src/module_format.h).
  void require_feature(const char* feature);
  /// Strings by their numbers in the module.
  ConstantPtr in_module(const ConstantData& strings);
  module_format::ConstantRef place_constant(const ConstantPtr& constant, uint32_t weights_segment);
  std::unique_ptr<module_format::ConstraintT> constraint(const DimConstraint& constraint);
  std::unique_ptr<module_format::TensorInfoT> tensor_info(const std::string& name, const TensorType& type);

  ModuleFile module_;
  std::map<std::string, uint32_t> dim_exprs_;
  std::map<std::string, uint32_t> symbols_;
  std::map<std::string, uint64_t> strings_;  ///< numbers, as the manifest has them
  struct Placed {
    ConstantPtr constant;
    uint32_t segment;
    uint64_t offset;
  };
  std::unordered_multimap<size_t, Placed> placed_;  ///< by content hash
};

}  // namespace gantry
