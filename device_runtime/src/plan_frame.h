// A plan of stretches in the course of running: the program's own, or one that a step of another runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/executor.h"

namespace gantry::runtime {

/// A variant's plan, or one of its `plans`, for those who read both. Valid as long as the module.
struct PlanView {
  template <typename Table>
  using List = const flatbuffers::Vector<flatbuffers::Offset<Table>>*;
  List<module_format::Buffer> buffers = nullptr;
  List<module_format::Step> steps = nullptr;
  List<module_format::Stretch> stretches = nullptr;
  List<module_format::Constraint> constraints = nullptr;  ///< may be null
  List<module_format::PlanOutput> outputs = nullptr;      ///< null: the module's
  uint32_t results = 0;
};
PlanView plan_of(const Module& module);
PlanView plan_of(const Module& module, uint32_t plan);

/// The names of a step's nodes.
std::string text_of(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* nodes);

class PlanFrame;

/// What all plans of a program share while it runs.
struct PlanContext {
  const Module* module = nullptr;
  DimValues dims;
  RunMemory* memory = nullptr;
  PlanFrame* main = nullptr;      ///< of the program itself
  GpuChecker* checker = nullptr;  ///< of the emulated GPU; may be null
  uint64_t taken_bytes = 0;       ///< for intermediates, by all frames
};

/// The workspace of frames that are equally deep, of which one runs at a time, and of those inside of them.
struct FrameWorkspace {
  AlignedBuffer memory;
  uint64_t bytes = 0;  ///< that the stretch uses that runs; 0: none does
  std::unique_ptr<FrameWorkspace> inner;
};

/// Belongs to one thread at a time. Memory is kept from run to run.
class PlanFrame {
 public:
  using Range = PlanMemory::Range;
  struct Work {
    double flops = 0, bytes = 0;
  };
  /// Hears of each step before and after it runs; may be empty.
  struct Listener {
    std::function<void(size_t)> before, after;
  };

  struct Kept {
    AlignedBuffer memory;
    uint64_t bytes = 0;  ///< that this run uses; what is behind them is left of what was before
  };
  /// Where a plan that a step runs puts its outputs, one each; grows as it has to.
  using OutputMemory = std::vector<Kept>;

  /// Context and workspace stay where they are.
  PlanFrame(PlanContext& context, PlanView plan, FrameWorkspace& workspace);
  /// Runs all steps. `inputs` are as many as the plan has, and stay until the next run. `memory`: of a plan's own
  /// outputs; null for those of the module.
  Status run(std::span<const Range> inputs, OutputMemory* memory, const KernelHosts& hosts,
             const Listener& listener = {});

  /// Of the last run, until the next.
  Result<Range> output(uint32_t index);
  const std::vector<int64_t>& output_shape(uint32_t index) const { return outputs_[index].shape; }
  uint32_t output_count() const { return static_cast<uint32_t>(outputs_.size()); }
  /// Of a step in the last run.
  const Work& work(size_t step) const { return steps_[step].work; }

 private:
  struct Output {
    bool is_made = false;  ///< in this run
    Range range;
    std::vector<int64_t> shape;
  };
  /// What the turns of a loop give of one result, one behind the other.
  struct Gathered : Kept {
    std::vector<int64_t> shape;  ///< of one turn
  };
  /// Plans that a step runs, of which one does at a time, and what it gives.
  struct Called {
    std::unique_ptr<PlanFrame> then_plan, else_plan;  ///< of a loop: its plan, and none
    OutputMemory results;
    OutputMemory other_results;  ///< of a loop's turns of odd numbers
    std::vector<Gathered> gathered;
    int64_t turn = 0;
    std::byte goes_on{};
  };

  struct StepState {
    std::string origin;
    StepLabel label;
    Work work;
    Called called;
  };

  void add_plans(uint32_t index);
  void describe_step(uint32_t index);
  std::unique_ptr<PlanFrame> inner_frame(uint32_t plan);
  Status begin_stretch(uint32_t index);
  /// Memory of at least `bytes`. OUT_OF_MEMORY where they are too many even without what is unused.
  Status reserve(AlignedBuffer& memory, uint64_t bytes, const char* what);
  /// Whether `memory` may grow to `bytes`.
  Status allow(const AlignedBuffer& memory, uint64_t bytes, const char* what);
  /// Memory of one of the module's outputs, whose shape is known. Errors: as reserve.
  Result<std::byte*> provide_output(uint32_t index);
  /// Gives back what is behind the first `bytes`.
  void shrink(AlignedBuffer& memory, uint64_t bytes);
  /// No run uses what this frame keeps for runs to come.
  void set_unused();
  /// Gives back memory that the run has no use for, as far as it has come, also of the plans that steps run.
  void let_go_of_unused();
  Status run_step(uint32_t index, const KernelHosts& hosts);
  Status call(uint32_t index, const module_format::CallKernel& call, const KernelHosts& hosts);
  Status copy(uint32_t index, const module_format::CopyBuffer& copy);
  Status call_builtin(const module_format::CallBuiltin& step);
  Status bind_symbols(const module_format::BindSymbols& binding);
  Status run_if(uint32_t index, const module_format::RunIf& step, const KernelHosts& hosts);
  Status run_loop(uint32_t index, const module_format::RunLoop& step, const KernelHosts& hosts);
  Status run_turns(uint32_t index, const module_format::RunLoop& step, std::vector<Range>& inputs,
                   const KernelHosts& hosts);
  /// How many turns a loop makes at most.
  Result<int64_t> most_turns(const module_format::RunLoop& step);
  Status read_condition(uint32_t step, Result<Range> condition, bool& holds) const;
  Status gather(const module_format::RunLoop& step, Called& called, uint32_t index, int64_t most);
  /// A dimension of a loop's result after `turn` turns.
  Result<int64_t> loop_dim(const module_format::RunLoop& step, const Called& called,
                           const module_format::LoopSymbol& symbol) const;
  Status bind_loop(const module_format::RunLoop& step, const Called& called,
                   const flatbuffers::Vector<const module_format::LoopSymbol*>* symbols);
  Status append_ranges(const flatbuffers::Vector<uint32_t>* buffers, std::vector<Range>& ranges);
  Result<int64_t> bound_value(const module_format::BindSymbols& binding, const Range& source, uint32_t i) const;
  Status check_constraints();
  /// Where a buffer lies now; INVALID_MODULE where it is not inside of what it is part of.
  Result<Range> range_of(uint32_t buffer);
  Status make_output(uint32_t index);

  PlanContext& context_;
  const Module& module_;
  PlanView plan_;
  FrameWorkspace& workspace_;
  std::span<const Range> inputs_;
  OutputMemory* output_memory_ = nullptr;
  std::vector<Output> outputs_;
  std::vector<Range> results_;  ///< of steps that run plans
  std::vector<uint8_t> checked_;     ///< by constraint: it holds in this run
  std::vector<Kept> kept_;           ///< by stretch
  std::vector<uint32_t> late_symbols_;  ///< that steps bind
  std::vector<StepState> steps_;
  std::vector<Range> ranges_;    ///< of the call that is made
  std::vector<void*> pointers_;
  std::vector<int64_t> sizes_;
};

}  // namespace gantry::runtime
