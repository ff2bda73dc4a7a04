#include "host/codegen/stack_buffers.h"

#include "host/codegen/buffers.h"
#include "host/codegen/value_types.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

namespace {

/// An emulated block has its shared memory and the registers of all its threads on the stack.
constexpr int64_t kMaxEmulatedStackBytes = (1 << 20) + kMaxStackBytes;
constexpr uint64_t kStackAlignment = 64;

int64_t bytes_of(llvm::ArrayType* type) {
  return static_cast<int64_t>(type->getNumElements() *
                              (type->getElementType()->getPrimitiveSizeInBits() / 8));
}

}  // namespace

StackBuffers::StackBuffers(llvm::IRBuilder<>& builder, FunctionScope& scope, const Target& target,
                           const std::string& kernel)
    : b_(builder),
      scope_(scope),
      most_bytes_(target.device == DeviceKind::kEmulatedGpu ? kMaxEmulatedStackBytes : kMaxStackBytes),
      alignment_(target.family == nullptr ? kDeviceAlignment : kStackAlignment),
      kernel_(kernel) {}

llvm::ArrayType* StackBuffers::type_of(const AllocateNode& node) const {
  const BufferNode& buffer = *node.buffer;
  auto* count = buffer.element_count.as<IntImmNode>();
  internal_check(count != nullptr && count->value >= 0, "kernel {}: local buffer {} needs a constant size",
                 kernel_, buffer.name);
  return llvm::ArrayType::get(storage_type(b_.getContext(), buffer.dtype),
                              static_cast<uint64_t>(count->value));
}

void StackBuffers::open(const AllocateNode& node) {
  const BufferNode& buffer = *node.buffer;
  llvm::ArrayType* type = type_of(node);
  int64_t& in_use = bytes_[scope_.function];
  in_use += bytes_of(type);
  internal_check(in_use <= most_bytes_,
                 "kernel {}: local buffers up to {} take {} bytes of stack, more than {}", kernel_,
                 buffer.name, in_use, most_bytes_);
  llvm::AllocaInst* memory = scope_.on_stack(type, buffer.name);
  memory->setAlignment(llvm::Align(alignment_));
  scope_.buffers[&buffer] = memory;
  b_.CreateLifetimeStart(memory, b_.getInt64(static_cast<uint64_t>(bytes_of(type))));
}

void StackBuffers::close(const AllocateNode& node) {
  const int64_t bytes = bytes_of(type_of(node));
  b_.CreateLifetimeEnd(scope_.buffers.at(node.buffer.get()), b_.getInt64(static_cast<uint64_t>(bytes)));
  scope_.buffers.erase(node.buffer.get());
  bytes_.at(scope_.function) -= bytes;
}

}  // namespace gantry
