#include "host/codegen/access_reports.h"

#include <cstddef>

#include "device_runtime/include/gantry/kernel_abi.h"
#include "host/tensor/fold.h"

namespace gantry {

using llvm::Value;

namespace {

/// The number of threads of the block whose body this is.
int64_t count_threads(const Stmt& body) {
  int64_t threads = 1;
  walk(body,
       [&](const Stmt& s) {
         const auto* loop = s.as<ForNode>();
         if (loop && loop->loop == LoopKind::kEmulatedThread)
           threads = constant_of(loop->extent).value_or(threads);
       },
       {});
  return threads;
}

}  // namespace

bool reports_accesses(const LoopKernel& kernel, const Target& target) {
  if (target.device != DeviceKind::kEmulatedGpu || !target.gpu_checks) return false;
  bool launches = false;
  walk(kernel.body,
       [&](const Stmt& s) {
         const auto* loop = s.as<ForNode>();
         launches |= loop && loop->loop == LoopKind::kEmulatedBlock;
       },
       {});
  return launches;
}

AccessReports::AccessReports(llvm::IRBuilder<>& builder, const FunctionScope& scope, bool active)
    : b_(builder), scope_(scope), active_(active) {}

void AccessReports::begin(const LoopKernel& kernel, const Buffers& buffers,
                          const std::function<Value*(const Expr&)>& size) {
  llvm::BasicBlock *sized = scope_.new_block("host"), *listens = scope_.new_block("checker"),
                   *go = scope_.new_block("checked"), *deaf = scope_.new_block("deaf");
  failed_ = scope_.new_block("failed");
  auto member = [&](llvm::Type* type, Value* record, size_t offset) {
    return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), record, offset));
  };
  Value* host = scope_.function->getArg(0);
  b_.CreateCondBr(b_.CreateIsNull(host), deaf, sized);
  b_.SetInsertPoint(sized);
  Value* bytes = member(b_.getInt32Ty(), host, offsetof(GantryKernelHost, struct_size));
  b_.CreateCondBr(b_.CreateICmpULT(bytes, b_.getInt32(sizeof(GantryKernelHost))), deaf, listens);
  b_.SetInsertPoint(listens);
  Value* checker = member(b_.getPtrTy(), host, offsetof(GantryKernelHost, gpu_checker));
  b_.CreateCondBr(b_.CreateIsNull(checker), deaf, go);
  b_.SetInsertPoint(deaf);
  b_.CreateRet(b_.getInt32(GANTRY_KERNEL_NEEDS_CHECKER));
  b_.SetInsertPoint(failed_);
  b_.CreateRet(b_.getInt32(GANTRY_KERNEL_CHECK_FAILED));

  b_.SetInsertPoint(go);
  context_ = member(b_.getPtrTy(), checker, offsetof(GantryGpuChecker, context));
  auto function = [&](size_t offset) { return member(b_.getPtrTy(), checker, offset); };
  begin_launch_ = function(offsetof(GantryGpuChecker, begin_launch));
  begin_block_ = function(offsetof(GantryGpuChecker, begin_block));
  barrier_ = function(offsetof(GantryGpuChecker, barrier));
  access_ = function(offsetof(GantryGpuChecker, access));
  introduce(kernel, buffers, size, function(offsetof(GantryGpuChecker, begin_kernel)),
            function(offsetof(GantryGpuChecker, add_buffer)));
}

