// Block and thread loops become launches, and what a host must know of them.
#include <fmt/format.h>

#include <algorithm>

#include "host/loops/launch.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxBlocksX = (int64_t{1} << 31) - 1, kMaxBlocksYZ = 65535;
constexpr int64_t kMaxSharedBytes = 48 << 10;

Expr bytes_of(const BufferNode& buffer) {
  return buffer.element_count * Expr(static_cast<int64_t>(byte_width(buffer.dtype)));
}

bool has_barrier(const Stmt& s) {
  bool found = false;
  walk(s, [&](const Stmt& inner) { found |= inner->kind == StmtKind::kBarrier; }, {});
  return found;
}

/// Makes one launch: thread loops become conditions on the thread index, shared buffers move to the top.
class LaunchBody : public StmtMutator {
 public:
  explicit LaunchBody(const Stmt& body) : thread_var_(make_var("thread")) {
    walk(body,
         [&](const Stmt& s) {
           const auto* loop = s.as<ForNode>();
           if (!loop || loop->loop != LoopKind::kThread) return;
           auto extent = constant_of(loop->extent);
           internal_check(extent.has_value(), "{} threads in {}, which is not constant", to_string(loop->extent),
                          to_string(loop->var));
           threads_ = std::max(threads_, *extent);
         },
         {});
  }

  void set_value(const Expr& var, Expr value) { values_[var.as<VarNode>()] = std::move(value); }
  const Expr& thread_var() const { return thread_var_; }
  int64_t threads() const { return threads_; }

  Stmt with_shared_buffers(Stmt body) const {
    for (auto it = shared_.rbegin(); it != shared_.rend(); ++it) body = allocate(*it, body);
    return body;
  }

 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    internal_check(node->loop != LoopKind::kBlock, "the block loop {} inside a launch", to_string(node->var));
    if (node->loop != LoopKind::kThread) return StmtMutator::mutate_for(node, self);
    Expr low = mutate(node->low);
    values_[node->var.as<VarNode>()] = low + thread_var_;
    Stmt body = mutate_stmt(node->body);
    if (constant_of(node->extent) == threads_) return body;
    internal_check(!has_barrier(body), "a barrier inside {}, which only some threads run",
                   to_string(node->var));
    return if_stmt(lt(thread_var_, node->extent), body);
  }

  Stmt mutate_allocate(const AllocateNode* node, const Stmt& self) override {
    if (node->buffer->scope != BufferScope::kShared) return StmtMutator::mutate_allocate(node, self);
    shared_.push_back(node->buffer);
    return mutate_stmt(node->body);
  }

  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = values_.find(node);
    return it == values_.end() ? self : it->second;
  }

 private:
  Expr thread_var_;
  int64_t threads_ = 1;
  std::vector<Buffer> shared_;
  std::unordered_map<const VarNode*, Expr> values_;
};

class LaunchBinder : public StmtMutator {
 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    if (node->loop == LoopKind::kBlock || node->loop == LoopKind::kThread) return make_launch(self);
    return StmtMutator::mutate_for(node, self);
  }
  Stmt mutate_launch(const LaunchNode*, const Stmt& self) override { return self; }

 private:
  /// Collects directly nested block loops, outermost first; returns what they surround. Conditions, lets and
  /// allocations between them move inside.
  static Stmt peel(const Stmt& s, std::vector<const ForNode*>& blocks) {
    if (const auto* loop = s.as<ForNode>(); loop && loop->loop == LoopKind::kBlock) {
      blocks.push_back(loop);
      return peel(loop->body, blocks);
    }
    if (const auto* node = s.as<IfNode>(); node && !node->else_case)
      return if_stmt(node->condition, peel(node->then_case, blocks));
    if (const auto* node = s.as<LetStmtNode>()) return let(node->var, node->value, peel(node->body, blocks));
    if (const auto* node = s.as<AllocateNode>()) return allocate(node->buffer, peel(node->body, blocks));
    return s;
  }

  Stmt make_launch(const Stmt& nest) {
    std::vector<const ForNode*> blocks;
    Stmt inside = peel(nest, blocks);
    internal_check(blocks.size() <= 3, "the nest of {} is bound to {} block loops, at most 3 are possible",
                   to_string(blocks[0]->var), blocks.size());
    std::reverse(blocks.begin(), blocks.end());  // x is the innermost
    LaunchBody rewriter(inside);
    std::array<Expr, 3> vars = {make_var("block.x"), make_var("block.y"), make_var("block.z")};
    std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};
    bool fits = true;
    for (size_t i = 1; i < blocks.size(); ++i) {
      auto extent = constant_of(blocks[i]->extent);
      fits = fits && extent && *extent <= kMaxBlocksYZ;
    }
    Expr rest = vars[0];
    for (size_t i = 0; i < blocks.size(); ++i) {
      const ForNode& loop = *blocks[i];
      if (fits) {
        grid[i] = loop.extent;
        rewriter.set_value(loop.var, loop.low + vars[i]);
        continue;
      }
      // A grid is far larger along x than along y and z: all loops share x where they might not fit.
      grid[0] = grid[0] * loop.extent;
      bool last = i + 1 == blocks.size();
      rewriter.set_value(loop.var, loop.low + (last ? rest : mod(rest, loop.extent)));
      rest = floordiv(rest, loop.extent);
    }
    if (auto count = constant_of(grid[0]))
      internal_check(*count <= kMaxBlocksX, "{} blocks in one launch, at most {}", *count, kMaxBlocksX);
    Stmt body = rewriter.mutate_stmt(inside);
    return launch(vars, grid, rewriter.thread_var(), rewriter.threads(), rewriter.with_shared_buffers(body));
  }
};

