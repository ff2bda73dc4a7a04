#include "host/codegen/host_table.h"

#include "device_runtime/include/gantry/kernel_abi.h"

namespace gantry {

using llvm::Value;

static_assert(offsetof(GantryKernelHost, abi_version) == 0);

Value* HostTable::is_absent() {
  return b_.CreateIsNull(scope_.host);
}

Value* HostTable::has_version(uint32_t version) {
  Value* of_host = b_.CreateLoad(b_.getInt32Ty(), scope_.host);
  return b_.CreateICmpUGE(of_host, b_.getInt32(version));
}

Value* HostTable::member(size_t offset) {
  return b_.CreateLoad(b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scope_.host, offset));
}

}  // namespace gantry
