// Local buffers of which every vector is stored under one condition, as the sums of a tile beyond the end
// are.
//
//   acc[ramp(0, 1, 16)] = 0 if p                           =>   acc[ramp(0, 1, 16)] = 0
//   acc[ramp(0, 1, 16)] = acc[… if p] + x[… if p] if p     =>   acc[ramp(0, 1, 16)] = acc[…] + x[… if p]
//   y[ramp(n, 1, 16)] = acc[… if p] if p                   =>   y[ramp(n, 1, 16)] = acc[…] if p
//
// No lane that is off has ever been stored, so that nothing can ask what it holds. Stored whole, the buffer
// stays in registers; stored in part, it goes through memory.
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "host/loops/local_vector.h"
#include "host/loops/lower.h"
#include "host/loops/stmt.h"

namespace gantry {
namespace {

/// The conditions under which vectors of one buffer are stored.
class Conditions {
 public:
  Conditions(const BufferNode* buffer, const Stmt& body) : buffer_(buffer) {
    walk(body, [&](const Stmt& s) { note(s); }, {});
    for (const auto& [elements, predicate] : of_) {
      walk(predicate, [&](const Expr& e) { whole_ = whole_ && inside_.count(e.get()) == 0; });
    }
  }

  /// Every store is of a whole vector under its own condition, which means the same throughout the body.
  bool hold() const { return whole_ && !of_.empty(); }

 private:
  void note(const Stmt& s) {
    if (const auto* loop = s.as<ForNode>()) inside_.insert(loop->var.get());
    if (const auto* let = s.as<LetStmtNode>()) inside_.insert(let->var.get());
    if (const auto* store = s.as<StoreNode>()) {
      if (store->buffer.get() == buffer_) note_store(*store);
    } else if (!is_plain(s)) {
      whole_ = false;
    }
  }

  // Other statements than these may write the buffer too.
  static bool is_plain(const Stmt& s) {
    return s.as<ForNode>() || s.as<IfNode>() || s.as<BlockNode>() || s.as<AllocateNode>() ||
           s.as<LetStmtNode>() || s.as<PrefetchNode>() || s.as<OnceNode>();
  }

  void note_store(const StoreNode& store) {
    const auto elements = elements_of(*buffer_, store.index);
    if (!elements || !store.predicate) {
      whole_ = false;
      return;
    }
    const auto [known, fresh] = of_.emplace(*elements, store.predicate);
    if (!fresh) whole_ = whole_ && structurally_equal(known->second, store.predicate);
    // Vectors that overlap would have to agree lane by lane.
    const bool before = known != of_.begin() && overlap(*std::prev(known), *known);
    const bool after = std::next(known) != of_.end() && overlap(*known, *std::next(known));
    whole_ = whole_ && !before && !after;
  }

  using Entry = std::pair<const Elements, Expr>;
  static bool overlap(const Entry& a, const Entry& b) { return a.first.end > b.first.first; }

  const BufferNode* buffer_;
  std::map<Elements, Expr> of_;
  std::set<const ExprNode*> inside_;  ///< variables bound in the body
  bool whole_ = true;
};

class LocalUnmasker : public StmtMutator {
 protected:
  Stmt mutate_launch(const LaunchNode* /*node*/, const Stmt& self) override { return self; }

  Stmt mutate_allocate(const AllocateNode* node, const Stmt& self) override {
    const BufferNode* buffer = node->buffer.get();
    const bool unmask = buffer->scope == BufferScope::kLocal && Conditions(buffer, node->body).hold();
    if (unmask) whole_.insert(buffer);
    Stmt result = StmtMutator::mutate_allocate(node, self);
    whole_.erase(buffer);
    return result;
  }

  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    if (whole_.empty() || !node->predicate) return self;
    condition_ = node->predicate;
    const Expr value = mutate(node->value);
    condition_ = Expr();
    if (whole_.count(node->buffer.get()) != 0) return store(node->buffer, node->index, value);
    return value.same_as(node->value) ? self : store(node->buffer, node->index, value, node->predicate);
  }

  Expr mutate_load(const LoadNode* node, const Expr& self) override {
    const bool stays = !condition_ || !node->predicate || whole_.count(node->buffer.get()) == 0 ||
                       !elements_of(*node->buffer, node->index) ||
                       !structurally_equal(node->predicate, condition_);
    return stays ? self : load(node->buffer, node->index);
  }

 private:
  std::set<const BufferNode*> whole_;
  Expr condition_;  ///< of the store whose value is being rewritten
};

}  // namespace

Stmt unmask_locals(const Stmt& s) {
  return LocalUnmasker().mutate_stmt(s);
}

}  // namespace gantry
