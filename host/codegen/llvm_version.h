// Which LLVM compiles kernels.
#pragma once

namespace gantry {

/// "19.1.7"
const char* llvm_version();

}  // namespace gantry
