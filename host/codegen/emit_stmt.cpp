// Statements and the kernel's function.
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "device_runtime/include/gantry/kernel_abi.h"
#include "host/codegen/cpu_features.h"
#include "host/codegen/kernel_emitter.h"
#include "host/codegen/llvm_target.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

namespace {

/// An emulated block has its shared memory and the registers of all its threads on the stack.
constexpr int64_t kMaxEmulatedStackBytes = (1 << 20) + kMaxStackBytes;
constexpr uint64_t kStackAlignment = 64;

}  // namespace

KernelEmitter::KernelEmitter(llvm::Module& module, const LoopKernel& kernel, const Target& target)
    : module_(module),
      context_(module.getContext()),
      kernel_(kernel),
      target_(target),
      gpu_(target.family == nullptr),
      instructions_(instructions_of(target)),
      b_(module.getContext()),
      math_(b_, instructions_.multiply_add, instructions_.vector_math),
      conversions_(b_, instructions_, gpu_),
      integers_(b_, signs_, kernel.name),
      floats_(b_, math_, conversions_, instructions_, kernel),
      buffers_(b_, module, scope_, kernel, gpu_ ? &ranges_ : nullptr),
      reports_(b_, scope_, reports_accesses(kernel, target)),
      elements_(b_, scope_, buffers_, reports_, gpu_),
      multiply_adds_(b_, expressions_, math_, conversions_, instructions_),
      calls_(b_, expressions_, math_, conversions_, multiply_adds_, instructions_, kernel.name),
      lanes_(b_, expressions_, integers_, conversions_, elements_),
      loads_(b_, expressions_, lanes_, conversions_, buffers_, elements_, reports_, gpu_),
      narrow_(b_, scope_, ranges_, signs_, integers_),
      expressions_(b_, scope_, kernel.name,
                   {conversions_, integers_, floats_, multiply_adds_, calls_, lanes_, loads_,
                    gpu_ ? &narrow_ : nullptr}) {
  // Multiplications and additions may become fma; nothing else is relaxed.
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b_.setFastMathFlags(flags);
}

void KernelEmitter::bind_arguments(Value* buffers, Value* dims) {
  unsigned slot = 0;
  auto bind = [&](const Buffer& buffer) {
    Value* address = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), buffers, slot++);
    scope_.buffers[buffer.get()] = b_.CreateLoad(b_.getPtrTy(), address, buffer->name);
  };
  for (const Buffer& buffer : kernel_.arguments) bind(buffer);
  for (const Buffer& buffer : kernel_.scratch) bind(buffer);
  unsigned dim = 0;
  for (const std::string& symbol : kernel_.symbols) {
    Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), dims, dim++);
    scope_.symbols[symbol] = b_.CreateLoad(b_.getInt64Ty(), address, symbol);
  }
}

void KernelEmitter::emit() {
  if (gpu_) {
    emit_launches(kernel_.body, nullptr);
    return;
  }
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel_.name, module_);
  function->setVisibility(llvm::GlobalValue::ProtectedVisibility);
  for (unsigned i = 0; i < 3; ++i) function->addParamAttr(i, llvm::Attribute::NoAlias);
  function->getArg(0)->setName("host");
  function->getArg(1)->setName("buffers");
  function->getArg(2)->setName("dims");
  scope_ = {};
  scope_.function = function;
  scope_.host = function->getArg(0);
  scope_.entry = llvm::BasicBlock::Create(context_, "entry", function);
  b_.SetInsertPoint(scope_.entry);
  bind_arguments(function->getArg(1), function->getArg(2));
  if (reports_.active()) {
    reports_.begin(kernel_, buffers_, [&](const Expr& e) { return expressions_.emit_index(e); });
  }
  if (kernel_.body) emit_stmt(kernel_.body);
  b_.CreateRet(b_.getInt32(0));
  for (llvm::Function& f : module_) {
    if (!f.isDeclaration()) set_function_attributes(f, target_);
  }
}

