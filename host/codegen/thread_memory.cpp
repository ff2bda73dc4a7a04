#include "host/codegen/thread_memory.h"

#include <cstddef>

#include "device_runtime/include/gantry/kernel_abi.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

namespace {

constexpr int64_t kThreadAlignment = 64;
constexpr uint32_t kThreadMemoryVersion = 3;  // of the ABI that has thread_memory

int64_t bytes_of(const AllocateNode& node) {
  auto* count = node.buffer->element_count.as<IntImmNode>();
  internal_check(count != nullptr && count->value >= 0, "thread buffer {} needs a constant size",
                 node.buffer->name);
  const int64_t bytes = count->value * byte_width(node.buffer->dtype);
  return (bytes + kThreadAlignment - 1) / kThreadAlignment * kThreadAlignment;
}

/// Of the buffer and those inside it.
int64_t total_bytes(const AllocateNode& node) {
  int64_t total = bytes_of(node);
  walk(node.body,
       [&](const Stmt& s) {
         auto* inner = s.as<AllocateNode>();
         if (inner && inner->buffer->scope == BufferScope::kThread) total += bytes_of(*inner);
       },
       {});
  return total;
}

}  // namespace

Value* ThreadMemory::request(int64_t bytes) {
  llvm::BasicBlock *look = scope_.new_block("look"), *ask = scope_.new_block("ask"),
                   *none = scope_.new_block("none"), *given = scope_.new_block("given");
  b_.CreateCondBr(host_.is_absent(), none, look);
  b_.SetInsertPoint(none);
  b_.CreateRet(b_.getInt32(GANTRY_KERNEL_NEEDS_THREAD_MEMORY));
  b_.SetInsertPoint(look);
  b_.CreateCondBr(host_.has_version(kThreadMemoryVersion), ask, none);
  b_.SetInsertPoint(ask);
  auto* type = llvm::FunctionType::get(b_.getPtrTy(), {b_.getPtrTy(), b_.getInt64Ty()}, false);
  Value* function = host_.member(offsetof(GantryKernelHost, thread_memory));
  Value* context = host_.member(offsetof(GantryKernelHost, context));
  Value* memory = b_.CreateCall(type, function, {context, b_.getInt64(static_cast<uint64_t>(bytes))});
  b_.CreateCondBr(b_.CreateIsNull(memory), none, given);
  b_.SetInsertPoint(given);
  return memory;
}

void ThreadMemory::open(const AllocateNode& node) {
  expressions_.forget();
  Memory& memory = memory_[scope_.function];
  if (memory.buffers == 0) memory.address = request(total_bytes(node));
  scope_.buffers[node.buffer.get()] =
      b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), memory.address, static_cast<uint64_t>(memory.used));
  memory.used += bytes_of(node);
  ++memory.buffers;
}

void ThreadMemory::close(const AllocateNode& node) {
  Memory& memory = memory_.at(scope_.function);
  scope_.buffers.erase(node.buffer.get());
  memory.used -= bytes_of(node);
  --memory.buffers;
}

}  // namespace gantry
