// Memory of plans while they run: what counts as taken, and what is given back where that is too much.
#include "device_runtime/src/plan_frame.h"

namespace gantry::runtime {

Status PlanFrame::reserve(AlignedBuffer& memory, uint64_t bytes, const char* what) {
  if (bytes <= memory.capacity()) return Status();
  Status allowed = allow(memory, bytes, what);
  if (allowed.code() == GANTRY_OUT_OF_MEMORY) {
    context_.main->let_go_of_unused();
    allowed = allow(memory, bytes, what);
  }
  GANTRY_TRY(allowed);
  const uint64_t others = context_.taken_bytes - memory.capacity();
  Status status = memory.reserve(bytes, what);
  // Where the system refuses, what there was is gone.
  context_.taken_bytes = others + memory.capacity();
  return status;
}

Status PlanFrame::allow(const AlignedBuffer& memory, uint64_t bytes, const char* what) {
  const uint64_t others = context_.taken_bytes - memory.capacity();
  if (bytes > UINT64_MAX - others)
    return failure(GANTRY_OUT_OF_MEMORY, "%s would be larger than any memory", what);
  return context_.memory->allow_workspace(others + bytes);
}

Result<std::byte*> PlanFrame::provide_output(uint32_t index) {
  Result<std::byte*> data = context_.memory->provide_output(index, outputs_[index].shape);
  if (data.ok() || data.status().code() != GANTRY_OUT_OF_MEMORY) return data;
  context_.main->let_go_of_unused();
  return context_.memory->provide_output(index, outputs_[index].shape);
}

void PlanFrame::shrink(AlignedBuffer& memory, uint64_t bytes) {
  context_.taken_bytes -= memory.capacity();
  memory.shrink(bytes);
  context_.taken_bytes += memory.capacity();
}

void PlanFrame::set_unused() {
  workspace_.bytes = 0;
  for (Kept& kept : kept_) kept.bytes = 0;
  for (StepState& step : steps_) {
    for (OutputMemory* results : {&step.called.results, &step.called.other_results}) {
      for (Kept& result : *results) result.bytes = 0;
    }
    for (Gathered& gathered : step.called.gathered) gathered.bytes = 0;
  }
}

void PlanFrame::let_go_of_unused() {
  shrink(workspace_.memory, workspace_.bytes);
  for (Kept& kept : kept_) shrink(kept.memory, kept.bytes);
  for (StepState& step : steps_) {
    Called& called = step.called;
    for (OutputMemory* results : {&called.results, &called.other_results}) {
      for (Kept& result : *results) shrink(result.memory, result.bytes);
    }
    for (Gathered& gathered : called.gathered) shrink(gathered.memory, gathered.bytes);
    for (PlanFrame* plan : {called.then_plan.get(), called.else_plan.get()}) {
      if (plan != nullptr) plan->let_go_of_unused();
    }
  }
}

}  // namespace gantry::runtime
