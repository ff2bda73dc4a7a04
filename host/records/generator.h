// Which generator makes code from decisions.
#pragma once

#include <string>

namespace gantry::records {

/// Equal for two programs if and only if they compute a form alike: a digest of the sources that decide it
/// (ops, tensor expressions, loops, passes, forms, targets, code generation), and LLVM's version.
/// "0.4.0-1f2e3d4c5b6a7988-llvm19.1.7".
const std::string& generator_version();

}  // namespace gantry::records
