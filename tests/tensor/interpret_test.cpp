#include "host/tensor/interpret.h"

#include <gtest/gtest.h>

#include <random>

namespace gantry {
namespace {

ConstantPtr random_constant(std::vector<int64_t> shape, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  std::vector<float> data(static_cast<size_t>(count));
  for (float& x : data) x = normal(generator);
  return make_constant({DType::kF32, Shape(shape.begin(), shape.end())}, data.data());
}

TEST(Interpret, PacksWeightsIntoPaddedBlocks) {
  for (int64_t oc : {1, 5, 16, 37}) {
    int64_t ic = 9, nb = 8, ocb = (oc + nb - 1) / nb;
    Tensor w = placeholder({Expr(oc), Expr(ic)}, DType::kF32, "w");
    Tensor packed = compute(
        {Expr(ocb), Expr(ic), Expr(nb)},
        [&](auto& i) {
          Expr o = i[0] * Expr(nb) + i[2];
          return if_then_else(lt(o, Expr(oc)), w({o, i[1]}), float_imm(DType::kF32, 0));
        },
        "packed");
    ConstantPtr data = random_constant({oc, ic});
    ConstantPtr result = interpret({packed}, {{w.op().get(), data}})[0];
    const float* out = result->as<float>();
    for (int64_t o = 0; o < ocb * nb; ++o)
      for (int64_t i = 0; i < ic; ++i)
        EXPECT_EQ(out[((o / nb) * ic + i) * nb + o % nb], o < oc ? data->as<float>()[o * ic + i] : 0.0F);
  }
}

TEST(Interpret, MultipliesMatrices) {
  int64_t m = 7, n = 200, k = 31;
  Tensor a = placeholder({Expr(m), Expr(k)}, DType::kF32, "a"),
         b = placeholder({Expr(k), Expr(n)}, DType::kF32, "b");
  auto r = reduce_axis(0, Expr(k), "k");
  Tensor c = compute(
      {Expr(m), Expr(n)},
      [&](auto& i) {
        return sum(a({i[0], r->var}) * b({r->var, i[1]}), {r});
      },
      "c");
  ConstantPtr x = random_constant({m, k}, 1), y = random_constant({k, n}, 2);
  ConstantPtr result = interpret({c}, {{a.op().get(), x}, {b.op().get(), y}})[0];
  const float* out = result->as<float>();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double expected = 0;
      for (int64_t p = 0; p < k; ++p)
        expected += static_cast<double>(x->as<float>()[i * k + p]) * y->as<float>()[p * n + j];
      EXPECT_NEAR(out[i * n + j], expected, 1e-5);
    }
}

TEST(Interpret, TransposesLargeTensorsOnSeveralThreads) {
  int64_t h = 300, w = 401;
  Tensor a = placeholder({Expr(h), Expr(w)}, DType::kF32, "a");
  Tensor t = compute(
      {Expr(w), Expr(h)},
      [&](auto& i) {
        return a({i[1], i[0]});
      },
      "t");
  ConstantPtr x = random_constant({h, w});
  ConstantPtr result = interpret({t}, {{a.op().get(), x}}, 3)[0];
  const float* out = result->as<float>();
  for (int64_t i = 0; i < w; ++i)
    for (int64_t j = 0; j < h; ++j) ASSERT_EQ(out[i * h + j], x->as<float>()[j * w + i]);
}

TEST(Interpret, ScalarsAndIntegersWrap) {
  Tensor a = placeholder({}, DType::kI8, "a");
  Tensor b = compute(
      {}, [&](auto&) { return a({}) + int_imm(DType::kI8, 100); }, "b");
  int8_t value = 100;
  ConstantPtr x = make_constant({DType::kI8, {}}, &value);
  EXPECT_EQ(*interpret({b}, {{a.op().get(), x}})[0]->as<int8_t>(), -56);
}

TEST(Interpret, ConditionsGuardReadsOutOfBounds) {
  Tensor a = placeholder({5}, DType::kF32, "a");
  Tensor p = compute(
      {9},
      [&](auto& i) {
        Expr inside = ge(i[0], 2) && lt(i[0], 7);
        return if_then_else(inside, a({i[0] - 2}), float_imm(DType::kF32, -1));
      },
      "p");
  ConstantPtr x = random_constant({5});
  ConstantPtr result = interpret({p}, {{a.op().get(), x}})[0];
  const float* out = result->as<float>();
  for (int i = 0; i < 9; ++i) EXPECT_EQ(out[i], i >= 2 && i < 7 ? x->as<float>()[i - 2] : -1.0F);
}

TEST(Interpret, ExternOperationsGiveNoResult) {
  Tensor a = placeholder({5}, DType::kF32, "a");
  Tensor e = extern_kernel(
      {a}, {{5}}, {DType::kF32}, [](LoopBuilder&) {}, "e")[0];
  EXPECT_TRUE(interpret({e}, {{a.op().get(), random_constant({5})}}).empty());
}

}  // namespace
}  // namespace gantry