void add_launches(const LoopKernel& kernel, const Stmt& s, int loop, LaunchPlan& plan) {
  if (!s) return;
  if (const auto* sequence = s.as<BlockNode>()) {
    for (const Stmt& inner : sequence->statements) add_launches(kernel, inner, loop, plan);
    return;
  }
  if (const auto* node = s.as<ForNode>(); node && node->loop == LoopKind::kSerial) {
    internal_check(loop < 0 && constant_of(node->low) == 0,
                   "kernel {}: launches inside nested loops, or a loop from {}", kernel.name,
                   to_string(node->low));
    plan.loops.push_back(node->extent);
    add_launches(kernel, node->body, static_cast<int>(plan.loops.size()) - 1, plan);
    return;
  }
  const auto* node = s.as<LaunchNode>();
  internal_check(node != nullptr, "kernel {}: a statement outside of launches:\n{}", kernel.name,
                 to_string(s));
  LaunchShape shape{node->grid, node->threads, 0, loop};
  walk(node->body,
       [&](const Stmt& inner) {
         const auto* a = inner.as<AllocateNode>();
         if (!a || a->buffer->scope != BufferScope::kShared) return;
         auto bytes = constant_of(bytes_of(*a->buffer));
         internal_check(bytes.has_value(), "kernel {}: the size of {} is not constant", kernel.name,
                        a->buffer->name);
         shape.shared_bytes += (*bytes + 15) / 16 * 16;
       },
       {});
  plan.launches.push_back(std::move(shape));
}

}  // namespace

namespace {

/// What the nest of one launch asks for.
struct Demand {
  int64_t shared_bytes = 0, threads = 1;
  std::string buffers;  ///< in shared memory, by name

  explicit Demand(const Stmt& nest) {
    walk(nest, [&](const Stmt& s) { add(s); }, {});
  }

 private:
  void add(const Stmt& s) {
    if (const auto* loop = s.as<ForNode>(); loop && loop->loop == LoopKind::kThread)
      threads = std::max(threads, constant_of(loop->extent).value_or(0));
    const auto* allocation = s.as<AllocateNode>();
    if (!allocation || allocation->buffer->scope != BufferScope::kShared) return;
    const auto bytes = constant_of(bytes_of(*allocation->buffer));
    internal_check(bytes.has_value(), "{} in shared memory has {} elements, which is not constant",
                   allocation->buffer->name, to_string(allocation->buffer->element_count));
    shared_bytes += (*bytes + 15) / 16 * 16;
    buffers += fmt::format("{}{} ({} bytes)", buffers.empty() ? "" : ", ", allocation->buffer->name, *bytes);
  }
};

std::optional<ScheduleMisfit> misfit_of_nest(const Stmt& nest) {
  const Demand demand(nest);
  if (demand.threads > kMaxThreads)
    return ScheduleMisfit{fmt::format("{} threads a block, at most {} are possible", demand.threads, kMaxThreads)};
  if (demand.shared_bytes > kMaxSharedBytes) {
    return ScheduleMisfit{fmt::format("{} bytes of shared memory in one launch, at most {}: {}", demand.shared_bytes,
                              kMaxSharedBytes, demand.buffers)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ScheduleMisfit> misfit_of_launches(const Stmt& s) {
  if (!s) return std::nullopt;
  if (const auto* loop = s.as<ForNode>()) {
    const bool bound = loop->loop == LoopKind::kBlock || loop->loop == LoopKind::kThread;
    return bound ? misfit_of_nest(s) : misfit_of_launches(loop->body);
  }
  if (const auto* sequence = s.as<BlockNode>()) {
    for (const Stmt& inner : sequence->statements)
      if (auto misfit = misfit_of_launches(inner)) return misfit;
  }
  if (const auto* node = s.as<IfNode>()) {
    auto misfit = misfit_of_launches(node->then_case);
    return misfit ? misfit : misfit_of_launches(node->else_case);
  }
  if (const auto* node = s.as<LetStmtNode>()) return misfit_of_launches(node->body);
  if (const auto* node = s.as<AllocateNode>()) return misfit_of_launches(node->body);
  if (const auto* node = s.as<LaunchNode>()) return misfit_of_nest(node->body);
  return std::nullopt;
}

Stmt bind_launches(const Stmt& s) {
  return LaunchBinder().mutate_stmt(s);
}

LaunchPlan plan_launches(const LoopKernel& kernel) {
  LaunchPlan plan;
  add_launches(kernel, kernel.body, -1, plan);
  return plan;
}

}  // namespace gantry
