#include "host/loops/lower.h"

#include <algorithm>

#include "host/loops/launch.h"
#include "host/loops/lower_state.h"
#include "host/loops/verify.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// What a thread's stack is given for one local buffer, and for all but the small ones; others are in memory
/// that the host keeps for the thread, up to that limit.
constexpr int64_t kLocalBytes = 32 << 10, kAllLocalBytes = 56 << 10, kSmallBytes = 2 << 10;
constexpr int64_t kThreadBytes = 64 << 20;
constexpr int64_t kGpuLocalBytes = 64 << 10;

Expr product(const std::vector<Expr>& extents) {
  Expr total(1);
  for (const Expr& extent : extents) total = total * extent;
  return total;
}

/// With `sizes`, those in the arguments' sizes too: kernels for an emulated GPU check accesses against them.
std::vector<std::string> used_symbols(const LoopKernel& kernel, bool sizes) {
  std::set<std::string> names;
  auto visit = [&](const Expr& e) {
    const auto* var = e.as<VarNode>();
    if (var && var->is_symbol) names.insert(var->name);
  };
  walk(kernel.body, {}, visit);
  for (const Buffer& buffer : kernel.scratch) walk(buffer->element_count, visit);
  for (const Buffer& buffer : kernel.arguments) {
    if (sizes) walk(buffer->element_count, visit);
  }
  return {names.begin(), names.end()};
}

bool has_bound_loops(const Stmt& s) {
  bool found = false;
  walk(s,
       [&](const Stmt& inner) {
         const auto* loop = inner.as<ForNode>();
         found |= loop && (loop->loop == LoopKind::kBlock || loop->loop == LoopKind::kThread);
       },
       {});
  return found;
}

}  // namespace

Lowering::Lowering(const Schedule& schedule, const std::vector<Tensor>& inputs, std::string name)
    : schedule_(schedule), inputs_(inputs) {
  kernel_.name = std::move(name);
}

StageState* Lowering::state_of(const OperationNode* op) {
  auto it = by_stage_.find(schedule_.find(op));
  return it == by_stage_.end() ? nullptr : it->second;
}

Buffer Lowering::buffer_of(const OperationNode* op, int result) {
  const Stage* stage = schedule_.find(op);
  auto it = fixed_buffers_.find({stage, result});
  if (it != fixed_buffers_.end()) return it->second;
  StageState* state = state_of(op);
  internal_check(state && state->buffer, "{} is read before it is computed, or is no argument of kernel {}",
                 op->name, kernel_.name);
  return state->buffer;
}

bool Lowering::in_parallel_loop(const StageState& state) const {
  for (const VarNode* var : enclosing_vars(state)) {
    auto [owner, leaf] = loop_vars_.at(var);
    if (owner->loop_kind(leaf) == LoopKind::kParallel) return true;
  }
  return false;
}

Buffer Lowering::make_buffer(StageState& state) {
  auto buffer = std::make_shared<BufferNode>();
  buffer->name = unique_(state.op().name);
  buffer->dtype = state.op().result_dtypes[0];
  state.storage = state.extent;
  if (state.storage.size() > 1) state.storage.back() = state.storage.back() + Expr(state.stage->row_padding);
  buffer->element_count = simplifier_.simplify(product(state.storage));
  buffer->alignment = 64;
  internal_check(state.stage->mma.has_value() == (state.scope == StorageScope::kFragment),
                 "{}: the scope kFragment and tensorize() belong together", state.op().name);
  if (state.stage->mma) {
    buffer->element_count = Expr(fragment_elements(state));
    buffer->scope = BufferScope::kLocal;
    return buffer;
  }
  if (state.is_cooperative()) {
    if (!constant_of(buffer->element_count)) {
      internal_error("{}: needs {} elements of shared memory in kernel {}, which is not constant",
                     state.op().name, to_string(buffer->element_count), kernel_.name);
    }
    if (takes_turns(state)) {
      state.copy_elements = *constant_of(buffer->element_count);
      buffer->element_count = Expr(2 * state.copy_elements);
    }
    buffer->scope = BufferScope::kShared;
    buffer->alignment = 16;
    return buffer;
  }
  bool attached = state.stage->attach == AttachKind::kAt;
  bool local = attached && (state.stage->scope == StorageScope::kLocal || in_parallel_loop(state) ||
                            state.scope == StorageScope::kLocal);
  if (local) {
    auto count = constant_of(buffer->element_count);
    const int64_t bytes = count.value_or(0) * byte_width(buffer->dtype);
    const int64_t limit = schedule_.for_gpu ? kGpuLocalBytes : kThreadBytes;
    internal_check(
        count && bytes <= limit,
        "{}: needs {} elements inside a loop of kernel {}; a local buffer must be constant and at most {} "
        "KiB",
        state.op().name, to_string(buffer->element_count), kernel_.name, limit >> 10);
    const bool small = bytes <= kSmallBytes;
    const bool fits = small || (bytes <= kLocalBytes && local_bytes_ + bytes <= kAllLocalBytes);
    const bool near = fits && !state.stage->once_a_thread;  // a stack does not outlast the iterations
    buffer->scope = near || schedule_.for_gpu ? BufferScope::kLocal : BufferScope::kThread;
    if (near && !small) local_bytes_ += bytes;
    return buffer;
  }
  buffer->scope = BufferScope::kScratch;
  kernel_.scratch.push_back(buffer);
  return buffer;
}

