// Updates of accumulators of which some lanes are off.
//
//   acc[ramp(32, 1, 16) if p] = max(acc[… if p], x[… if p])   =>   acc[ramp(32, 1, 16)] =
//                                                                   max(acc[…], select(p, x[… if p], -inf))
//
// What a lane that is off adds changes nothing. An accumulator all of whose lanes are stored stays in a
// register between its updates; one that is stored in part goes through memory.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "host/loops/local_vector.h"
#include "host/loops/lower.h"
#include "host/loops/stmt.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

std::optional<ReduceKind> reduction_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return ReduceKind::kSum;
    case BinaryOp::kMax:
      return ReduceKind::kMax;
    case BinaryOp::kMin:
      return ReduceKind::kMin;
    default:
      return std::nullopt;
  }
}

bool is_constant(const Expr& value) {
  if (const auto* broadcast = value.as<BroadcastNode>()) return is_constant(broadcast->value);
  return value.as<FloatImmNode>() != nullptr || value.as<IntImmNode>() != nullptr;
}

/// The store adds to what stands there, under the predicate that it is stored under.
bool is_masked_update(const StoreNode& store) {
  const auto* update = store.value.as<BinaryNode>();
  const auto* before = update ? update->a.as<LoadNode>() : nullptr;
  return before != nullptr && reduction_of(update->op).has_value() && before->buffer == store.buffer &&
         static_cast<bool>(before->predicate) && structurally_equal(before->index, store.index) &&
         structurally_equal(before->predicate, store.predicate);
}

/// Elements of buffers that begin as a constant, lanes that are off in later updates too.
using Beginnings = std::map<const BufferNode*, std::vector<bool>>;

Beginnings beginnings_of(const Stmt& body) {
  Beginnings found;
  walk(body,
       [&](const Stmt& s) {
         const auto* store = s.as<StoreNode>();
         if (!store || static_cast<bool>(store->predicate) || !is_constant(store->value)) return;
         const auto elements = elements_of(*store->buffer, store->index);
         if (!elements) return;
         auto& begun = found[store->buffer.get()];
         begun.resize(size_t(*constant_of(store->buffer->element_count)));
         std::fill(begun.begin() + elements->first, begun.begin() + elements->end, true);
       },
       {});
  return found;
}

class UpdateUnmasker : public StmtMutator {
 public:
  explicit UpdateUnmasker(Beginnings beginnings) : beginnings_(std::move(beginnings)) {}

 protected:
  Stmt mutate_launch(const LaunchNode* /*node*/, const Stmt& self) override { return self; }

  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    if (!node->predicate || !is_masked_update(*node) || !has_begun(*node)) return self;
    const auto& update = *node->value.as<BinaryNode>();
    const Expr nothing = std::make_shared<BroadcastNode>(
        identity_of(*reduction_of(update.op), update.type.dtype), update.type.lanes);
    return store(
        node->buffer, node->index,
        binary(update.op, load(node->buffer, node->index), select(node->predicate, update.b, nothing)));
  }

 private:
  bool has_begun(const StoreNode& store) const {
    const auto elements = elements_of(*store.buffer, store.index);
    const auto begun = beginnings_.find(store.buffer.get());
    return elements && begun != beginnings_.end() &&
           std::all_of(begun->second.begin() + elements->first, begun->second.begin() + elements->end,
                       [](bool b) { return b; });
  }

  Beginnings beginnings_;
};

}  // namespace

Stmt unmask_updates(const Stmt& s) {
  return UpdateUnmasker(beginnings_of(s)).mutate_stmt(s);
}

}  // namespace gantry
