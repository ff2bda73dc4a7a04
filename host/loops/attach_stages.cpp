// Stages computed inside a consumer's loop, and the barriers between the threads that fill a block's shared
// memory and those that read it.
#include "host/loops/nest_builder.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

bool reads_any(const Stmt& s, const std::set<const BufferNode*>& buffers) {
  bool found = false;
  walk(s, {}, [&](const Expr& e) {
    const auto* node = e.as<LoadNode>();
    found |= node && buffers.count(node->buffer.get());
  });
  return found;
}

}  // namespace

/// Is the place inside `leaf` of `state` run several times by a block?
bool NestBuilder::in_serial_loop(const StageState& state, int leaf) const {
  for (int i = 0; i <= leaf; ++i) {
    LoopKind kind = state.loop_kind(i);
    bool once = kind == LoopKind::kBlock || kind == LoopKind::kThread;
    if (!once && constant_of(state.leaf_extents[static_cast<size_t>(i)]) != 1) return true;
  }
  if (!state.stage->attachment().is_at_loop()) return false;
  const StageState& consumer = *program_.by_stage.at(state.stage->attachment().consumer());
  return in_serial_loop(consumer, consumer.leaf_index(state.stage->attachment().axis().get()));
}

/// The stages attached at `leaf`, producers first, then `inner`. All threads wait before the first of them
/// overwrites what an earlier iteration may still read, and before anything reads what they wrote.
Stmt NestBuilder::with_attached(StageState& state, int leaf, Stmt inner) {
  std::vector<Stmt> statements;
  std::vector<Buffer> buffers;
  std::set<const BufferNode*> written;
  bool barriers = state.root && state.root->block_threads > 1;
  bool first = true;
  auto add = [&](Stmt s) {
    if (barriers && reads_any(s, written)) {
      statements.push_back(barrier());
      written.clear();
    }
    statements.push_back(std::move(s));
  };
  for (StageState* producer : state.attached) {
    if (state.leaf_index(producer->stage->attachment().axis().get()) != leaf || takes_turns(*producer))
      continue;
    Stmt nest = build_stage(*producer);
    if (producer->stage->attachment().once_a_thread()) nest = once(std::move(nest));
    bool shared = producer->is_cooperative();
    if (shared && std::exchange(first, false) && barriers && in_serial_loop(state, leaf))
      statements.push_back(barrier());
    add(std::move(nest));
    if (shared) written.insert(producer->buffer.get());
    const BufferScope scope = producer->buffer->scope;
    if (shared || scope == BufferScope::kLocal || scope == BufferScope::kThread)
      buffers.push_back(producer->buffer);
  }
  if (statements.empty()) return inner;
  add(std::move(inner));
  Stmt body = block(std::move(statements));
  for (auto it = buffers.rbegin(); it != buffers.rend(); ++it) body = allocate(*it, body);
  return body;
}

}  // namespace gantry
