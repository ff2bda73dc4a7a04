// Builders and rewriters of statements.
#include "host/loops/stmt.h"

#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {

Expr load(const Buffer& buffer, Expr index, Expr predicate) {
  internal_check(buffer != nullptr && index.get(), "load without buffer or index");
  ExprType type{buffer->dtype, index.type().lanes};
  return std::make_shared<LoadNode>(buffer, type, std::move(index), std::move(predicate));
}

Stmt store(Buffer buffer, Expr index, Expr value, Expr predicate) {
  internal_check(buffer != nullptr && index.get() && value.get(), "store without buffer, index or value");
  if (const auto* imm = value.as<IntImmNode>(); imm && imm->type.dtype == DType::kI64) {
    value = is_float(buffer->dtype) ? float_imm(buffer->dtype, static_cast<double>(imm->value))
                                    : int_imm(buffer->dtype, imm->value);
  }
  if (value.type().dtype != buffer->dtype) {
    internal_error("store to {} ({}) of a value of type {}: {}", buffer->name, name_of(buffer->dtype),
                   name_of(value.type().dtype), to_string(value));
  }
  return std::make_shared<StoreNode>(std::move(buffer), std::move(index), std::move(value),
                                     std::move(predicate));
}

Stmt for_loop(Expr var, Expr low, Expr extent, LoopKind kind, Stmt body, int64_t rounds) {
  if (!body || constant_of(extent) == 0) return {};
  return std::make_shared<ForNode>(std::move(var), std::move(low), std::move(extent), kind, std::move(body),
                                   rounds);
}

Stmt for_loop_like(const ForNode& loop, Expr var, Expr low, Expr extent, Stmt body) {
  const bool cut = constant_of(loop.extent) && constant_of(extent) != constant_of(loop.extent);
  return for_loop(std::move(var), std::move(low), std::move(extent), loop.loop, std::move(body),
                  cut ? 1 : loop.rounds);
}

Stmt if_stmt(Expr condition, Stmt then_case, Stmt else_case) {
  if (auto truth = constant_of(condition)) return *truth ? then_case : else_case;
  if (!then_case && !else_case) return {};
  if (!then_case) return std::make_shared<IfNode>(logical_not(condition), std::move(else_case), Stmt());
  return std::make_shared<IfNode>(std::move(condition), std::move(then_case), std::move(else_case));
}

Stmt block(std::vector<Stmt> statements) {
  std::vector<Stmt> flat;
  for (Stmt& s : statements) {
    if (!s) continue;
    if (const auto* inner = s.as<BlockNode>()) {
      flat.insert(flat.end(), inner->statements.begin(), inner->statements.end());
    } else {
      flat.push_back(std::move(s));
    }
  }
  if (flat.empty()) return {};
  if (flat.size() == 1) return flat[0];
  return std::make_shared<BlockNode>(std::move(flat));
}

Stmt allocate(Buffer buffer, Stmt body) {
  if (!body) return {};
  return std::make_shared<AllocateNode>(std::move(buffer), std::move(body));
}

Stmt once(Stmt body) {
  if (!body) return {};
  return std::make_shared<OnceNode>(std::move(body));
}

Stmt launch(std::array<Expr, 3> block_vars, std::array<Expr, 3> grid, Expr thread_var, int64_t threads,
            Stmt body) {
  if (!body) return {};
  return std::make_shared<LaunchNode>(std::move(block_vars), std::move(grid), std::move(thread_var), threads,
                                      std::move(body));
}

Stmt barrier() {
  return std::make_shared<BarrierNode>();
}

Stmt shuffle(Buffer target, Expr index, Expr value, int lane_mask) {
  return std::make_shared<ShuffleNode>(std::move(target), std::move(index), std::move(value), lane_mask);
}

Stmt mma(MmaShape shape, Buffer d, Expr d_index, Buffer a, Expr a_index, Buffer b, Expr b_index) {
  return std::make_shared<MmaNode>(shape, std::move(d), std::move(d_index), std::move(a), std::move(a_index),
                                   std::move(b), std::move(b_index));
}

namespace {

Stmt tile_access(TileNode::Op op, int tile, Buffer buffer, Expr index, Expr stride) {
  auto node = std::make_shared<TileNode>(op);
  node->tile = tile;
  node->buffer = std::move(buffer);
  node->index = std::move(index);
  node->stride = std::move(stride);
  return node;
}

}  // namespace

