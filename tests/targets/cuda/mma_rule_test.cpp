// Products whose precision asks for tensor cores.
#include "host/codegen/find_target.h"
#include "host/ops/gemm.h"
#include "host/targets/common/schedule_rules.h"
#include "host/targets/cuda/mma_model.h"
#include "tests/targets/cuda/run_gpu_schedule.h"
#include "tests/targets/nest_facts.h"

namespace gantry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct MmaCase {
  Precision precision;
  const char* target = "cuda-emulated:sm_80";
  MmaShape instruction;
  double tolerance;  ///< of the largest result: some roundings of the operands, of 2^-11 or 2^-8 each
};

void PrintTo(const MmaCase& c, std::ostream* out) {
  *out << name_of(c.precision) << " on " << c.target;
}

class MmaRule : public testing::TestWithParam<MmaCase> {
 protected:
  Target target() const { return with_precision(find_target(GetParam().target), GetParam().precision); }
  LoopKernel run(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) const {
    return test::expect_same_as_interpreter(outputs, inputs, target(), GetParam().tolerance).kernel;
  }
};

Tensor f32(std::vector<Expr> shape, const char* name) {
  return placeholder(std::move(shape), DType::kF32, name);
}

Tensor with_output(const Tensor& product, const Tensor& bias) {
  Tensor out = compute(
      product.shape(), [&](const std::vector<Expr>& i) { return product(i); }, "output", Role::kGemmOutput);
  return compute(
      product.shape(),
      [&](const std::vector<Expr>& i) { return max(out(i) + bias({i.back()}), const_of(DType::kF32, 0)); },
      "relu");
}

TEST_P(MmaRule, MultipliesMatricesOfAwkwardShapes) {
  const int64_t shapes[][3] = {{64, 64, 64}, {16, 8, 16}, {17, 9, 19}, {70, 130, 33}, {49, 40, 600}};
  for (const auto& [m, n, k] : shapes) {
    SCOPED_TRACE(testing::Message() << m << " rows, " << n << " columns, depth " << k);
    Tensor x = f32({m, k}, "x"), w = f32({k, n}, "w"), bias = f32({n}, "bias");
    EXPECT_THAT(test::mma_shapes(run({with_output(ops::gemm(x, w), bias)}, {x, w, bias})), ElementsAre(GetParam().instruction));
  }
}

TEST_P(MmaRule, MultipliesBatchesOfMatrices) {
  Tensor a = f32({3, 33, 20}, "a"), b = f32({3, 20, 17}, "b"), bias = f32({17}, "bias");
  EXPECT_THAT(test::mma_shapes(run({with_output(ops::gemm(a, b), bias)}, {a, b, bias})), ElementsAre(GetParam().instruction));
}

TEST_P(MmaRule, LeavesProductsOfFewRowsToOtherRules) {
  Tensor x = f32({3, 40}, "x"), w = f32({40, 50}, "w"), bias = f32({50}, "bias");
  EXPECT_THAT(test::mma_shapes(run({with_output(ops::gemm(x, w), bias)}, {x, w, bias})), IsEmpty());
}

TEST_P(MmaRule, LowersProductsOfAnySize) {
  const Expr rows = symbol_var("rows"), columns = symbol_var("columns"), depth = symbol_var("depth");
  Tensor x = f32({rows, depth}, "x"), w = f32({depth, columns}, "w"), bias = f32({columns}, "bias");
  LoopKernel kernel = run_loop_passes(
      lower_schedule(make_schedule({with_output(ops::gemm(x, w), bias)}, target()), {x, w, bias}, "k"));
  EXPECT_THAT(test::mma_shapes(kernel), ElementsAre(GetParam().instruction));
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, MmaRule,
    testing::Values(MmaCase{Precision::kTf32, "cuda-emulated:sm_80", MmaShape::kM16N8K8Tf32, 2e-3},
                    MmaCase{Precision::kBf16, "cuda-emulated:sm_80", MmaShape::kM16N8K16Bf16, 1e-2},
                    MmaCase{Precision::kFp16, "cuda-emulated:sm_80", MmaShape::kM16N8K16F16, 2e-3},
                    MmaCase{Precision::kFp16, "cuda-emulated:sm_75", MmaShape::kM16N8K8F16, 2e-3}));

}  // namespace
}  // namespace gantry
