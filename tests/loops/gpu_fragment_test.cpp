// Matrix products by tensor-core instructions.
#include "host/loops/launch.h"
#include "tests/loops/gpu_case.h"

namespace gantry::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct MmaCase {
  MmaShape shape;
  int64_t m, n, k;
  bool doubled = false;
};

class GpuFragment : public testing::TestWithParam<MmaCase> {};

void PrintTo(const MmaCase& c, std::ostream* out) {
  *out << static_cast<int>(c.shape) << " " << c.m << "x" << c.n << "x" << c.k
       << (c.doubled ? " doubled" : "");
}

DType operand_of(MmaShape shape) {
  if (shape == MmaShape::kM16N8K8Tf32) return DType::kF32;
  return shape == MmaShape::kM16N8K16Bf16 ? DType::kBF16 : DType::kF16;
}

/// A block of 2 x 2 warps computes 64 x 32 results, k in steps of 16.
TEST_P(GpuFragment, AProductOfTilesIsRight) {
  MmaCase c = GetParam();
  DType half = operand_of(c.shape);
  int64_t depth = c.shape == MmaShape::kM16N8K8Tf32 || c.shape == MmaShape::kM16N8K8F16 ? 8 : 16;
  Tensor a = placeholder({Expr(c.m), Expr(c.k)}, DType::kF32, "a");
  Tensor b = placeholder({Expr(c.k), Expr(c.n)}, DType::kF32, "b");
  Tensor bias = placeholder({Expr(c.n)}, DType::kF32, "bias");
  auto rounded = [&](const Tensor& t, std::vector<Expr> i) {
    return half == DType::kF32 ? call(MathFn::kRoundTf32, {t(i)}) : cast(half, t(i));
  };
  Tensor a_tile = compute(
      a.shape(), [&](auto& i) { return rounded(a, i); }, "a_tile");
  Tensor b_tile = compute(
      {Expr(c.n), Expr(c.k)},
      [&](auto& i) {
        return rounded(b, {i[1], i[0]});
      },
      "b_tile");
  auto k = reduce_axis(0, Expr(c.k), "k");
  Tensor product = compute(
      {Expr(c.m), Expr(c.n)},
      [&](auto& i) {
        Expr x = a_tile({i[0], k->var}), y = b_tile({i[1], k->var});
        return sum(cast(DType::kF32, x) * cast(DType::kF32, y), {k});
      },
      "product");
  Tensor y = compute(
      {Expr(c.m), Expr(c.n)},
      [&](auto& i) { return max(product(i) + bias({i[1]}), float_imm(DType::kF32, 0)); }, "y");

  Schedule s({y});
  s.for_gpu = true;
  Stage& out = s[y];
  auto [m_block, m_in] = out.split(out.axes()[0], 64);
  auto [m_warp, m_rest] = out.split(m_in, 32);
  auto [m_tile, m_row] = out.split(m_rest, 16);
  auto [m_half, group] = out.split(m_row, 8);
  auto [n_block, n_in] = out.split(out.axes()[1], 32);
  auto [n_warp, n_rest] = out.split(n_in, 16);
  auto [n_tile, n_column] = out.split(n_rest, 8);
  auto [member, pair] = out.split(n_column, 2);
  out.reorder({m_block, n_block, m_warp, n_warp, group, member, m_tile, n_tile, m_half, pair});
  out.bind(m_block, LoopKind::kBlock);
  out.bind(n_block, LoopKind::kBlock);
  for (const auto& digit : {m_warp, n_warp, group, member}) out.bind(digit, LoopKind::kThread);
  for (const auto& loop : {m_tile, n_tile, m_half}) out.unroll(loop);
  out.vectorize(pair);

  Stage& acc = s[product];
  acc.compute_at(out, member);
  acc.set_scope(StorageScope::kFragment);
  auto [ko, k_in] = acc.split(acc.reduce_axes()[0], 16);
  auto [ks, kk] = acc.split(k_in, Expr(depth));
  auto [mt, mm] = acc.split(acc.axes()[0], 16);
  auto [nt, nn] = acc.split(acc.axes()[1], 8);
  acc.reorder({ko, ks, mt, nt, mm, nn, kk});
  acc.unroll(mt);
  acc.unroll(nt);
  acc.tensorize(mm, c.shape);
  for (const Tensor& tile : {a_tile, b_tile}) {
    Stage& stage = s[tile];
    stage.compute_at(acc, ko);
    stage.set_scope(StorageScope::kShared);
    stage.pad_rows(4);
    if (c.doubled) stage.double_buffer();
    auto [turn, thread] = stage.split(stage.fuse(stage.axes()[0], stage.axes()[1]), 128);
    stage.bind(thread, LoopKind::kThread);
    stage.unroll(turn);
  }
  std::string text;
  check_against_expression(s, {a, b, bias}, y, &text);
  EXPECT_THAT(text, HasSubstr("mma."));
  EXPECT_THAT(text, HasSubstr("local product: f32[16]"));
  if (half != DType::kF32) EXPECT_THAT(text, HasSubstr("product.a[ramp(0, 1, 2)] = a_tile[ramp("));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuFragment,
                         testing::Values(MmaCase{MmaShape::kM16N8K8Tf32, 64, 32, 32},
                                         MmaCase{MmaShape::kM16N8K8Tf32, 70, 37, 20},
                                         MmaCase{MmaShape::kM16N8K8Tf32, 70, 37, 40, true},
                                         MmaCase{MmaShape::kM16N8K16Bf16, 64, 32, 32},
                                         MmaCase{MmaShape::kM16N8K16Bf16, 9, 5, 3},
                                         MmaCase{MmaShape::kM16N8K16F16, 30, 33, 48, true},
                                         MmaCase{MmaShape::kM16N8K8F16, 64, 20, 17}));

}  // namespace
}  // namespace gantry::test