void KernelEmitter::emit_stmt(const Stmt& s) {
  switch (s->kind) {
    case StmtKind::kStore:
      return emit_store(*s.as<StoreNode>());
    case StmtKind::kFor:
      return emit_for(*s.as<ForNode>());
    case StmtKind::kIf:
      return emit_if(*s.as<IfNode>());
    case StmtKind::kBlock:
      for (const Stmt& statement : s.as<BlockNode>()->statements) emit_stmt(statement);
      return;
    case StmtKind::kAllocate:
      return emit_allocate(*s.as<AllocateNode>());
    case StmtKind::kLet:
      return emit_let(*s.as<LetStmtNode>());
    case StmtKind::kBarrier:
      if (gpu_) return emit_barrier();
      if (reports_.active()) return reports_.barrier();
      break;
    case StmtKind::kShuffle:
      if (gpu_) return emit_shuffle(*s.as<ShuffleNode>());
      break;
    case StmtKind::kPrefetch:
      return emit_prefetch(*s.as<PrefetchNode>());
    case StmtKind::kTranspose:
      return emit_transpose(*s.as<TransposeNode>());
    case StmtKind::kOnce:
      return emit_once(*s.as<OnceNode>());
    case StmtKind::kMma:
      if (gpu_) return emit_mma(*s.as<MmaNode>());
      break;
    case StmtKind::kTile:
      return emit_tile(*s.as<TileNode>());
    case StmtKind::kLaunch:
      break;
  }
  internal_error("kernel {}: a GPU's statement in code for {}", kernel_.name, target_.name);
}

void KernelEmitter::emit_for(const ForNode& loop) {
  signs_.set_at_least(loop.var.as<VarNode>(), loop.low);
  auto* extent = loop.extent.as<IntImmNode>();
  if (extent && extent->value <= 0) return;
  if (gpu_) return emit_device_loop(loop);
  const bool is_parallel = loop.loop == LoopKind::kParallel || loop.loop == LoopKind::kEmulatedBlock;
  const bool outlines =
      is_parallel && !scope_.in_parallel_body && !reports_.active() && !(extent && extent->value == 1);
  if (outlines) return emit_parallel_loop(loop);
  expressions_.forget();
  Value* low = expressions_.emit_index(loop.low);
  Value* end = b_.CreateNSWAdd(low, expressions_.emit_index(loop.extent));
  const bool is_emulated = loop.loop == LoopKind::kEmulatedBlock || loop.loop == LoopKind::kEmulatedThread;
  if (!reports_.active() || !is_emulated) return emit_serial_loop(low, end, loop.var, loop.body);
  reports_.enter(loop);
  emit_serial_loop(low, end, loop.var, loop.body, [&] { reports_.begin_iteration(loop); });
  reports_.leave(loop);
}

void KernelEmitter::emit_serial_loop(Value* low, Value* end, const Expr& var, const Stmt& body,
                                     const std::function<void()>& prologue) {
  auto* header = scope_.new_block(var.as<VarNode>()->name);
  auto* after = scope_.new_block("after");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(low, end), header, after);
  b_.SetInsertPoint(header);
  llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2, var.as<VarNode>()->name);
  index->addIncoming(low, before);
  scope_.vars[var.as<VarNode>()] = index;
  if (prologue) prologue();
  if (body) emit_stmt(body);
  Value* next = b_.CreateAdd(index, b_.getInt64(1), "", signs_.is_non_negative(var), true);
  index->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), header, after);
  b_.SetInsertPoint(after);
  scope_.vars.erase(var.as<VarNode>());
}

namespace {

constexpr uint32_t kRoundsVersion = 4;  // of the ABI that has parallel_rounds
constexpr uint32_t kFirstVersion = 5;   // of the ABI that has is_first_range
static_assert(offsetof(GantryKernelHost, abi_version) == 0);

// Maps by address, in an order that does not depend on addresses: the same kernel gives the same code.
template <typename Key>
std::vector<std::pair<const Key*, Value*>> by_name(const std::map<const Key*, Value*>& values) {
  std::vector<std::pair<const Key*, Value*>> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first->name < b.first->name; });
  return sorted;
}

bool makes_once(const Stmt& s) {
  bool found = false;
  walk(s, [&](const Stmt& inner) { found |= inner->kind == StmtKind::kOnce; }, {});
  return found;
}

}  // namespace

/// Does the thread begin with this range? Where the host does not say, every range is taken for its first.
Value* KernelEmitter::emit_is_first_range() {
  llvm::BasicBlock *look = scope_.new_block("look"), *ask = scope_.new_block("ask"),
                   *known = scope_.new_block("known");
  llvm::BasicBlock* entry = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateIsNull(scope_.host), known, look);
  b_.SetInsertPoint(look);
  Value* version = b_.CreateLoad(b_.getInt32Ty(), scope_.host);
  b_.CreateCondBr(b_.CreateICmpUGE(version, b_.getInt32(kFirstVersion)), ask, known);
  b_.SetInsertPoint(ask);
  Value* function = host_member(offsetof(GantryKernelHost, is_first_range));
  Value* context = host_member(offsetof(GantryKernelHost, context));
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy()}, false);
  Value* answer = b_.CreateICmpNE(b_.CreateCall(type, function, {context}), b_.getInt32(0));
  b_.CreateBr(known);
  b_.SetInsertPoint(known);
  llvm::PHINode* first = b_.CreatePHI(b_.getInt1Ty(), 3);
  first->addIncoming(b_.getTrue(), entry);
  first->addIncoming(b_.getTrue(), look);
  first->addIncoming(answer, ask);
  return first;
}

