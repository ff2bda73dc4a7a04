// GPU launches: entry functions, thread indices, barriers, shuffles, matrix instructions, 32-bit indices.
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <set>

#include "host/codegen/kernel_emitter.h"
#include "host/codegen/llvm_target.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {

using llvm::Value;

namespace {

constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;
constexpr int64_t kMaxBlocksX = INT32_MAX, kMaxBlocksYZ = 65535;
constexpr int kAllLanes = -1, kWarpClamp = 0x1f;
/// Iterations up to which a loop over registers is unrolled: a thread has 255.
constexpr int64_t kMaxUnrolled = 256;

std::set<const BufferNode*> stored_buffers(const Stmt& s) {
  std::set<const BufferNode*> stored;
  walk(s,
       [&](const Stmt& inner) {
         if (auto* store = inner.as<StoreNode>()) stored.insert(store->buffer.get());
       },
       {});
  return stored;
}

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

/// An innermost loop of few iterations and little work: unrolled, its index arithmetic goes into the offsets of
/// the accesses, and loads run ahead of their uses.
bool is_short(const ForNode& loop, int64_t iterations) {
  constexpr int64_t kMostIterations = 16, kMostStatements = 1024;
  if (iterations > kMostIterations) return false;
  int64_t statements = 0;
  bool innermost = true;
  walk(
      loop.body,
      [&](const Stmt& s) {
        innermost = innermost && s->kind != StmtKind::kFor && s->kind != StmtKind::kBarrier;
        ++statements;
      },
      {});
  return innermost && statements * iterations <= kMostStatements;
}

/// Every buffer's name is unique in its kernel, but PTX knows letters, digits and underscores only.
std::string identifier(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '_';
  }
  return text;
}

}  // namespace

void KernelEmitter::emit_launches(const Stmt& s, const ForNode* loop) {
  if (!s) return;
  if (auto* block = s.as<BlockNode>()) {
    for (const Stmt& statement : block->statements) emit_launches(statement, loop);
  } else if (auto* launch = s.as<LaunchNode>()) {
    emit_launch(*launch, loop);
  } else if (auto* outer = s.as<ForNode>(); outer && loop == nullptr) {
    emit_launches(outer->body, outer);
  } else {
    internal_error("kernel {}: something else than launches and one loop around them", kernel_.name);
  }
}

llvm::Function* KernelEmitter::make_entry(const LaunchNode& launch, const ForNode* loop) {
  std::vector<llvm::Type*> types;
  std::vector<Buffer> buffers = kernel_.arguments;
  buffers.insert(buffers.end(), kernel_.scratch.begin(), kernel_.scratch.end());
  for (size_t i = 0; i < buffers.size(); ++i) types.push_back(b_.getPtrTy(kGlobalSpace));
  types.insert(types.end(), kernel_.symbols.size() + (loop ? 1 : 0), b_.getInt64Ty());
  auto* function = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), types, false),
                                          llvm::Function::ExternalLinkage,
                                          fmt::format("{}_{}", kernel_.name, launch_count_), module_);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);

  scope_ = {};
  scope_.function = function;
  scope_.entry = llvm::BasicBlock::Create(context_, "entry", function);
  b_.SetInsertPoint(scope_.entry);
  expressions_.forget();
  const std::set<const BufferNode*> stored = stored_buffers(launch.body);
  std::set<const BufferNode*> written;
  for (unsigned i = 0; i < buffers.size(); ++i) {
    const BufferNode* buffer = buffers[i].get();
    function->getArg(i)->setName(buffer->name);
    scope_.buffers[buffer] = function->getArg(i);
    function->addParamAttr(i, llvm::Attribute::getWithAlignment(context_, llvm::Align(kDeviceAlignment)));
    if (stored.contains(buffer)) {
      // Not "noalias": other threads write it too, and a barrier must count as such a write. That no two
      // buffers overlap is in the alias scopes of the accesses.
      written.insert(buffer);
    } else {
      function->addParamAttr(i, llvm::Attribute::NoAlias);
      function->addParamAttr(i, llvm::Attribute::ReadOnly);
    }
  }
  buffers_.set_written(std::move(written));
  unsigned next = static_cast<unsigned>(buffers.size());
  for (const std::string& symbol : kernel_.symbols) {
    function->getArg(next)->setName(symbol);
    scope_.symbols[symbol] = function->getArg(next++);
  }
  if (loop) {
    function->getArg(next)->setName("iteration");
    scope_.vars[loop->var.as<VarNode>()] =
        b_.CreateNSWAdd(expressions_.emit(loop->low), function->getArg(next));
    signs_.set_at_least(loop->var.as<VarNode>(), loop->low);
    const IndexRanges::Range low = ranges_.range(loop->low), count = ranges_.range(loop->extent);
    ranges_.bind(loop->var.as<VarNode>(), {low.low, low.high + count.high - 1});
  }
  return function;
}

