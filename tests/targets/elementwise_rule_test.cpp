// Elementwise stages as the CPU's rule schedules them.
#include <gtest/gtest.h>

#include "host/codegen/find_target.h"
#include "host/loops/lower.h"
#include "host/targets/common/schedule_rules.h"
#include "tests/targets/nest_facts.h"

namespace gantry {
namespace {

/// Lanes of the widest vector that is read or written.
int widest(const Tensor& y, const std::vector<Tensor>& inputs) {
  const LoopKernel kernel =
      run_loop_passes(lower_schedule(make_schedule({y}, find_target("x86-64-v3")), inputs, "k"), {});
  int lanes = 0;
  for (const test::VectorAccess& access : test::vector_accesses(kernel))
    lanes = std::max(lanes, access.lanes);
  return lanes;
}

// A vector of bytes would divide as many positions by sizes that only a run knows, which compiled for
// minutes.
TEST(ElementwiseRule, VectorsThatDivideByOpenExtentsAreNoWiderThanThoseOfFourBytes) {
  const Expr m = symbol_var("M"), n = symbol_var("N");
  const Tensor x = placeholder({m, n}, DType::kI8, "x"), row = placeholder({n}, DType::kI8, "row");
  const Tensor rows = compute(
      {m, n}, [&](const std::vector<Expr>& i) { return row({i[1]}); }, "rows");
  const Tensor sum = compute(
      {m, n}, [&](const std::vector<Expr>& i) { return x(i) + rows(i); }, "sum");
  EXPECT_EQ(widest(sum, {x, row}), 8);
  const Tensor twice = compute(
      {m, n}, [&](const std::vector<Expr>& i) { return x(i) + x(i); }, "twice");
  EXPECT_EQ(widest(twice, {x}), 32);
}

}  // namespace
}  // namespace gantry
