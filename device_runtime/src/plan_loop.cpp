// Loops of a plan: what turns hand on lies in two memories by turns, what they give is gathered in memory that grows.
#include <string.h>

#include <algorithm>
#include <utility>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/plan_frame.h"

namespace gantry::runtime {

using module_format::LoopSymbol;
using module_format::RunLoop;

Result<int64_t> PlanFrame::most_turns(const RunLoop& step) {
  if (step.count() < 0) return INT64_MAX;
  Result<Range> range = range_of(static_cast<uint32_t>(step.count()));
  if (!range.ok()) return range.status();
  int64_t count = 0;
  if (range->bytes < sizeof count)
    return failure(GANTRY_INVALID_MODULE, "the module's plan: the count of a loop has %llu bytes",
                   static_cast<unsigned long long>(range->bytes));
  memcpy(&count, range->data, sizeof count);
  return std::max<int64_t>(count, 0);
}

Result<int64_t> PlanFrame::loop_dim(const RunLoop& step, const Called& called, const LoopSymbol& symbol) const {
  const bool is_state = symbol.result() < step.states();
  if (!is_state && symbol.axis() == 0) return called.turn;
  if (called.turn == 0) return context_.dims.get(symbol.initial());
  if (is_state) return called.then_plan->output_shape(1 + symbol.result())[symbol.axis()];
  return called.gathered[symbol.result() - step.states()].shape[symbol.axis() - 1];
}

Status PlanFrame::bind_loop(const RunLoop& step, const Called& called,
                            const flatbuffers::Vector<const LoopSymbol*>* symbols) {
  for (uint32_t i = 0; symbols != nullptr && i < symbols->size(); ++i) {
    Result<int64_t> size = loop_dim(step, called, *symbols->Get(i));
    if (!size.ok()) return size.status();
    context_.dims.bind(symbols->Get(i)->symbol(), *size);
  }
  return Status();
}

Status PlanFrame::gather(const RunLoop& step, Called& called, uint32_t index, int64_t most) {
  const uint32_t output = 1 + step.states() + index;
  Result<Range> made = called.then_plan->output(output);
  if (!made.ok()) return made.status();
  Gathered& all = called.gathered[index];
  const std::vector<int64_t>& shape = called.then_plan->output_shape(output);
  if (called.turn == 0) all.shape = shape;
  if (all.shape != shape) {
    return failure(GANTRY_INVALID_ARGUMENT, "%s: what its turns give differs in shape: %s after %s",
                   text_of(step.origin()).c_str(), shape_text(shape).c_str(), shape_text(all.shape).c_str());
  }
  if (made->bytes > UINT64_MAX - all.bytes)
    return failure(GANTRY_OUT_OF_MEMORY, "a loop's results would be larger than any memory");
  const uint64_t needed = all.bytes + made->bytes;
  if (needed > all.memory.capacity()) {
    uint64_t total = 0;
    uint64_t wanted = std::max(needed, 2 * all.memory.capacity());
    if (!__builtin_mul_overflow(made->bytes, static_cast<uint64_t>(most), &total)) wanted = std::min(wanted, total);
    AlignedBuffer larger;
    Status status = reserve(larger, wanted, "a loop's results");
    // More than is needed only where there is more.
    if (status.code() == GANTRY_OUT_OF_MEMORY) status = reserve(larger, needed, "a loop's results");
    GANTRY_TRY(status);
    if (all.bytes > 0) memcpy(larger.data(), all.memory.data(), all.bytes);
    context_.taken_bytes -= all.memory.capacity();
    all.memory = std::move(larger);
  }
  if (made->bytes > 0) memcpy(all.memory.data() + all.bytes, made->data, made->bytes);
  all.bytes = needed;
  return Status();
}

Status PlanFrame::run_turns(uint32_t index, const RunLoop& step, std::vector<Range>& inputs, const KernelHosts& hosts) {
  Called& called = steps_[index].called;
  PlanFrame& body = *called.then_plan;
  Result<int64_t> most = most_turns(step);
  if (!most.ok()) return most.status();
  bool goes_on = true;
  if (step.condition() >= 0) GANTRY_TRY(read_condition(index, range_of(static_cast<uint32_t>(step.condition())), goes_on));
  for (called.turn = 0; goes_on && called.turn < *most; ++called.turn) {
    called.goes_on = std::byte{1};
    GANTRY_TRY(bind_loop(step, called, step.entry()));
    GANTRY_TRY(body.run(inputs, called.turn % 2 == 0 ? &called.results : &called.other_results, hosts));
    for (uint32_t i = 0; i < called.gathered.size(); ++i) GANTRY_TRY(gather(step, called, i, *most));
    GANTRY_TRY(read_condition(index, body.output(0), goes_on));
    for (uint32_t i = 0; i < step.states(); ++i) {
      Result<Range> state = body.output(1 + i);
      if (!state.ok()) return state.status();
      inputs[2 + i] = *state;
    }
  }
  return Status();
}

Status PlanFrame::run_loop(uint32_t index, const RunLoop& step, const KernelHosts& hosts) {
  Called& called = steps_[index].called;
  for (Gathered& gathered : called.gathered) gathered.bytes = 0;
  std::vector<Range> inputs{{reinterpret_cast<std::byte*>(&called.turn), sizeof called.turn}, {&called.goes_on, 1}};
  GANTRY_TRY(append_ranges(step.inputs(), inputs));
  GANTRY_TRY(run_turns(index, step, inputs, hosts));
  if (called.turn > 0) {  // nobody reads what the last turn but one gave
    for (Kept& result : called.turn % 2 == 0 ? called.results : called.other_results) result.bytes = 0;
  }
  for (uint32_t i = 0; i < step.states(); ++i) {
    Range& state = inputs[2 + i];
    if (called.turn == 0 && state.bytes > 0) {  // it lies in memory that the next stretch takes
      Kept& result = called.results[1 + i];
      GANTRY_TRY(reserve(result.memory, state.bytes, "a loop's results"));
      result.bytes = state.bytes;
      memcpy(result.memory.data(), state.data, state.bytes);
      state.data = result.memory.data();
    }
    results_[step.first_result() + i] = state;
  }
  for (uint32_t i = 0; i < called.gathered.size(); ++i)
    results_[step.first_result() + step.states() + i] = {called.gathered[i].memory.data(), called.gathered[i].bytes};
  GANTRY_TRY(bind_loop(step, called, step.symbols()));
  return check_constraints();
}

}  // namespace gantry::runtime