Stmt tile_configure(TileUnit unit, int rows, int b_begin) {
  auto node = std::make_shared<TileNode>(TileNode::Op::kConfigure);
  node->unit = unit;
  node->rows = rows;
  node->b_begin = b_begin;
  return node;
}
Stmt tile_release() {
  return std::make_shared<TileNode>(TileNode::Op::kRelease);
}
Stmt tile_zero(int tile) {
  auto node = std::make_shared<TileNode>(TileNode::Op::kZero);
  node->tile = tile;
  return node;
}
Stmt tile_load(int tile, Buffer buffer, Expr index, Expr stride) {
  return tile_access(TileNode::Op::kLoad, tile, std::move(buffer), std::move(index), std::move(stride));
}
Stmt tile_store(int tile, Buffer buffer, Expr index, Expr stride) {
  return tile_access(TileNode::Op::kStore, tile, std::move(buffer), std::move(index), std::move(stride));
}
Stmt tile_dot(int tile, int a, int b) {
  auto node = std::make_shared<TileNode>(TileNode::Op::kDot);
  node->tile = tile;
  node->a = a;
  node->b = b;
  return node;
}

Stmt prefetch(Buffer buffer, Expr index, Fetch fetch) {
  return std::make_shared<PrefetchNode>(std::move(buffer), std::move(index), fetch);
}

Stmt transpose_block(Buffer rows, Buffer source, Expr index, Expr stride, int side) {
  return std::make_shared<TransposeNode>(std::move(rows), std::move(source), std::move(index),
                                         std::move(stride), side);
}

Stmt let(Expr var, Expr value, Stmt body) {
  if (!body) return {};
  return std::make_shared<LetStmtNode>(std::move(var), std::move(value), std::move(body));
}

Stmt StmtMutator::mutate_stmt(const Stmt& s) {
  if (!s) return s;
  switch (s->kind) {
    case StmtKind::kStore:
      return mutate_store(s.as<StoreNode>(), s);
    case StmtKind::kFor:
      return mutate_for(s.as<ForNode>(), s);
    case StmtKind::kIf:
      return mutate_if(s.as<IfNode>(), s);
    case StmtKind::kBlock:
      return mutate_block(s.as<BlockNode>(), s);
    case StmtKind::kAllocate:
      return mutate_allocate(s.as<AllocateNode>(), s);
    case StmtKind::kLet:
      return mutate_let(s.as<LetStmtNode>(), s);
    case StmtKind::kLaunch:
      return mutate_launch(s.as<LaunchNode>(), s);
    case StmtKind::kBarrier:
      return s;
    case StmtKind::kShuffle:
      return mutate_shuffle(s.as<ShuffleNode>(), s);
    case StmtKind::kMma:
      return mutate_mma(s.as<MmaNode>(), s);
    case StmtKind::kTile:
      return mutate_tile(s.as<TileNode>(), s);
    case StmtKind::kPrefetch:
      return mutate_prefetch(s.as<PrefetchNode>(), s);
    case StmtKind::kTranspose:
      return mutate_transpose(s.as<TransposeNode>(), s);
    case StmtKind::kOnce:
      return mutate_once(s.as<OnceNode>(), s);
  }
  return s;
}

Stmt StmtMutator::mutate_store(const StoreNode* node, const Stmt& self) {
  Expr index = mutate(node->index), value = mutate(node->value), predicate = mutate(node->predicate);
  bool same = index.same_as(node->index) && value.same_as(node->value) && predicate.same_as(node->predicate);
  return same ? self : store(node->buffer, index, value, predicate);
}

Stmt StmtMutator::mutate_for(const ForNode* node, const Stmt& self) {
  Expr low = mutate(node->low), extent = mutate(node->extent);
  Stmt body = mutate_stmt(node->body);
  bool same = low.same_as(node->low) && extent.same_as(node->extent) && body.same_as(node->body);
  return same ? self : for_loop_like(*node, node->var, low, extent, body);
}

Stmt StmtMutator::mutate_if(const IfNode* node, const Stmt& self) {
  Expr condition = mutate(node->condition);
  Stmt then_case = mutate_stmt(node->then_case), else_case = mutate_stmt(node->else_case);
  bool same = condition.same_as(node->condition) && then_case.same_as(node->then_case) &&
              else_case.same_as(node->else_case);
  return same ? self : if_stmt(condition, then_case, else_case);
}

Stmt StmtMutator::mutate_block(const BlockNode* node, const Stmt& self) {
  std::vector<Stmt> statements;
  bool changed = false;
  for (const Stmt& s : node->statements) {
    statements.push_back(mutate_stmt(s));
    changed |= !statements.back().same_as(s);
  }
  return changed ? block(std::move(statements)) : self;
}

Stmt StmtMutator::mutate_allocate(const AllocateNode* node, const Stmt& self) {
  Stmt body = mutate_stmt(node->body);
  return body.same_as(node->body) ? self : allocate(node->buffer, body);
}

Stmt StmtMutator::mutate_let(const LetStmtNode* node, const Stmt& self) {
  Expr value = mutate(node->value);
  Stmt body = mutate_stmt(node->body);
  return value.same_as(node->value) && body.same_as(node->body) ? self : let(node->var, value, body);
}