llvm::Function* KernelEmitter::outline(const ForNode& loop, Value* low, llvm::StructType*& closure_type,
                                       std::vector<Value*>& captured) {
  const Scope outer = scope_;
  const llvm::IRBuilder<>::InsertPoint return_point = b_.saveIP();
  std::vector<llvm::Type*> types;
  auto capture = [&](Value* v) {
    captured.push_back(v);
    types.push_back(v->getType());
  };
  const auto vars = by_name(outer.vars);
  const auto buffers = by_name(outer.buffers);
  capture(low);
  capture(outer.host);
  for (const auto& [var, value] : vars) capture(value);
  for (const auto& [symbol, value] : outer.symbols) capture(value);
  for (const auto& [buffer, value] : buffers) capture(value);
  closure_type = llvm::StructType::get(context_, types);

  auto* type =
      llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy(), b_.getInt64Ty(), b_.getInt64Ty()}, false);
  auto* function =
      llvm::Function::Create(type, llvm::Function::InternalLinkage, kernel_.name + ".parallel", module_);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addParamAttr(0, llvm::Attribute::NoAlias);
  function->addParamAttr(0, llvm::Attribute::ReadOnly);
  Scope inner;
  inner.function = function;
  inner.entry = llvm::BasicBlock::Create(context_, "entry", function);
  inner.in_parallel_body = true;
  b_.SetInsertPoint(inner.entry);
  unsigned member = 0;
  auto reload = [&](Value* original) -> Value* {
    Value* address = b_.CreateStructGEP(closure_type, function->getArg(0), member++);
    return b_.CreateLoad(original->getType(), address, original->getName());
  };
  Value* base = reload(low);
  inner.host = reload(outer.host);
  for (const auto& [var, value] : vars) inner.vars[var] = reload(value);
  for (const auto& [symbol, value] : outer.symbols) inner.symbols[symbol] = reload(value);
  for (const auto& [buffer, value] : buffers) inner.buffers[buffer] = reload(value);
  scope_ = std::move(inner);
  expressions_.forget();
  Value* begin = b_.CreateNSWAdd(base, function->getArg(1));
  Value* end = b_.CreateNSWAdd(base, function->getArg(2));
  Value* first = makes_once(loop.body) ? emit_is_first_range() : nullptr;
  emit_serial_loop(begin, end, loop.var, loop.body, [&] {
    Value* index = scope_.vars.at(loop.var.as<VarNode>());
    if (first) scope_.once = b_.CreateAnd(first, b_.CreateICmpEQ(index, begin), "once");
  });
  b_.CreateRet(b_.getInt32(0));

  scope_ = outer;
  expressions_.forget();
  b_.restoreIP(return_point);
  return function;
}

/// A member of the host's table.
Value* KernelEmitter::host_member(size_t offset) {
  return b_.CreateLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scope_.host, offset));
}

/// Has the pool run the iterations of a loop; its result.
Value* KernelEmitter::call_pool(const ForNode& loop, llvm::Function* body, Value* closure, Value* count) {
  Value* context = host_member(offsetof(GantryKernelHost, context));
  const std::vector<llvm::Type*> types{b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()};
  auto in_a_range = [&]() -> Value* {
    Value* function = host_member(offsetof(GantryKernelHost, parallel_for));
    return b_.CreateCall(llvm::FunctionType::get(b_.getInt32Ty(), types, false), function,
                         {context, body, closure, count});
  };
  if (loop.rounds == 1) return in_a_range();
  llvm::BasicBlock *by_rounds = scope_.new_block("by_rounds"), *by_range = scope_.new_block("by_range"),
                   *called = scope_.new_block("called");
  Value* version = b_.CreateLoad(b_.getInt32Ty(), scope_.host);
  b_.CreateCondBr(b_.CreateICmpUGE(version, b_.getInt32(kRoundsVersion)), by_rounds, by_range);
  b_.SetInsertPoint(by_rounds);
  Value* rounds = b_.getInt64(static_cast<uint64_t>(loop.rounds));
  std::vector<llvm::Type*> more = types;
  more.push_back(b_.getInt64Ty());
  Value* function = host_member(offsetof(GantryKernelHost, parallel_rounds));
  Value* first = b_.CreateCall(llvm::FunctionType::get(b_.getInt32Ty(), more, false), function,
                               {context, body, closure, rounds, b_.CreateUDiv(count, rounds)});
  b_.CreateBr(called);
  b_.SetInsertPoint(by_range);
  Value* second = in_a_range();
  b_.CreateBr(called);
  b_.SetInsertPoint(called);
  llvm::PHINode* result = b_.CreatePHI(b_.getInt32Ty(), 2);
  result->addIncoming(first, by_rounds);
  result->addIncoming(second, by_range);
  return result;
}

