#include "host/ops/gemm.h"

#include "host/targets/common/schedule_rules.h"
#include "host/targets/cuda/gemm_model.h"
#include "tests/targets/cuda/run_gpu_schedule.h"

namespace gantry {
namespace {

using test::expect_same_as_interpreter;

Tensor f32(std::vector<Expr> shape, const char* name) {
  return placeholder(std::move(shape), DType::kF32, name);
}

// A product whose result has the axes (rows…, n), followed by a bias and an activation.
Tensor dense(const Tensor& x, const Tensor& w, const Tensor& bias) {
  std::vector<Expr> rows(x.shape().begin(), x.shape().end() - 1), shape = rows;
  shape.push_back(w.shape()[1]);
  Expr count = 1;
  for (const Expr& extent : rows) count = count * extent;
  Tensor a = compute(
      {count, x.shape().back()},
      [&](const std::vector<Expr>& i) {
        std::vector<Expr> at = ops::unflatten(i[0], rows);
        at.push_back(i[1]);
        return x(at);
      },
      "operand");
  Tensor product = ops::gemm(a, w);
  Tensor out = compute(
      shape,
      [&](const std::vector<Expr>& i) {
        return product({ops::flatten({i.begin(), i.end() - 1}, rows), i.back()});
      },
      "output", Role::kGemmOutput);
  return compute(
      shape, [&](const std::vector<Expr>& i) { return max(out(i) + bias({i.back()}), const_of(DType::kF32, 0)); },
      "relu");
}

TEST(GemmRule, MultipliesMatricesOfAwkwardShapes) {
  const int64_t shapes[][4] = {{1, 64, 64, 64}, {1, 1, 1, 1},  {1, 17, 5, 3},    {3, 7, 130, 33},
                               {1, 1, 100, 70}, {2, 4, 37, 1}, {1, 100, 97, 27}, {2, 65, 31, 147}};
  for (const auto& [b, m, n, k] : shapes) {
    SCOPED_TRACE(testing::Message() << b << "x" << m << " rows, " << n << " columns, depth " << k);
    Tensor x = f32({b, m, k}, "x"), w = f32({k, n}, "w"), bias = f32({n}, "bias");
    expect_same_as_interpreter({dense(x, w, bias)}, {x, w, bias});
  }
}

TEST(GemmRule, MultipliesAnyNumberOfRows) {
  const Expr rows = symbol_var("rows");
  const int64_t k = 19, n = 45;
  Tensor x = f32({rows, k}, "x"), w = f32({k, n}, "w");
  Tensor product = ops::gemm(x, w);
  Tensor out = compute(
      {rows, n}, [&](const std::vector<Expr>& i) { return product(i); }, "out", Role::kGemmOutput);
  LoopKernel kernel = run_loop_passes(lower_schedule(make_schedule({out}, test::gpu_target()), {x, w}, "k"));
  for (int64_t count : {1, 64, 77}) {
    test::Floats a = test::random_floats(count * k, 1), b = test::random_floats(k * n, 2);
    test::Floats got(static_cast<size_t>(count * n), NAN), expected(got.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t d = 0; d < k; ++d)
          sum += double(a[static_cast<size_t>(i * k + d)]) * b[static_cast<size_t>(d * n + j)];
        expected[static_cast<size_t>(i * n + j)] = static_cast<float>(sum);
      }
    }
    auto bytes = [](test::Floats& data) { return std::as_writable_bytes(std::span<float>(data)); };
    evaluate(kernel, {bytes(a), bytes(b), bytes(got)}, {{"rows", count}});
    EXPECT_LE(test::relative_difference(got, expected), 1e-5) << count << " rows";
  }
}

}  // namespace
}  // namespace gantry
