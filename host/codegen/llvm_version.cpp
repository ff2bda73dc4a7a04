#include "host/codegen/llvm_version.h"

#include <llvm/Config/llvm-config.h>

namespace gantry {

const char* llvm_version() {
  return LLVM_VERSION_STRING;
}

}  // namespace gantry