void KernelEmitter::emit_parallel_loop(const ForNode& loop) {
  expressions_.forget();
  Value *low = expressions_.emit_index(loop.low), *count = expressions_.emit_index(loop.extent);
  llvm::StructType* closure_type = nullptr;
  std::vector<Value*> captured;
  llvm::Function* body = outline(loop, low, closure_type, captured);

  Value* closure = scope_.on_stack(closure_type, "closure");
  for (unsigned i = 0; i < captured.size(); ++i) {
    b_.CreateStore(captured[i], b_.CreateStructGEP(closure_type, closure, i));
  }
  llvm::BasicBlock *check = scope_.new_block("check"), *shared = scope_.new_block("shared"),
                   *alone = scope_.new_block("alone"), *join = scope_.new_block("join"),
                   *fail = scope_.new_block("fail"), *after = scope_.new_block("after");
  b_.CreateCondBr(b_.CreateICmpSGT(count, b_.getInt64(0)), check, after);
  b_.SetInsertPoint(check);
  Value* is_alone = b_.CreateOr(b_.CreateIsNull(scope_.host), b_.CreateICmpEQ(count, b_.getInt64(1)));
  b_.CreateCondBr(is_alone, alone, shared);

  b_.SetInsertPoint(shared);
  Value* shared_result = call_pool(loop, body, closure, count);
  shared = b_.GetInsertBlock();
  b_.CreateBr(join);

  b_.SetInsertPoint(alone);
  Value* alone_result = b_.CreateCall(body, {closure, b_.getInt64(0), count});
  b_.CreateBr(join);

  b_.SetInsertPoint(join);
  llvm::PHINode* result = b_.CreatePHI(b_.getInt32Ty(), 2);
  result->addIncoming(shared_result, shared);
  result->addIncoming(alone_result, alone);
  b_.CreateCondBr(b_.CreateICmpEQ(result, b_.getInt32(0)), after, fail);
  b_.SetInsertPoint(fail);
  b_.CreateRet(result);
  b_.SetInsertPoint(after);
}

