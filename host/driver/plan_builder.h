// How a variant of a module is put together: what its plans share, and a plan for each function.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "host/driver/module_builder.h"
#include "host/driver/program.h"
#include "host/ops/bind_dims.h"
#include "host/ops/control.h"
#include "host/ops/builtin.h"
#include "host/passes/passes.h"

namespace gantry {

namespace mf = module_format;

/// An element type in a manifest's terms.
mf::DType dtype_in_modules(DType dtype);

/// One variant: kernels, constants, and the plans of all functions.
class ModuleBuilder::VariantBuilder {
 public:
  VariantBuilder(ModuleBuilder& builder, const Program& program, const Target& target, uint32_t weights_segment);

  std::unique_ptr<mf::VariantT> build();
  ModuleBuilder& builder() { return builder_; }
  /// The CPU where there is no GPU with memory of its own: an emulated one has none.
  mf::Device gpu() const { return gpu_; }
  bool has_gpu_memory() const { return gpu_ != mf::Device::Cpu; }
  const std::map<const Node*, const KernelCall*>& calls() const { return calls_; }
  bool is_main(const Function& function) const { return &function == &program_.graph.main; }

  /// Index of the function's plan, which is in front of those that it runs.
  uint32_t add_plan(const Function& function);
  /// Values of equal bytes are one constant of the variant.
  uint32_t constant_index(const Value& value);

 private:
  void add_kernel(size_t index);
  void add_launches(size_t index, mf::KernelT& entry);

  ModuleBuilder& builder_;
  const Program& program_;
  mf::Device gpu_;
  uint32_t weights_segment_;
  std::map<const Node*, const KernelCall*> calls_;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, uint32_t> constants_;  ///< by place; index
  std::unique_ptr<mf::VariantT> variant_ = std::make_unique<mf::VariantT>();
};

/// Assigns buffers to values and writes the steps of one function.
class ModuleBuilder::PlanBuilder {
 public:
  PlanBuilder(VariantBuilder& variant, const Function& function);

  mf::PlanT build();
  const MemoryPlan& memory(mf::Device device) { return plans_[device]; }

 private:
  /// Where a node runs and its results lie.
  mf::Device device_of(const Node& node) const;

  /// The first output that shows a kernel's result is written by the kernel itself; the others are copies.
  void claim_output(size_t index);
  uint32_t add_buffer(mf::BufferKind kind, uint32_t index, const Dim& offset, const Dim& bytes,
                      mf::Device device);
  /// The value as `device` sees it. Inputs and constants have a buffer in each memory that wants them.
  uint32_t buffer_of(Value* value, mf::Device device);
  uint32_t make_buffer(Value* root, mf::Device device);
  void add_call(const KernelCall& call);

  template <typename Action>
  void add_step(Action action) {
    auto step = std::make_unique<mf::StepT>();
    step->action.Set(std::move(action));
    plan_.steps.push_back(std::move(step));
  }

  /// The steps that follow are of the next stretch.
  void begin_stretch();
  void add_binding(const Node& node, const BindDimsAttrs& attrs);
  void add_if(const Node& node, const IfAttrs& attrs);
  void add_loop(const Node& node, const LoopAttrs& attrs);
  void add_builtin(const Node& node, const BuiltinAttributes& attributes);
  std::unique_ptr<mf::BuiltinTensorT> builtin_tensor(Value* value);
  void add_device_copy(const Node& node);
  void copy_output(size_t index);

  ModuleBuilder& builder_;
  VariantBuilder& variant_;
  const Function& function_;
  const std::map<const Node*, const KernelCall*>& calls_;
  std::map<mf::Device, MemoryPlan> plans_;
  std::map<const Value*, size_t> written_in_place_;
  std::map<const Value*, uint32_t> results_;  ///< of control flow
  std::map<std::pair<const Value*, mf::Device>, uint32_t> buffers_;
  mf::PlanT plan_;
};

}  // namespace gantry