void KernelEmitter::emit_launch(const LaunchNode& launch, const ForNode* loop) {
  llvm::Function* function = make_entry(launch, loop);
  const llvm::Intrinsic::ID block_index[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                             llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                             llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
  for (size_t i = 0; i < 3; ++i) {
    if (!launch.block_vars[i]) continue;
    auto* blocks = launch.grid[i].as<IntImmNode>();
    bind_index(launch.block_vars[i], block_index[i],
               blocks ? blocks->value : (i == 0 ? kMaxBlocksX : kMaxBlocksYZ));
  }
  if (launch.thread_var) {
    bind_index(launch.thread_var, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, launch.threads);
  }
  if (launch.body) emit_stmt(launch.body);
  b_.CreateRetVoid();

  llvm::NamedMDNode* annotations = module_.getOrInsertNamedMetadata("nvvm.annotations");
  auto annotate_entry = [&](const char* name, int64_t value) {
    annotations->addOperand(llvm::MDNode::get(
        context_, {llvm::ValueAsMetadata::get(function), llvm::MDString::get(context_, name),
                   llvm::ValueAsMetadata::get(b_.getInt32(static_cast<uint32_t>(value)))}));
  };
  annotate_entry("kernel", 1);
  annotate_entry("reqntidx", launch.threads);
  annotate_entry("reqntidy", 1);
  annotate_entry("reqntidz", 1);
  set_function_attributes(*function, target_);
  ++launch_count_;
}

void KernelEmitter::bind_index(const Expr& var, llvm::Intrinsic::ID special_register, int64_t limit) {
  llvm::CallInst* index = b_.CreateIntrinsic(special_register, {}, {});
  index->setMetadata(llvm::LLVMContext::MD_range,
                     llvm::MDBuilder(context_).createRange(llvm::APInt(32, 0),
                                                           llvm::APInt(32, static_cast<uint64_t>(limit))));
  index->setName(var.as<VarNode>()->name);
  narrow_.bind(var, index, {0, limit - 1});
}

// --- statements

void KernelEmitter::emit_device_loop(const ForNode& loop) {
  const IndexRanges::Range low = ranges_.range(loop.low), extent = ranges_.range(loop.extent);
  const IndexRanges::Range range{low.low, low.high + extent.high - 1};
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
    narrow_.bind(loop.var, index, range);
  } else {
    ranges_.bind(var, range);
    scope_.vars[var] = index;
  }
  if (loop.body) emit_stmt(loop.body);
  Value* next = b_.CreateAdd(index, llvm::ConstantInt::get(index->getType(), 1), "", range.low >= 0, true);
  index->addIncoming(next, b_.GetInsertBlock());
  llvm::BranchInst* back = b_.CreateCondBr(b_.CreateICmpSLT(next, end), header, after);
  if ((extent.high <= kMaxUnrolled && indexes_registers(loop)) || is_short(loop, extent.high)) {
    llvm::MDNode* unroll =
        llvm::MDNode::get(context_, llvm::MDString::get(context_, "llvm.loop.unroll.full"));
    llvm::MDNode* id = llvm::MDNode::getDistinct(context_, {nullptr, unroll});
    id->replaceOperandWith(0, id);
    back->setMetadata(llvm::LLVMContext::MD_loop, id);
  }
  b_.SetInsertPoint(after);
  scope_.vars.erase(var);
  expressions_.forget();
}

void KernelEmitter::emit_shared(const AllocateNode& node) {
  const BufferNode& buffer = *node.buffer;
  auto* count = buffer.element_count.as<IntImmNode>();
  internal_check(count != nullptr && count->value >= 0, "kernel {}: shared buffer {} needs a constant size",
                 kernel_.name, buffer.name);
  auto* type =
      llvm::ArrayType::get(storage_type(context_, buffer.dtype), static_cast<uint64_t>(count->value));
  auto* memory = new llvm::GlobalVariable(
      module_, type, false, llvm::GlobalValue::InternalLinkage, llvm::PoisonValue::get(type),
      fmt::format("{}_{}_{}", kernel_.name, launch_count_, identifier(buffer.name)), nullptr,
      llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  memory->setAlignment(llvm::Align(kDeviceAlignment));
  scope_.buffers[&buffer] = memory;
  if (node.body) emit_stmt(node.body);
  scope_.buffers.erase(&buffer);
}

void KernelEmitter::emit_barrier() {
  expressions_.forget();
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
}

/// The lane's 32 bits.
Value* KernelEmitter::shuffle_bits(Value* value, int lane_mask) {
  return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                            {b_.getInt32(static_cast<uint32_t>(kAllLanes)), value,
                             b_.getInt32(static_cast<uint32_t>(lane_mask)), b_.getInt32(kWarpClamp)});
}

