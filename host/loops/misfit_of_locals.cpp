// What a kernel's local buffers take of a CPU's stack.
#include <fmt/format.h>

#include <algorithm>

#include "host/loops/lower.h"

namespace gantry {
namespace {

/// Adds up the local buffers that are alive together in one function, as code generation does: a parallel
/// loop that is in no other one has a function of its own.
class StackDemand {
 public:
  explicit StackDemand(const Stmt& body) { visit(body, 0, false); }

  /// Of the function that takes the most.
  int64_t bytes() const { return most_; }

 private:
  void visit(const Stmt& s, int64_t in_use, bool in_parallel) {
    if (!s) return;
    if (const auto* sequence = s.as<BlockNode>()) {
      for (const Stmt& inner : sequence->statements) visit(inner, in_use, in_parallel);
    }
    if (const auto* branch = s.as<IfNode>()) {
      visit(branch->then_case, in_use, in_parallel);
      visit(branch->else_case, in_use, in_parallel);
    }
    if (const auto* loop = s.as<ForNode>()) visit_loop(*loop, in_use, in_parallel);
    if (const auto* let = s.as<LetStmtNode>()) visit(let->body, in_use, in_parallel);
    if (const auto* once = s.as<OnceNode>()) visit(once->body, in_use, in_parallel);
    if (const auto* local = s.as<AllocateNode>()) {
      const int64_t all = in_use + bytes_of(*local->buffer);
      most_ = std::max(most_, all);
      visit(local->body, all, in_parallel);
    }
  }

  void visit_loop(const ForNode& loop, int64_t in_use, bool in_parallel) {
    const auto* extent = loop.extent.as<IntImmNode>();
    if (extent && extent->value <= 0) return;
    const bool single = extent && extent->value == 1;
    const bool own = loop.loop == LoopKind::kParallel && !in_parallel && !single;
    visit(loop.body, own ? 0 : in_use, own || in_parallel);
  }

  static int64_t bytes_of(const BufferNode& buffer) {
    const auto* count = buffer.element_count.as<IntImmNode>();
    return count && buffer.scope != BufferScope::kThread ? count->value * byte_width(buffer.dtype) : 0;
  }

  int64_t most_ = 0;
};

bool has_launches(const Stmt& s) {
  bool found = false;
  walk(s, [&](const Stmt& inner) { found |= inner->kind == StmtKind::kLaunch; }, {});
  return found;
}

}  // namespace

std::optional<ScheduleMisfit> misfit_of_locals(const Stmt& s) {
  const int64_t bytes = StackDemand(s).bytes();
  if (bytes <= kMaxStackBytes || has_launches(s)) return std::nullopt;
  return ScheduleMisfit{
      fmt::format("local buffers take {} bytes of a thread's stack, at most {} are possible: larger ones are "
                  "scratch",
                  bytes, kMaxStackBytes)};
}

}  // namespace gantry
