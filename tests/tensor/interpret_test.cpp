#include "host/tensor/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
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

TEST(Interpret, MovesElementsOfEveryTypeAsTheIndicesSay) {
  // Packed, reversed, with steps, and with divided indices: elements are found by their own arithmetic.
  const int64_t rows = 48, columns = 300;
  for (DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kI64}) {
    const int width = byte_width(dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(rows * columns * width));
    std::mt19937 generator(3);
    for (std::byte& b : bytes) b = static_cast<std::byte>(generator());
    const ConstantPtr data = make_constant({dtype, {rows, columns}}, bytes.data());
    Tensor w = placeholder({Expr(rows), Expr(columns)}, dtype, "w");
    using Index = std::function<std::pair<Expr, Expr>(const std::vector<Expr>&)>;
    using Position = std::function<std::pair<int64_t, int64_t>(int64_t, int64_t, int64_t)>;
    struct Case {
      std::vector<int64_t> shape;
      Index index;
      Position position;
    };
    const Expr zero(int64_t{0});
    const std::vector<Case> cases = {
        {{3, 300, 16},
         [](auto& i) { return std::pair(i[0] * Expr(int64_t{16}) + i[2], i[1]); },
         [](int64_t a, int64_t b, int64_t c) { return std::pair(a * 16 + c, b); }},
        {{3, 16, 300},
         [](auto& i) { return std::pair(i[0] * Expr(int64_t{16}) + i[1], i[2]); },
         [](int64_t a, int64_t b, int64_t c) { return std::pair(a * 16 + b, c); }},
        {{1, 100, 48},
         [](auto& i) { return std::pair(Expr(int64_t{47}) - i[2], i[1] * Expr(int64_t{3})); },
         [](int64_t, int64_t b, int64_t c) { return std::pair(47 - c, b * 3); }},
        {{40, 5, 7},
         [](auto& i) {
           return std::pair(floordiv(i[0], Expr(int64_t{2})) + i[1],
                            mod(i[0], Expr(int64_t{2})) * Expr(int64_t{9}) + i[2]);
         },
         [](int64_t a, int64_t b, int64_t c) { return std::pair(a / 2 + b, a % 2 * 9 + c); }},
    };
    for (const Case& c : cases) {
      std::vector<Expr> shape(c.shape.begin(), c.shape.end());
      Tensor moved = compute(
          shape,
          [&](auto& i) {
            const auto [row, column] = c.index(i);
            return w({row, column});
          },
          "moved");
      const ConstantPtr result = interpret({moved}, {{w.op().get(), data}})[0];
      int64_t at = 0;
      for (int64_t i = 0; i < c.shape[0]; ++i)
        for (int64_t j = 0; j < c.shape[1]; ++j)
          for (int64_t k = 0; k < c.shape[2]; ++k, ++at) {
            const auto [row, column] = c.position(i, j, k);
            ASSERT_EQ(std::memcmp(result->bytes + at * width, bytes.data() + (row * columns + column) * width,
                                  static_cast<size_t>(width)),
                      0)
                << i << ", " << j << ", " << k;
          }
    }
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

TEST(Interpret, CombinesTensorsElementByElementWhereverOneIsBroadcast) {
  // Rows of all lengths, of which one operand has an element each, all of them in the other order, or lines across.
  const std::vector<std::vector<int64_t>> shapes{{6, 5, 3, 3}, {40, 1, 1, 1}, {7, 1, 2, 31}, {4, 300, 1, 1}, {2, 3, 5, 2}};
  const std::vector<std::pair<BinaryOp, std::function<float(float, float)>>> operators{
      {BinaryOp::kAdd, std::plus<float>()},
      {BinaryOp::kSub, std::minus<float>()},
      {BinaryOp::kMul, std::multiplies<float>()},
      {BinaryOp::kDiv, std::divides<float>()}};
  for (const auto& shape : shapes) {
    for (int kept = 0; kept < 16; ++kept) {
      std::vector<int64_t> other = shape;
      for (size_t d = 0; d < 4; ++d) {
        if ((kept >> d & 1) == 0) other[d] = 1;
      }
      const auto exprs = [](const std::vector<int64_t>& extents) { return std::vector<Expr>(extents.begin(), extents.end()); };
      Tensor a = placeholder(exprs(shape), DType::kF32, "a"), b = placeholder(exprs(other), DType::kF32, "b");
      const ConstantPtr x = random_constant(shape, 1), y = random_constant(other, 2);
      for (const auto& [op, reference] : operators) {
        for (const bool turned : {false, true}) {
          const auto body = [&](const std::vector<Expr>& i) {
            std::vector<Expr> at = i;
            for (size_t d = 0; d < 4; ++d) {
              if (other[d] == 1) at[d] = 0;
            }
            return turned ? binary(op, b(at), a(i)) : binary(op, a(i), b(at));
          };
          const ConstantPtr result =
              interpret({compute(exprs(shape), body, "c")}, {{a.op().get(), x}, {b.op().get(), y}}, 2)[0];
          int64_t at = 0;
          for (int64_t i = 0; i < shape[0]; ++i)
            for (int64_t j = 0; j < shape[1]; ++j)
              for (int64_t k = 0; k < shape[2]; ++k)
                for (int64_t l = 0; l < shape[3]; ++l, ++at) {
                  const int64_t there =
                      ((i % other[0] * other[1] + j % other[1]) * other[2] + k % other[2]) * other[3] + l % other[3];
                  const float p = x->as<float>()[at], q = y->as<float>()[there];
                  ASSERT_EQ(result->as<float>()[at], turned ? reference(q, p) : reference(p, q)) << at;
                }
        }
      }
    }
  }
}

TEST(Interpret, CombinesTensorsReadInOtherOrders) {
  Tensor a = placeholder({Expr(20), Expr(30)}, DType::kF32, "a"), b = placeholder({Expr(30)}, DType::kF32, "b");
  // Turned around, backwards, every second element.
  Tensor c = compute({Expr(30), Expr(10)}, [&](auto& i) { return a({i[1] * 2, i[0]}) - b({Expr(29) - i[0]}); }, "c");
  Tensor d = compute({Expr(20), Expr(15)}, [&](auto& i) { return a({i[0], i[1] * 2}) * b({i[1] + 3}); }, "d");
  const ConstantPtr x = random_constant({20, 30}, 1), y = random_constant({30}, 2);
  const auto results = interpret({c, d}, {{a.op().get(), x}, {b.op().get(), y}});
  const float *p = x->as<float>(), *q = y->as<float>();
  for (int64_t i = 0; i < 30; ++i)
    for (int64_t j = 0; j < 10; ++j)
      ASSERT_EQ(results[0]->as<float>()[i * 10 + j], p[j * 2 * 30 + i] - q[29 - i]);
  for (int64_t i = 0; i < 20; ++i)
    for (int64_t j = 0; j < 15; ++j) ASSERT_EQ(results[1]->as<float>()[i * 15 + j], p[i * 30 + j * 2] * q[j + 3]);
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

TEST(Interpret, LongIntegersBecomeFloatsInOneRounding) {
  // In between, f64 would make a tie of what is none.
  constexpr int64_t kWhole = (int64_t{1} << 53) + (int64_t{1} << 29) + 1;
  constexpr float kNearest = 0x1p53F + 0x1p30F;
  const std::vector<int64_t> values{kWhole, -kWhole, 7};
  const ConstantPtr data = make_constant({DType::kI64, {3}}, values.data());
  Tensor a = placeholder({3}, DType::kI64, "a");
  Tensor each = compute(
      {3}, [&](auto& i) { return cast(DType::kF32, a({i[0]})); }, "each");
  const ConstantPtr all = interpret({each}, {{a.op().get(), data}})[0];
  EXPECT_EQ(std::vector<float>(all->as<float>(), all->as<float>() + 3),
            (std::vector<float>{kNearest, -kNearest, 7}));
  Tensor first = compute(
      {}, [&](auto&) { return cast(DType::kF32, a({Expr(0)})); }, "first");
  EXPECT_EQ(*interpret({first}, {{a.op().get(), data}})[0]->as<float>(), kNearest);
  EXPECT_EQ(cast(DType::kF32, int_imm(DType::kI64, kWhole)).as<FloatImmNode>()->value,
            static_cast<double>(kNearest));
}

TEST(Interpret, NanPassesExtremaWithAConstantAndNoOthers) {
  const std::vector<float> values{NAN, -1, 2, 7};
  const ConstantPtr data = make_constant({DType::kF32, {4}}, values.data());
  Tensor a = placeholder({4}, DType::kF32, "a");
  Tensor clipped = compute(
      {4}, [&](auto& i) { return min(float_imm(DType::kF32, 6), max(a({i[0]}), float_imm(DType::kF32, 0))); },
      "clipped");
  const ConstantPtr result = interpret({clipped}, {{a.op().get(), data}})[0];
  EXPECT_TRUE(std::isnan(result->as<float>()[0]));
  EXPECT_EQ(std::vector<float>(result->as<float>() + 1, result->as<float>() + 4),
            (std::vector<float>{0, 2, 6}));
  auto k = reduce_axis(0, 4, "k");
  Tensor top = compute(
      {}, [&](auto&) { return reduce(ReduceKind::kMax, a({k->var}), {k}); }, "top");
  EXPECT_EQ(*interpret({top}, {{a.op().get(), data}})[0]->as<float>(), 7);
  EXPECT_TRUE(
      std::isnan(max(float_imm(DType::kF32, NAN), float_imm(DType::kF32, 0)).as<FloatImmNode>()->value));
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
