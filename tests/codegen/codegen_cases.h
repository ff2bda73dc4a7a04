// What tests of generated code have in common: the machines that they run for, and a kernel.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/codegen/run_kernel.h"

namespace gantry::codegen_cases {

/// Of targets by their names; codegen_test.cpp says of which.
class OnEveryLevel : public ::testing::TestWithParam<std::string> {};

/// c[i] = a[i] * b[i] + 2 over a symbolic number of elements.
inline LoopKernel multiply_add_kernel(LoopKind kind) {
  Expr n = symbol_var("N"), i = make_var("i");
  Buffer a = argument("a", DType::kF32, n), b = argument("b", DType::kF32, n),
         c = argument("c", DType::kF32, n);
  Stmt body = store(c, i, load(a, i) * load(b, i) + float_imm(DType::kF32, 2));
  return make_kernel("multiply_add", {a, b, c}, for_loop(i, 0, n, kind, body), {"N"});
}

}  // namespace gantry::codegen_cases