Stmt StmtMutator::mutate_launch(const LaunchNode* node, const Stmt& self) {
  std::array<Expr, 3> grid;
  bool same = true;
  for (size_t i = 0; i < 3; ++i) {
    grid[i] = mutate(node->grid[i]);
    same &= grid[i].same_as(node->grid[i]);
  }
  Stmt body = mutate_stmt(node->body);
  same &= body.same_as(node->body);
  return same ? self : launch(node->block_vars, grid, node->thread_var, node->threads, body);
}

Stmt StmtMutator::mutate_shuffle(const ShuffleNode* node, const Stmt& self) {
  Expr index = mutate(node->index), value = mutate(node->value);
  bool same = index.same_as(node->index) && value.same_as(node->value);
  return same ? self : shuffle(node->target, index, value, node->lane_mask);
}

Stmt StmtMutator::mutate_mma(const MmaNode* node, const Stmt& self) {
  Expr d = mutate(node->d_index), a = mutate(node->a_index), b = mutate(node->b_index);
  bool same = d.same_as(node->d_index) && a.same_as(node->a_index) && b.same_as(node->b_index);
  return same ? self : mma(node->shape, node->d, d, node->a, a, node->b, b);
}

Stmt StmtMutator::mutate_tile(const TileNode* node, const Stmt& self) {
  if (!node->buffer) return self;
  Expr index = mutate(node->index), stride = mutate(node->stride);
  bool same = index.same_as(node->index) && stride.same_as(node->stride);
  return same ? self : tile_access(node->op, node->tile, node->buffer, index, stride);
}

Stmt StmtMutator::mutate_prefetch(const PrefetchNode* node, const Stmt& self) {
  Expr index = mutate(node->index);
  return index.same_as(node->index) ? self : prefetch(node->buffer, index, node->fetch);
}

Stmt StmtMutator::mutate_transpose(const TransposeNode* node, const Stmt& self) {
  Expr index = mutate(node->index), stride = mutate(node->stride);
  bool same = index.same_as(node->index) && stride.same_as(node->stride);
  return same ? self : transpose_block(node->rows, node->source, index, stride, node->side);
}

Stmt StmtMutator::mutate_once(const OnceNode* node, const Stmt& self) {
  Stmt body = mutate_stmt(node->body);
  return body.same_as(node->body) ? self : once(body);
}

void walk(const Stmt& s, const std::function<void(const Stmt&)>& visit_stmt,
          const std::function<void(const Expr&)>& visit_expr) {
  if (!s) return;
  if (visit_stmt) visit_stmt(s);
  auto expr = [&](const Expr& e) {
    if (e.get() && visit_expr) walk(e, visit_expr);
  };
  switch (s->kind) {
    case StmtKind::kStore:
      expr(s.as<StoreNode>()->index);
      expr(s.as<StoreNode>()->value);
      expr(s.as<StoreNode>()->predicate);
      break;
    case StmtKind::kFor:
      expr(s.as<ForNode>()->low);
      expr(s.as<ForNode>()->extent);
      walk(s.as<ForNode>()->body, visit_stmt, visit_expr);
      break;
    case StmtKind::kIf:
      expr(s.as<IfNode>()->condition);
      walk(s.as<IfNode>()->then_case, visit_stmt, visit_expr);
      walk(s.as<IfNode>()->else_case, visit_stmt, visit_expr);
      break;
    case StmtKind::kBlock:
      for (const Stmt& inner : s.as<BlockNode>()->statements) walk(inner, visit_stmt, visit_expr);
      break;
    case StmtKind::kAllocate:
      walk(s.as<AllocateNode>()->body, visit_stmt, visit_expr);
      break;
    case StmtKind::kLet:
      expr(s.as<LetStmtNode>()->value);
      walk(s.as<LetStmtNode>()->body, visit_stmt, visit_expr);
      break;
    case StmtKind::kLaunch:
      for (const Expr& extent : s.as<LaunchNode>()->grid) expr(extent);
      walk(s.as<LaunchNode>()->body, visit_stmt, visit_expr);
      break;
    case StmtKind::kBarrier:
      break;
    case StmtKind::kShuffle:
      expr(s.as<ShuffleNode>()->index);
      expr(s.as<ShuffleNode>()->value);
      break;
    case StmtKind::kMma:
      expr(s.as<MmaNode>()->d_index);
      expr(s.as<MmaNode>()->a_index);
      expr(s.as<MmaNode>()->b_index);
      break;
    case StmtKind::kTile:
      expr(s.as<TileNode>()->index);
      expr(s.as<TileNode>()->stride);
      break;
    case StmtKind::kPrefetch:
      expr(s.as<PrefetchNode>()->index);
      break;
    case StmtKind::kTranspose:
      expr(s.as<TransposeNode>()->index);
      expr(s.as<TransposeNode>()->stride);
      break;
    case StmtKind::kOnce:
      walk(s.as<OnceNode>()->body, visit_stmt, visit_expr);
      break;
  }
}

}  // namespace gantry