void KernelEmitter::emit_shuffle(const ShuffleNode& node) {
  expressions_.forget();
  const DType dtype = node.target->dtype;
  internal_check(node.value.type().lanes == 1, "kernel {}: a shuffle of vectors", kernel_.name);
  Value* raw = conversions_.to_storage(expressions_.emit(node.value), dtype);
  llvm::Type* type = raw->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  Value* integer = b_.CreateBitCast(raw, b_.getIntNTy(bits));
  Value* result = nullptr;
  if (bits == 64) {
    Value* low = shuffle_bits(b_.CreateTrunc(integer, b_.getInt32Ty()), node.lane_mask);
    Value* high = shuffle_bits(b_.CreateTrunc(b_.CreateLShr(integer, 32), b_.getInt32Ty()), node.lane_mask);
    result = b_.CreateOr(b_.CreateZExt(low, b_.getInt64Ty()),
                         b_.CreateShl(b_.CreateZExt(high, b_.getInt64Ty()), 32));
  } else {
    Value* received = shuffle_bits(b_.CreateZExt(integer, b_.getInt32Ty()), node.lane_mask);
    result = b_.CreateTrunc(received, b_.getIntNTy(bits));
  }
  elements_.store(*node.target, expressions_.emit_index(node.index), b_.CreateBitCast(result, type), nullptr);
}

Value* KernelEmitter::load_fragment(const Buffer& buffer, Value* index, int64_t offset, llvm::Type* type) {
  Value* first = b_.CreateNSWAdd(index, b_.getInt64(static_cast<uint64_t>(offset)));
  return b_.CreateAlignedLoad(type, buffers_.element(*buffer, first), buffers_.alignment(*buffer));
}

namespace {

struct MmaInstruction {
  llvm::Intrinsic::ID id;
  int a_registers, b_registers;
  int per_register;  ///< operand elements
};
MmaInstruction instruction_of(MmaShape shape) {
  switch (shape) {
    case MmaShape::kM16N8K8Tf32:
      return {llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32, 4, 2, 1};
    case MmaShape::kM16N8K16Bf16:
      return {llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16, 4, 2, 2};
    case MmaShape::kM16N8K16F16:
      return {llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32, 4, 2, 2};
    case MmaShape::kM16N8K8F16:
      return {llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_f32_f32, 2, 1, 2};
  }
  internal_error("unknown matrix instruction");
}

}  // namespace

void KernelEmitter::emit_mma(const MmaNode& node) {
  expressions_.forget();
  const MmaInstruction instruction = instruction_of(node.shape);
  const bool is_half = node.shape == MmaShape::kM16N8K16F16 || node.shape == MmaShape::kM16N8K8F16;
  // f16 operands are pairs of halves, the others the bits of a register.
  llvm::Type* type = is_half ? with_lanes(b_.getHalfTy(), 2) : static_cast<llvm::Type*>(b_.getInt32Ty());
  std::vector<Value*> operands;
  auto add = [&](const Buffer& buffer, const Expr& index, int registers) {
    Value* first = expressions_.emit_index(index);
    for (int i = 0; i < registers; ++i) {
      operands.push_back(load_fragment(buffer, first, int64_t{i} * instruction.per_register, type));
    }
  };
  add(node.a, node.a_index, instruction.a_registers);
  add(node.b, node.b_index, instruction.b_registers);
  constexpr int kSums = 4;
  Value* first = expressions_.emit_index(node.d_index);
  for (int i = 0; i < kSums; ++i) operands.push_back(load_fragment(node.d, first, i, b_.getFloatTy()));
  Value* result = b_.CreateIntrinsic(instruction.id, {}, operands);
  for (unsigned i = 0; i < kSums; ++i) {
    Value* index = b_.CreateNSWAdd(first, b_.getInt64(i));
    b_.CreateAlignedStore(b_.CreateExtractValue(result, i), buffers_.element(*node.d, index),
                          buffers_.alignment(*node.d));
  }
}

}  // namespace gantry
