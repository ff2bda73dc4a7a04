// GPU kernels that run on a CPU and report what they do (see GantryGpuChecker).
#include <algorithm>

#include "device_runtime/include/gantry/kernel_abi.h"
#include "host/codegen/kernel_emitter.h"
#include "host/support/error.h"
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

void KernelEmitter::begin_checks() {
  llvm::BasicBlock *sized = scope_.new_block("host"), *listens = scope_.new_block("checker"),
                   *go = scope_.new_block("checked"), *deaf = scope_.new_block("deaf");
  checks_.failed = scope_.new_block("failed");
  auto member = [&](llvm::Type* type, Value* record, size_t offset) {
    return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), record, offset));
  };
  Value* host = scope_.function->getArg(0);
  b_.CreateCondBr(b_.CreateIsNull(host), deaf, sized);
  b_.SetInsertPoint(sized);
  Value* size = member(b_.getInt32Ty(), host, offsetof(GantryKernelHost, struct_size));
  b_.CreateCondBr(b_.CreateICmpULT(size, b_.getInt32(sizeof(GantryKernelHost))), deaf, listens);
  b_.SetInsertPoint(listens);
  Value* checker = member(b_.getPtrTy(), host, offsetof(GantryKernelHost, gpu_checker));
  b_.CreateCondBr(b_.CreateIsNull(checker), deaf, go);
  b_.SetInsertPoint(deaf);
  b_.CreateRet(b_.getInt32(GANTRY_KERNEL_NEEDS_CHECKER));
  b_.SetInsertPoint(checks_.failed);
  b_.CreateRet(b_.getInt32(GANTRY_KERNEL_CHECK_FAILED));

  b_.SetInsertPoint(go);
  checks_.context = member(b_.getPtrTy(), checker, offsetof(GantryGpuChecker, context));
  auto function = [&](size_t offset) { return member(b_.getPtrTy(), checker, offset); };
  checks_.begin_launch = function(offsetof(GantryGpuChecker, begin_launch));
  checks_.begin_block = function(offsetof(GantryGpuChecker, begin_block));
  checks_.barrier = function(offsetof(GantryGpuChecker, barrier));
  checks_.access = function(offsetof(GantryGpuChecker, access));
  introduce_buffers(function(offsetof(GantryGpuChecker, begin_kernel)),
                    function(offsetof(GantryGpuChecker, add_buffer)));
}

void KernelEmitter::introduce_buffers(Value* begin_kernel, Value* add_buffer) {
  std::vector<const BufferNode*> buffers;
  for (const Buffer& b : kernel_.arguments) buffers.push_back(b.get());
  for (const Buffer& b : kernel_.scratch) buffers.push_back(b.get());
  walk(kernel_.body,
       [&](const Stmt& s) {
         const auto* allocation = s.as<AllocateNode>();
         if (allocation && allocation->buffer->scope == BufferScope::kShared)
           buffers.push_back(allocation->buffer.get());
       },
       {});
  call_checker(begin_kernel, {b_.getInt32(static_cast<uint32_t>(buffers.size()))});
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferNode& buffer = *buffers[i];
    const auto id = static_cast<uint32_t>(i);
    checks_.ids[&buffer] = id;
    uint32_t kind = 0;
    if (buffer.scope == BufferScope::kShared) {
      kind = GANTRY_BUFFER_SHARED;
    } else if (static_cast<int>(i) >= kernel_.input_count) {
      kind = GANTRY_BUFFER_UNDEFINED;
    }
    if (!written_.contains(&buffer)) kind |= GANTRY_BUFFER_READ_ONLY;
    ++index_depth_;
    Value* count = emit(buffer.element_count);
    --index_depth_;
    call_checker(add_buffer, {b_.getInt32(id), b_.CreateGlobalString(buffer.name), count, b_.getInt32(kind)});
  }
}

void KernelEmitter::call_checker(Value* function, std::vector<Value*> arguments) {
  arguments.insert(arguments.begin(), checks_.context);
  std::vector<llvm::Type*> types;
  for (Value* argument : arguments) types.push_back(argument->getType());
  Value* code = b_.CreateCall(llvm::FunctionType::get(b_.getInt32Ty(), types, false), function, arguments);
  auto* next = scope_.new_block("fine");
  b_.CreateCondBr(b_.CreateICmpEQ(code, b_.getInt32(0)), next, checks_.failed);
  b_.SetInsertPoint(next);
}

void KernelEmitter::emit_checked_loop(const ForNode& loop, Value* low, Value* end) {
  const auto* var = loop.var.as<VarNode>();
  if (loop.loop == LoopKind::kEmulatedThread) {
    checks_.thread = var;
    emit_serial_loop(low, end, loop.var, loop.body);
    checks_.thread = nullptr;
    return;
  }
  // Three loops of a launch: over z, y and x.
  if (checks_.blocks.empty())
    call_checker(checks_.begin_launch, {b_.getInt64(static_cast<uint64_t>(count_threads(loop.body)))});
  checks_.blocks.push_back(var);
  emit_serial_loop(low, end, loop.var, loop.body, [&] {
    if (checks_.blocks.size() != 3) return;
    call_checker(checks_.begin_block, {scope_.vars.at(checks_.blocks[2]), scope_.vars.at(checks_.blocks[1]),
                                       scope_.vars.at(checks_.blocks[0])});
  });
  checks_.blocks.pop_back();
}

void KernelEmitter::report_access(const BufferNode& buffer, bool store, Value* index, int64_t stride,
                                  int count, Value* predicate) {
  if (!reports_ || buffer.scope == BufferScope::kLocal) return;
  llvm::BasicBlock* after = nullptr;
  if (predicate) {
    auto* then = scope_.new_block("report");
    after = scope_.new_block("reported");
    b_.CreateCondBr(predicate, then, after);
    b_.SetInsertPoint(then);
  }
  Value* thread = checks_.thread ? scope_.vars.at(checks_.thread) : b_.getInt64(static_cast<uint64_t>(-1));
  call_checker(
      checks_.access,
      {b_.getInt32(checks_.ids.at(&buffer)), b_.getInt32(store ? GANTRY_ACCESS_STORE : GANTRY_ACCESS_LOAD),
       thread, index, b_.getInt64(static_cast<uint64_t>(stride)), b_.getInt32(static_cast<uint32_t>(count))});
  if (predicate) {
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }
}

void KernelEmitter::report_lanes(const BufferNode& buffer, bool store, Value* first, int lanes, Value* mask) {
  if (!reports_ || buffer.scope == BufferScope::kLocal) return;
  if (!mask) return report_access(buffer, store, first, 1, lanes, nullptr);
  for (int lane = 0; lane < lanes; ++lane) {
    report_access(buffer, store, b_.CreateNSWAdd(first, b_.getInt64(static_cast<uint64_t>(lane))), 1, 1,
                  b_.CreateExtractElement(mask, static_cast<uint64_t>(lane)));
  }
}

}  // namespace gantry
