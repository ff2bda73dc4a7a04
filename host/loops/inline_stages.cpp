// Substitutes the bodies of inlined stages into their readers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "host/loops/stage_program.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// Nodes that inlined stages may add to one body. Where each is read twice in the next, every level doubles
/// them; of more, the passes and LLVM would make code for hours.
constexpr int64_t kMaxInlined = int64_t{1} << 20;

int64_t count_nodes(const Expr& e) {
  int64_t count = 0;
  walk(e, [&](const Expr&) { ++count; });
  return count;
}

class Inliner : public ExprMutator {
 public:
  Inliner(const Schedule& schedule, const std::map<const Stage*, Expr>& bodies)
      : schedule_(schedule), bodies_(bodies) {}

  /// The body of the stage, which has one, with those of inlined stages in it. Internal errors: they are too
  /// large.
  Expr inline_into(const Stage& stage) {
    into_ = &stage;
    added_ = 0;
    Expr body = mutate(stage.op()->body);
    if (stage.attachment().is_inline()) nodes_[&stage] = count_nodes(body);
    return body;
  }

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    Expr read = ExprMutator::mutate_read(node, self);
    const Stage* stage = schedule_.find(node->op.get());
    internal_check(stage != nullptr, "{} is read but not part of the schedule", node->op->name);
    if (!stage->attachment().is_inline()) return read;
    added_ += nodes_.at(stage);
    internal_check(added_ <= kMaxInlined,
                   "{}: what is inlined into it has more than {} terms, of which {} has {} wherever it is "
                   "read: compute one of these stages at root or in a loop",
                   into_->op()->name, kMaxInlined, stage->op()->name, nodes_.at(stage));
    std::vector<std::pair<const VarNode*, Expr>> bindings;
    for (size_t i = 0; i < stage->op()->axes.size(); ++i) {
      bindings.emplace_back(stage->op()->axes[i]->var.as<VarNode>(), read.as<ReadNode>()->indices[i]);
    }
    return substitute(bodies_.at(stage), bindings);
  }

 private:
  const Schedule& schedule_;
  const std::map<const Stage*, Expr>& bodies_;
  std::map<const Stage*, int64_t> nodes_;  ///< of bodies of inlined stages, shared ones once
  const Stage* into_ = nullptr;
  int64_t added_ = 0;
};

}  // namespace

namespace {

using Sources = std::vector<std::string>;

/// The ops and nodes of the stage, after those of the stages inline in it.
Sources sources_of(const Stage& stage, const Schedule& schedule,
                   const std::map<const Stage*, Sources>& known) {
  Sources sources;
  const auto add = [&](const std::string& source) {
    if (!source.empty() && std::ranges::find(sources, source) == sources.end()) sources.push_back(source);
  };
  if (stage.op()->body) {
    walk(stage.op()->body, [&](const Expr& e) {
      const auto* read = e.as<ReadNode>();
      const Stage* producer = read ? schedule.find(read->op.get()) : nullptr;
      if (!producer || !producer->attachment().is_inline()) return;
      for (const std::string& source : known.at(producer)) add(source);
    });
  }
  add(stage.op()->source);
  return sources;
}

}  // namespace

/// Inside a launch there is no kernel-wide scratch: what has no other place is in the registers of a thread,
/// or of the block where no thread is chosen yet.
void StageProgram::settle_scope(StageState& state) const {
  state.scope = state.stage->memory().scope;
  if (state.scope != StorageScope::kGlobal) return;
  state.scope = StorageScope::kShared;
  for (const Stage* stage = state.stage; stage->attachment().is_at_loop();
       stage = stage->attachment().consumer()) {
    for (const IterVarPtr& leaf : stage->attachment().consumer()->leaves()) {
      if (stage->attachment().consumer()->kinds().of(leaf.get()) == LoopKind::kThread)
        state.scope = StorageScope::kLocal;
      if (leaf == stage->attachment().axis()) break;
    }
  }
}

bool StageProgram::is_read(const Stage& stage) const {
  for (const auto& reader : states) {
    bool reads = false;
    if (reader->body) {
      walk(reader->body, [&](const Expr& e) {
        const auto* read = e.as<ReadNode>();
        reads |= read != nullptr && schedule.find(read->op.get()) == &stage;
      });
    } else {
      reads = std::ranges::any_of(reader->op().extern_inputs, [&](const Tensor& input) {
        return schedule.find(input.op().get()) == &stage;
      });
    }
    if (reads) return true;
  }
  return false;
}

/// Simplified bodies may read less than those that the schedule was made for: a product times the integer 0 is 0.
/// What would be computed beside its readers and has none any more is not computed.
void StageProgram::drop_unread_stages() {
  for (size_t i = states.size(); i-- > 0;) {  // readers first: who was read by dropped ones alone goes, too
    const Stage& stage = *states[i]->stage;
    if (!stage.attachment().is_at_loop() || is_read(stage)) continue;
    by_stage.erase(&stage);
    states.erase(states.begin() + static_cast<ptrdiff_t>(i));
  }
}

void StageProgram::inline_stages() {
  std::map<const Stage*, Expr> bodies;
  std::map<const Stage*, Sources> sources;
  Inliner inliner(schedule, bodies);
  for (const auto& stage : schedule.stages()) {
    if (stage->op()->kind == OperationNode::Kind::kPlaceholder) continue;
    Expr body = stage->op()->body ? inliner.inline_into(*stage) : Expr();
    bodies[stage.get()] = body;
    sources[stage.get()] = sources_of(*stage, schedule, sources);
    if (stage->attachment().is_inline()) continue;
    auto state = std::make_unique<StageState>();
    state->stage = stage.get();
    state->body = body;
    state->sources = fmt::format("{}", fmt::join(sources[stage.get()], ", "));
    by_stage[stage.get()] = state.get();
    states.push_back(std::move(state));
  }
  drop_unread_stages();
  for (const Tensor& output : schedule.outputs()) {
    const Stage* stage = schedule.find(output.op().get());
    internal_check(by_stage.count(stage) > 0, "output {} is inlined or a placeholder", output.op()->name);
  }
  for (const auto& state : states) {
    if (!state->stage->attachment().is_at_loop()) continue;
    auto consumer = by_stage.find(state->stage->attachment().consumer());
    internal_check(consumer != by_stage.end(), "{} is attached to a stage that is inlined",
                   state->op().name);
    consumer->second->attached.push_back(state.get());
    if (schedule.for_gpu) settle_scope(*state);
  }
}

}  // namespace gantry
