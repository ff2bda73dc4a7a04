#include "host/codegen/device_loops.h"

#include <cstdint>

namespace gantry {

using llvm::Value;

namespace {

/// Iterations up to which a loop over registers is unrolled: a thread has 255.
constexpr int64_t kMaxUnrolled = 256;

/// Whether the loop's variable chooses among a thread's registers, which only unrolled code can name.
bool indexes_registers(const ForNode& loop) {
  const auto* var = loop.var.as<VarNode>();
  bool found = false;
  auto check = [&](const Buffer& buffer, const Expr& index) {
    if (buffer->scope == BufferScope::kLocal && mentions(index, var)) found = true;
  };
  walk(
      loop.body,
      [&](const Stmt& s) {
        if (auto* store = s.as<StoreNode>()) check(store->buffer, store->index);
        if (auto* shuffle = s.as<ShuffleNode>()) check(shuffle->target, shuffle->index);
        if (auto* mma = s.as<MmaNode>()) {
          check(mma->d, mma->d_index);
          check(mma->a, mma->a_index);
          check(mma->b, mma->b_index);
        }
      },
      [&](const Expr& e) {
        if (auto* load = e.as<LoadNode>()) check(load->buffer, load->index);
      });
  return found;
}

/// An innermost loop of few iterations and little work: unrolled, its index arithmetic goes into the offsets
/// of the accesses, and loads run ahead of their uses.
bool is_short(const ForNode& loop, int64_t iterations) {
  constexpr int64_t kMostIterations = 16, kMostStatements = 1024;
  if (iterations > kMostIterations) return false;
  int64_t statements = 0;
  bool innermost = true;
  walk(loop.body,
       [&](const Stmt& s) {
         innermost = innermost && s->kind != StmtKind::kFor && s->kind != StmtKind::kBarrier;
         ++statements;
       },
       {});
  return innermost && statements * iterations <= kMostStatements;
}

void unroll(llvm::BranchInst* back) {
  llvm::LLVMContext& context = back->getContext();
  llvm::MDNode* whole = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.full"));
  llvm::MDNode* id = llvm::MDNode::getDistinct(context, {nullptr, whole});
  id->replaceOperandWith(0, id);
  back->setMetadata(llvm::LLVMContext::MD_loop, id);
}

}  // namespace

void DeviceLoops::emit(const ForNode& loop, const std::function<void()>& body) {
  const IndexRanges::Range range = narrow_.range(loop), extent = ranges_.range(loop.extent);
  const bool narrow = range.fits_int32() && extent.fits_int32() && range.high < INT32_MAX;
  const auto* var = loop.var.as<VarNode>();
  expressions_.forget();
  Value *first = expressions_.emit_index(loop.low), *count = expressions_.emit_index(loop.extent);
  if (narrow) {
    first = narrow_.narrow(first);
    count = narrow_.narrow(count);
  }
  Value* end = b_.CreateNSWAdd(first, count);

  auto* header = scope_.new_block(var->name);
  auto* after = scope_.new_block("after");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(first, end), header, after);
  b_.SetInsertPoint(header);
  llvm::PHINode* index = b_.CreatePHI(first->getType(), 2, var->name);
  index->addIncoming(first, before);
  if (narrow) {
    narrow_.bind_i32(loop.var, index, range);
  } else {
    narrow_.bind_loop(loop, index, range);
  }
  body();
  Value* next = b_.CreateAdd(index, llvm::ConstantInt::get(index->getType(), 1), "", range.low >= 0, true);
  index->addIncoming(next, b_.GetInsertBlock());
  llvm::BranchInst* back = b_.CreateCondBr(b_.CreateICmpSLT(next, end), header, after);
  if ((extent.high <= kMaxUnrolled && indexes_registers(loop)) || is_short(loop, extent.high)) unroll(back);
  b_.SetInsertPoint(after);
  scope_.vars.erase(var);
  expressions_.forget();
}

}  // namespace gantry
