#include "host/codegen/block_statements.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <string>

#include "host/codegen/buffers.h"
#include "host/codegen/value_types.h"
#include "host/support/error.h"

namespace gantry {
namespace {

constexpr unsigned kSharedSpace = 3;

/// Every buffer's name is unique in its kernel, but PTX knows letters, digits and underscores only.
std::string identifier(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '_';
  }
  return text;
}

}  // namespace

void BlockStatements::open(const AllocateNode& node) {
  const BufferNode& buffer = *node.buffer;
  auto* count = buffer.element_count.as<IntImmNode>();
  internal_check(count != nullptr && count->value >= 0, "kernel {}: shared buffer {} needs a constant size",
                 kernel_, buffer.name);
  auto* type =
      llvm::ArrayType::get(storage_type(b_.getContext(), buffer.dtype), static_cast<uint64_t>(count->value));
  auto* memory = new llvm::GlobalVariable(
      module_, type, false, llvm::GlobalValue::InternalLinkage, llvm::PoisonValue::get(type),
      fmt::format("{}_{}", scope_.function->getName().str(), identifier(buffer.name)), nullptr,
      llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  memory->setAlignment(llvm::Align(kDeviceAlignment));
  scope_.buffers[&buffer] = memory;
}

void BlockStatements::close(const AllocateNode& node) {
  scope_.buffers.erase(node.buffer.get());
}

void BlockStatements::barrier() {
  expressions_.forget();
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
}

}  // namespace gantry