void KernelEmitter::emit_if(const IfNode& node) {
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
  const IndexRanges::Saved saved = gpu_ ? ranges_.assume(condition) : IndexRanges::Saved();
  if (node.then_case) emit_stmt(node.then_case);
  ranges_.restore(saved);
  b_.CreateBr(after);
  if (node.else_case) {
    b_.SetInsertPoint(otherwise);
    emit_stmt(node.else_case);
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
}

namespace {

constexpr int64_t kThreadAlignment = 64;
constexpr uint32_t kThreadMemoryVersion = 3;  // of the ABI that has thread_memory

int64_t thread_bytes_of(const AllocateNode& node) {
  auto* count = node.buffer->element_count.as<IntImmNode>();
  internal_check(count != nullptr && count->value >= 0, "thread buffer {} needs a constant size",
                 node.buffer->name);
  const int64_t bytes = count->value * byte_width(node.buffer->dtype);
  return (bytes + kThreadAlignment - 1) / kThreadAlignment * kThreadAlignment;
}

}  // namespace

/// Asks the host for the calling thread's memory; the function ends if there is none.
Value* KernelEmitter::request_thread_memory(int64_t bytes) {
  llvm::BasicBlock *look = scope_.new_block("look"), *ask = scope_.new_block("ask"),
                   *none = scope_.new_block("none"), *given = scope_.new_block("given");
  b_.CreateCondBr(b_.CreateIsNull(scope_.host), none, look);
  b_.SetInsertPoint(none);
  b_.CreateRet(b_.getInt32(GANTRY_KERNEL_NEEDS_THREAD_MEMORY));
  b_.SetInsertPoint(look);
  Value* version = b_.CreateLoad(b_.getInt32Ty(), scope_.host);
  b_.CreateCondBr(b_.CreateICmpUGE(version, b_.getInt32(kThreadMemoryVersion)), ask, none);
  b_.SetInsertPoint(ask);
  auto* type = llvm::FunctionType::get(b_.getPtrTy(), {b_.getPtrTy(), b_.getInt64Ty()}, false);
  Value* function = host_member(offsetof(GantryKernelHost, thread_memory));
  Value* context = host_member(offsetof(GantryKernelHost, context));
  Value* memory = b_.CreateCall(type, function, {context, b_.getInt64(static_cast<uint64_t>(bytes))});
  b_.CreateCondBr(b_.CreateIsNull(memory), none, given);
  b_.SetInsertPoint(given);
  return memory;
}

/// The outermost such buffer of a function asks once for all inside it.
void KernelEmitter::emit_thread_memory(const AllocateNode& node) {
  expressions_.forget();
  const bool outermost = scope_.thread_memory == nullptr;
  if (outermost) {
    int64_t total = thread_bytes_of(node);
    walk(node.body,
         [&](const Stmt& s) {
           auto* inner = s.as<AllocateNode>();
           if (inner && inner->buffer->scope == BufferScope::kThread) total += thread_bytes_of(*inner);
         },
         {});
    scope_.thread_memory = request_thread_memory(total);
    scope_.thread_bytes = 0;
  }
  scope_.buffers[node.buffer.get()] = b_.CreateConstInBoundsGEP1_64(
      b_.getInt8Ty(), scope_.thread_memory, static_cast<uint64_t>(scope_.thread_bytes));
  scope_.thread_bytes += thread_bytes_of(node);
  if (node.body) emit_stmt(node.body);
  scope_.buffers.erase(node.buffer.get());
  scope_.thread_bytes -= thread_bytes_of(node);
  if (outermost) scope_.thread_memory = nullptr;
}

void KernelEmitter::emit_allocate(const AllocateNode& node) {
  const BufferNode& buffer = *node.buffer;
  if (!gpu_ && buffer.scope == BufferScope::kThread) return emit_thread_memory(node);
  if (gpu_ && buffer.scope == BufferScope::kShared) return emit_shared(node);
  auto* count = buffer.element_count.as<IntImmNode>();
  internal_check(count != nullptr && count->value >= 0, "kernel {}: local buffer {} needs a constant size",
                 kernel_.name, buffer.name);
  llvm::Type* element = storage_type(context_, buffer.dtype);
  const int64_t bytes = count->value * static_cast<int64_t>(element->getPrimitiveSizeInBits() / 8);
  scope_.stack_bytes += bytes;
  const int64_t limit = target_.device == DeviceKind::kEmulatedGpu ? kMaxEmulatedStackBytes : kMaxStackBytes;
  internal_check(scope_.stack_bytes <= limit,
                 "kernel {}: local buffers up to {} take {} bytes of stack, more than {}", kernel_.name,
                 buffer.name, scope_.stack_bytes, limit);
  llvm::AllocaInst* memory =
      scope_.on_stack(llvm::ArrayType::get(element, static_cast<uint64_t>(count->value)), buffer.name);
  memory->setAlignment(llvm::Align(gpu_ ? kDeviceAlignment : kStackAlignment));
  scope_.buffers[&buffer] = memory;
  b_.CreateLifetimeStart(memory, b_.getInt64(static_cast<uint64_t>(bytes)));
  if (node.body) emit_stmt(node.body);
  b_.CreateLifetimeEnd(memory, b_.getInt64(static_cast<uint64_t>(bytes)));
  scope_.buffers.erase(&buffer);
  scope_.stack_bytes -= bytes;
}

/// Unless the iterations around it are divided among threads there is nothing to be kept.
void KernelEmitter::emit_once(const OnceNode& node) {
  expressions_.forget();
  if (scope_.once == nullptr) return emit_stmt(node.body);
  auto* make = scope_.new_block("make");
  auto* made = scope_.new_block("made");
  b_.CreateCondBr(scope_.once, make, made);
  b_.SetInsertPoint(make);
  emit_stmt(node.body);
  b_.CreateBr(made);
  b_.SetInsertPoint(made);
  expressions_.forget();
}

void KernelEmitter::emit_let(const LetStmtNode& node) {
  expressions_.forget();
  signs_.set_at_least(node.var.as<VarNode>(), node.value);
  scope_.vars[node.var.as<VarNode>()] = expressions_.emit(node.value);
  if (gpu_) ranges_.bind(node.var.as<VarNode>(), ranges_.range(node.value));
  if (node.body) emit_stmt(node.body);
  scope_.vars.erase(node.var.as<VarNode>());
}

}  // namespace gantry
