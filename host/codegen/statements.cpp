#include "host/codegen/statements.h"

#include <llvm/IR/InlineAsm.h>

#include "host/codegen/access_reports.h"
#include "host/codegen/block_statements.h"
#include "host/codegen/device_loops.h"
#include "host/codegen/expressions.h"
#include "host/codegen/function_scope.h"
#include "host/codegen/index_range.h"
#include "host/codegen/memory_statements.h"
#include "host/codegen/parallel_loops.h"
#include "host/codegen/serial_loops.h"
#include "host/codegen/stack_buffers.h"
#include "host/codegen/thread_memory.h"
#include "host/codegen/tile_statements.h"
#include "host/codegen/warp_statements.h"
#include "host/loops/index_terms.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

Statements::Statements(llvm::IRBuilder<>& builder, FunctionScope& scope, Expressions& expressions,
                       IndexSigns& signs, IndexRanges* ranges, const Kinds& kinds, const LoopKernel& kernel,
                       const Target& target)
    : b_(builder),
      scope_(scope),
      expressions_(expressions),
      signs_(signs),
      ranges_(ranges),
      kinds_(kinds),
      kernel_(kernel),
      target_(target) {}

void Statements::emit(const Stmt& s) {
  if (!s) return;
  switch (s->kind) {
    case StmtKind::kStore:
      return kinds_.memory.store(*s.as<StoreNode>());
    case StmtKind::kFor:
      return loop(*s.as<ForNode>());
    case StmtKind::kIf:
      return branch(*s.as<IfNode>());
    case StmtKind::kBlock:
      for (const Stmt& statement : s.as<BlockNode>()->statements) emit(statement);
      return;
    case StmtKind::kAllocate:
      return allocate(*s.as<AllocateNode>());
    case StmtKind::kLet:
      return let(*s.as<LetStmtNode>());
    case StmtKind::kBarrier:
      if (on_gpu()) return kinds_.blocks.barrier();
      if (kinds_.reports.active()) return kinds_.reports.barrier();
      break;
    case StmtKind::kShuffle:
      if (on_gpu()) return kinds_.warps.shuffle(*s.as<ShuffleNode>());
      break;
    case StmtKind::kPrefetch:
      return kinds_.memory.prefetch(*s.as<PrefetchNode>());
    case StmtKind::kTranspose:
      return kinds_.memory.transpose(*s.as<TransposeNode>());
    case StmtKind::kOnce:
      return once(*s.as<OnceNode>());
    case StmtKind::kMma:
      if (on_gpu()) return kinds_.warps.mma(*s.as<MmaNode>());
      break;
    case StmtKind::kTile:
      return kinds_.tiles.emit(*s.as<TileNode>());
    case StmtKind::kLaunch:
      break;
  }
  internal_error("kernel {}: a GPU's statement in code for {}", kernel_.name, target_.name);
}

void Statements::loop(const ForNode& node) {
  signs_.set_at_least(node.var.as<VarNode>(), node.low);
  auto* extent = node.extent.as<IntImmNode>();
  if (extent && extent->value <= 0) return;
  const auto body = [&] { emit(node.body); };
  if (on_gpu()) return kinds_.device_loops.emit(node, body);
  const bool is_parallel = node.loop == LoopKind::kParallel || node.loop == LoopKind::kEmulatedBlock;
  const bool outlines =
      is_parallel && !kinds_.parallel.inside() && !kinds_.reports.active() && !(extent && extent->value == 1);
  if (outlines) return kinds_.parallel.emit(node, body);
  serial_loop(node);
}

void Statements::serial_loop(const ForNode& node) {
  expressions_.forget();
  Value* low = expressions_.emit_index(node.low);
  Value* end = b_.CreateNSWAdd(low, expressions_.emit_index(node.extent));
  const bool is_emulated = node.loop == LoopKind::kEmulatedBlock || node.loop == LoopKind::kEmulatedThread;
  const bool is_reported = kinds_.reports.active() && is_emulated;
  if (is_reported) kinds_.reports.enter(node);
  kinds_.serial.emit(low, end, node.var, [&] {
    if (is_reported) kinds_.reports.begin_iteration(node);
    emit(node.body);
  });
  if (is_reported) kinds_.reports.leave(node);
}

void Statements::branch(const IfNode& node) {
  expressions_.forget();
  Expr condition = node.condition;
  if (auto* broadcast = condition.as<BroadcastNode>()) condition = broadcast->value;
  internal_check(condition.type().lanes == 1, "kernel {}: a branch on a vector of conditions", kernel_.name);
  Value* c = expressions_.emit_index(condition);
  auto* then = scope_.new_block("then");
  auto* after = scope_.new_block("endif");
  auto* otherwise = node.else_case ? scope_.new_block("else") : after;
  b_.CreateCondBr(c, then, otherwise);
  b_.SetInsertPoint(then);
  const IndexRanges::Saved saved = ranges_ ? ranges_->assume(condition) : IndexRanges::Saved();
  emit(node.then_case);
  if (ranges_) ranges_->restore(saved);
  b_.CreateBr(after);
  if (node.else_case) {
    b_.SetInsertPoint(otherwise);
    emit(node.else_case);
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
}

void Statements::allocate(const AllocateNode& node) {
  const auto around_body = [&](auto& memory) {
    memory.open(node);
    emit(node.body);
    memory.close(node);
  };
  const BufferScope scope = node.buffer->scope;
  if (!on_gpu() && scope == BufferScope::kThread) return around_body(kinds_.thread_memory);
  if (on_gpu() && scope == BufferScope::kShared) return around_body(kinds_.blocks);
  around_body(kinds_.stack);
}

/// Unless the iterations around it are divided among threads there is nothing to be kept.
void Statements::once(const OnceNode& node) {
  expressions_.forget();
  Value* is_first = kinds_.parallel.is_first_iteration();
  if (is_first == nullptr) return emit(node.body);
  auto* make = scope_.new_block("make");
  auto* made = scope_.new_block("made");
  b_.CreateCondBr(is_first, make, made);
  b_.SetInsertPoint(make);
  emit(node.body);
  b_.CreateBr(made);
  b_.SetInsertPoint(made);
  expressions_.forget();
}

namespace {

/// The same value, of which no pass of LLVM's sees how it came about: loop strength reduction would write out anew in
/// the loop, division and all, what the variable was made to keep out of it.
Value* without_history(llvm::IRBuilder<>& b, Value* value) {
  auto* type = llvm::FunctionType::get(value->getType(), {value->getType()}, false);
  return b.CreateCall(llvm::InlineAsm::get(type, "", "=r,0", false), {value});
}

}  // namespace

void Statements::let(const LetStmtNode& node) {
  expressions_.forget();
  const auto* var = node.var.as<VarNode>();
  signs_.set_at_least(var, node.value);
  Value* value = expressions_.emit(node.value);
  const bool is_index = node.value.type() == ExprType{DType::kI64, 1};
  scope_.vars[var] = !on_gpu() && is_index && divides_by_size(node.value) ? without_history(b_, value) : value;
  expressions_.set_value(var, node.value);
  if (ranges_) ranges_->bind(var, ranges_->range(node.value));
  emit(node.body);
  scope_.vars.erase(var);
}

}  // namespace gantry