void Lowering::place_buffers() {
  auto argument = [&](const Tensor& t) {
    DType dtype = t.dtype();
    Expr count = simplifier_.simplify(product(t.shape()));
    auto buffer = std::make_shared<BufferNode>(
        BufferNode{unique_(t.op()->name), dtype, count, BufferScope::kArgument, byte_width(dtype)});
    kernel_.arguments.push_back(buffer);
    return buffer;
  };
  for (const Tensor& input : inputs_) {
    Buffer buffer = argument(input);
    if (const Stage* stage = schedule_.find(input.op().get()))
      fixed_buffers_[{stage, input.result()}] = buffer;
  }
  kernel_.input_count = static_cast<int>(inputs_.size());
  for (const Tensor& output : schedule_.outputs()) {
    StageState* state = state_of(output.op().get());
    Buffer buffer = argument(output);
    if (state->op().kind == OperationNode::Kind::kExtern) {
      fixed_buffers_[{state->stage, output.result()}] = buffer;
    } else {
      internal_check(!state->buffer, "{} is an output of kernel {} twice", output.op()->name, kernel_.name);
      state->buffer = buffer;
      state->whole_buffer = true;
    }
  }
}

Stmt Lowering::lower_extern(const StageState& state) {
  std::vector<Buffer> inputs, results;
  for (const Tensor& input : state.op().extern_inputs)
    inputs.push_back(buffer_of(input.op().get(), input.result()));
  for (size_t i = 0; i < state.op().result_shapes.size(); ++i) {
    Buffer& buffer = fixed_buffers_[{state.stage, static_cast<int>(i)}];
    if (!buffer) {
      buffer = std::make_shared<BufferNode>(
          BufferNode{unique_(state.op().name), state.op().result_dtypes[i],
                     simplifier_.simplify(product(state.op().result_shapes[i])), BufferScope::kScratch, 64});
      kernel_.scratch.push_back(buffer);
    }
    results.push_back(buffer);
  }
  LoopBuilder builder(std::move(inputs), std::move(results),
                      [this](const std::string& name) { return unique_(name); });
  const auto& write_nest = schedule_.for_gpu ? state.op().extern_gpu_body : state.op().extern_body;
  internal_check(write_nest != nullptr, "{} of kernel {} has no nest for {}", state.op().name, kernel_.name,
                 schedule_.for_gpu ? "a GPU" : "a CPU");
  write_nest(builder);
  Stmt body = builder.take();
  for (Buffer& buffer : builder.take_scratch()) kernel_.scratch.push_back(buffer);
  return body;
}

LoopKernel Lowering::run() {
  inline_stages();
  place_buffers();
  for (auto it = states_.rbegin(); it != states_.rend(); ++it) {  // readers first
    StageState& state = **it;
    if (state.op().kind != OperationNode::Kind::kCompute) continue;
    infer_region(state);
    make_loops(state);
  }
  if (schedule_.for_gpu) assign_threads();
  for (const auto& state : states_) {
    if (state->op().kind != OperationNode::Kind::kCompute || state->buffer) continue;
    state->buffer = make_buffer(*state);
    state->whole_buffer = !state->computes_part();
  }
  std::vector<Stmt> roots;
  for (const auto& state : states_) {
    if (state->op().kind == OperationNode::Kind::kExtern) {
      roots.push_back(lower_extern(*state));
    } else if (state->stage->attach == AttachKind::kRoot) {
      roots.push_back(schedule_.for_gpu ? build_launch(*state) : build_stage(*state));
    }
  }
  kernel_.body = block(std::move(roots));
  kernel_.symbols = used_symbols(kernel_, schedule_.for_gpu);
  for (const auto& state : states_) {
    if (state->sources.empty()) continue;
    if (state->buffer) kernel_.sources[state->buffer->name] = state->sources;
    for (const auto& [result, buffer] : fixed_buffers_) {
      if (result.first == state->stage) kernel_.sources[buffer->name] = state->sources;
    }
  }
  return std::move(kernel_);
}

LoopKernel lower_schedule(const Schedule& schedule, const std::vector<Tensor>& inputs,
                          const std::string& name) {
  LoopKernel kernel = Lowering(schedule, inputs, name).run();
  kernel.rule = schedule.rule;
  return kernel;
}

LoopKernel run_loop_passes(LoopKernel kernel, const LoopObserver& observe, bool verified) {
  const auto done = [&](std::string_view name) {
    if (verified) verify(kernel, name);
    if (observe) observe(name, kernel);
  };
  auto step = [&](std::string_view name, Stmt (*pass)(const Stmt&)) {
    kernel.body = pass(kernel.body);
    done(name);
  };
  done("lower");
  step("simplify", simplify_loops);
  if (has_bound_loops(kernel.body)) step("bind_launches", bind_launches);
  step("peel_edges", peel_edges);
  step("simplify_peeled", simplify_loops);
  step("partition_guards", partition_guards);
  step("vectorize", vectorize_loops);
  step("transpose_blocks", transpose_blocks);
  step("unroll", unroll_loops);
  step("narrow_vectors", narrow_vectors);
  step("unmask_locals", unmask_locals);
  step("unmask_updates", unmask_updates);
  step("simplify_unrolled", simplify_loops);
  return kernel;
}

}  // namespace gantry