void AccessReports::introduce(const LoopKernel& kernel, const Buffers& written,
                              const std::function<Value*(const Expr&)>& size, Value* begin_kernel,
                              Value* add_buffer) {
  std::vector<const BufferNode*> buffers;
  for (const Buffer& b : kernel.arguments) buffers.push_back(b.get());
  for (const Buffer& b : kernel.scratch) buffers.push_back(b.get());
  walk(kernel.body,
       [&](const Stmt& s) {
         const auto* allocation = s.as<AllocateNode>();
         if (allocation && allocation->buffer->scope == BufferScope::kShared)
           buffers.push_back(allocation->buffer.get());
       },
       {});
  call(begin_kernel, {b_.getInt32(static_cast<uint32_t>(buffers.size()))});
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferNode& buffer = *buffers[i];
    const auto id = static_cast<uint32_t>(i);
    ids_[&buffer] = id;
    uint32_t kind = 0;
    if (buffer.scope == BufferScope::kShared) {
      kind = GANTRY_BUFFER_SHARED;
    } else if (static_cast<int>(i) >= kernel.input_count) {
      kind = GANTRY_BUFFER_UNDEFINED;
    }
    if (!written.is_written(buffer)) kind |= GANTRY_BUFFER_READ_ONLY;
    Value* count = size(buffer.element_count);
    call(add_buffer, {b_.getInt32(id), b_.CreateGlobalString(buffer.name), count, b_.getInt32(kind)});
  }
}

void AccessReports::call(Value* function, std::vector<Value*> arguments) {
  arguments.insert(arguments.begin(), context_);
  std::vector<llvm::Type*> types;
  for (Value* argument : arguments) types.push_back(argument->getType());
  Value* code = b_.CreateCall(llvm::FunctionType::get(b_.getInt32Ty(), types, false), function, arguments);
  auto* next = scope_.new_block("fine");
  b_.CreateCondBr(b_.CreateICmpEQ(code, b_.getInt32(0)), next, failed_);
  b_.SetInsertPoint(next);
}

void AccessReports::barrier() {
  call(barrier_, {});
}

void AccessReports::enter(const ForNode& loop) {
  const auto* var = loop.var.as<VarNode>();
  if (loop.loop == LoopKind::kEmulatedThread) {
    thread_ = var;
    return;
  }
  // Three loops of a launch: over z, y and x.
  if (blocks_.empty()) call(begin_launch_, {b_.getInt64(static_cast<uint64_t>(count_threads(loop.body)))});
  blocks_.push_back(var);
}

void AccessReports::begin_iteration(const ForNode& loop) {
  if (loop.loop == LoopKind::kEmulatedThread || blocks_.size() != 3) return;
  call(begin_block_, {scope_.vars.at(blocks_[2]), scope_.vars.at(blocks_[1]), scope_.vars.at(blocks_[0])});
}

void AccessReports::leave(const ForNode& loop) {
  if (loop.loop == LoopKind::kEmulatedThread) {
    thread_ = nullptr;
  } else {
    blocks_.pop_back();
  }
}

void AccessReports::access(const BufferNode& buffer, bool store, Value* index, int64_t stride, int count,
                           Value* predicate) {
  if (!active_ || buffer.scope == BufferScope::kLocal) return;
  llvm::BasicBlock* after = nullptr;
  if (predicate) {
    auto* then = scope_.new_block("report");
    after = scope_.new_block("reported");
    b_.CreateCondBr(predicate, then, after);
    b_.SetInsertPoint(then);
  }
  Value* thread = thread_ ? scope_.vars.at(thread_) : b_.getInt64(static_cast<uint64_t>(-1));
  call(access_,
       {b_.getInt32(ids_.at(&buffer)), b_.getInt32(store ? GANTRY_ACCESS_STORE : GANTRY_ACCESS_LOAD), thread,
        index, b_.getInt64(static_cast<uint64_t>(stride)), b_.getInt32(static_cast<uint32_t>(count))});
  if (predicate) {
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }
}

void AccessReports::lanes(const BufferNode& buffer, bool store, Value* first, int lanes, Value* mask) {
  if (!active_ || buffer.scope == BufferScope::kLocal) return;
  if (!mask) return access(buffer, store, first, 1, lanes, nullptr);
  for (int lane = 0; lane < lanes; ++lane) {
    access(buffer, store, b_.CreateNSWAdd(first, b_.getInt64(static_cast<uint64_t>(lane))), 1, 1,
           b_.CreateExtractElement(mask, static_cast<uint64_t>(lane)));
  }
}

}  // namespace gantry
