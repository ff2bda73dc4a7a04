// Where the results of stages are kept.
#include "host/loops/stage_program.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// What a thread's stack is given for one local buffer, and for all but the small ones; others are in memory
/// that the host keeps for the thread, up to that limit.
constexpr int64_t kLocalBytes = 32 << 10, kAllLocalBytes = 56 << 10, kSmallBytes = 2 << 10;
constexpr int64_t kThreadBytes = 64 << 20;
constexpr int64_t kGpuLocalBytes = 64 << 10;

}  // namespace

Expr product(const std::vector<Expr>& extents) {
  Expr total(1);
  for (const Expr& extent : extents) total = total * extent;
  return total;
}

StageState* StageProgram::state_of(const OperationNode* op) const {
  auto it = by_stage.find(schedule.find(op));
  return it == by_stage.end() ? nullptr : it->second;
}

Buffer StageProgram::buffer_of(const OperationNode* op, int result) const {
  const Stage* stage = schedule.find(op);
  auto it = fixed_buffers.find({stage, result});
  if (it != fixed_buffers.end()) return it->second;
  StageState* state = state_of(op);
  internal_check(state && state->buffer, "{} is read before it is computed, or is no argument of kernel {}",
                 op->name, kernel.name);
  return state->buffer;
}

Buffer StageProgram::argument_of(const Tensor& tensor) {
  DType dtype = tensor.dtype();
  Expr count = simplifier.simplify(product(tensor.shape()));
  auto buffer = std::make_shared<BufferNode>(
      BufferNode{unique(tensor.op()->name), dtype, count, BufferScope::kArgument, byte_width(dtype)});
  kernel.arguments.push_back(buffer);
  return buffer;
}

void StageProgram::place_arguments() {
  for (const Tensor& input : inputs) {
    Buffer buffer = argument_of(input);
    if (const Stage* stage = schedule.find(input.op().get())) fixed_buffers[{stage, input.result()}] = buffer;
  }
  kernel.input_count = static_cast<int>(inputs.size());
  for (const Tensor& output : schedule.outputs()) {
    StageState* state = state_of(output.op().get());
    Buffer buffer = argument_of(output);
    if (state->op().kind == OperationNode::Kind::kExtern) {
      const bool first = fixed_buffers.try_emplace({state->stage, output.result()}, buffer).second;
      internal_check(first, "{} is an output of kernel {} twice", output.op()->name, kernel.name);
    } else {
      internal_check(!state->buffer, "{} is an output of kernel {} twice", output.op()->name, kernel.name);
      state->buffer = buffer;
      state->whole_buffer = true;
    }
  }
}

bool StageProgram::in_parallel_loop(const StageState& state) const {
  for (const VarNode* var : enclosing_vars(state)) {
    auto [owner, leaf] = loop_vars.at(var);
    if (owner->loop_kind(leaf) == LoopKind::kParallel) return true;
  }
  return false;
}

/// A tile that the threads of a block share.
Buffer StageProgram::make_tile(StageState& state, BufferNode buffer) {
  const auto count = constant_of(buffer.element_count);
  if (!count) {
    misfit = ScheduleMisfit{fmt::format("{} would take {} elements of shared memory, which is not constant", state.op().name,
                                to_string(buffer.element_count))};
    return nullptr;
  }
  if (takes_turns(state)) {
    state.copy_elements = *count;
    buffer.element_count = Expr(2 * state.copy_elements);
  }
  buffer.scope = BufferScope::kShared;
  buffer.alignment = 16;
  return std::make_shared<BufferNode>(std::move(buffer));
}

/// Memory of the thread that runs the loop around the stage.
Buffer StageProgram::make_local(StageState& state, BufferNode buffer) {
  const auto count = constant_of(buffer.element_count);
  const int64_t bytes = count.value_or(0) * byte_width(buffer.dtype);
  const int64_t limit = schedule.for_gpu ? kGpuLocalBytes : kThreadBytes;
  if (!count || bytes > limit) {
    misfit = ScheduleMisfit{fmt::format("{} would take {} elements of each thread's own memory; that must be constant and at "
                                "most {} KiB",
                                state.op().name, to_string(buffer.element_count), limit >> 10)};
    return nullptr;
  }
  const bool small = bytes <= kSmallBytes;
  const bool fits = small || (bytes <= kLocalBytes && local_bytes_ + bytes <= kAllLocalBytes);
  const bool near =
      fits && !state.stage->attachment().once_a_thread();  // a stack does not outlast the iterations
  buffer.scope = near || schedule.for_gpu ? BufferScope::kLocal : BufferScope::kThread;
  if (near && !small) local_bytes_ += bytes;
  return std::make_shared<BufferNode>(std::move(buffer));
}

Buffer StageProgram::make_buffer(StageState& state) {
  BufferNode buffer;
  buffer.name = unique(state.op().name);
  buffer.dtype = state.op().result_dtypes[0];
  state.storage = state.extent;
  if (state.storage.size() > 1)
    state.storage.back() = state.storage.back() + Expr(state.stage->memory().row_padding);
  buffer.element_count = simplifier.simplify(product(state.storage));
  buffer.alignment = 64;
  internal_check((state.stage->mma() != nullptr) == (state.scope == StorageScope::kFragment),
                 "{}: the scope kFragment and tensorize() belong together", state.op().name);
  if (state.stage->mma()) {
    buffer.element_count = Expr(fragment_elements(state));
    buffer.scope = BufferScope::kLocal;
    return std::make_shared<BufferNode>(std::move(buffer));
  }
  if (state.is_cooperative()) return make_tile(state, std::move(buffer));
  const bool attached = state.stage->attachment().is_at_loop();
  const bool local = attached && (state.stage->memory().scope == StorageScope::kLocal ||
                                  in_parallel_loop(state) || state.scope == StorageScope::kLocal);
  if (local) return make_local(state, std::move(buffer));
  buffer.scope = BufferScope::kScratch;
  kernel.scratch.push_back(std::make_shared<BufferNode>(std::move(buffer)));
  return kernel.scratch.back();
}

void StageProgram::place_buffers() {
  for (const auto& state : states) {
    if (state->op().kind != OperationNode::Kind::kCompute || state->buffer) continue;
    state->buffer = make_buffer(*state);
    state->whole_buffer = !state->computes_part();
    if (misfit) return;
  }
}

}  // namespace gantry
