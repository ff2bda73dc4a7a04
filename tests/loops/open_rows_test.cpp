// Loops over rows of which only a run tells how many there are: what their guards and their indices become.
#include "host/tensor/simplify.h"
#include "tests/loops/gpu_kernels.h"
#include "tests/loops/run_schedule.h"

namespace gantry::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// The text behind the last loop of that name, up to its end.
std::vector<std::string> bodies_of(const std::string& text, const std::string& loop) {
  std::vector<std::string> bodies;
  for (size_t at = text.find("for " + loop + " in"); at != std::string::npos; at = text.find("for " + loop + " in", at)) {
    const size_t line = text.rfind('\n', at) + 1, body = text.find('\n', at);
    const std::string end = "\n" + text.substr(line, at - line) + "}";
    at = text.find(end, body);
    bodies.push_back(text.substr(body, at - body));
  }
  return bodies;
}

/// A product (n, 3) x (3, 8) in tiles of some rows, and of some tiles a chunk; rectified.
struct Product {
  Tensor x = placeholder({Dim::symbol("n"), 3}, DType::kF32, "x"), w = placeholder({3, 8}, DType::kF32, "w");

  Schedule in_tiles(int64_t rows, int64_t chunk, TailStrategy tail) const {
    auto k = reduce_axis(0, 3, "k");
    auto y = compute({x.shape()[0], 8}, [&](auto& i) { return sum(x({i[0], k->var}) * w({k->var, i[1]}), {k}); }, "y");
    Schedule s({y});
    Tensor sums = s.cache_write(y, StorageScope::kLocal);
    Stage& out = s[y];
    const IterVarPtr column = out.axes()[1];
    auto [tiles, row] = out.split(out.axes()[0], rows, tail);
    if (chunk > 1) tiles = out.split(tiles, chunk).second;
    out.unroll(row);
    out.vectorize(column);
    s[sums].compute_at(out, tiles);
    const auto axes = s[sums].axes();
    s[sums].reorder({s[sums].reduce_axes()[0], axes[0], axes[1]});
    s[sums].unroll(axes[0]);
    s[sums].vectorize(axes[1]);
    return s;
  }

  void check(const Schedule& s) const {
    const Floats ws = random_floats(24, 2);
    for (int64_t n = 0; n < 30; ++n) {
      const Floats xs = random_floats(size_t(3 * n));
      Floats expected;
      for (size_t i = 0; i < size_t(8 * n); ++i) {
        const size_t row = i / 8 * 3, column = i % 8;
        expected.push_back(xs[row] * ws[column] + xs[row + 1] * ws[8 + column] + xs[row + 2] * ws[16 + column]);
      }
      EXPECT_THAT(run_schedule(s, {x, w}, {xs, ws}, expected.size(), {{"n", n}}),
                  testing::Pointwise(testing::Eq(), expected))
          << n;
    }
  }

  std::string text(const Schedule& s) const { return to_string(run_loop_passes(lower_schedule(s, {x, w}, "k"))); }
};

TEST(OpenRows, ALastTileHasAVersionForEveryNumberOfItsRows) {
  const Product product;
  const Schedule s = product.in_tiles(4, 1, TailStrategy::kGuard);
  product.check(s);
  const std::string text = product.text(s);
  const auto bodies = bodies_of(text, "k");
  EXPECT_EQ(bodies.size(), 4U) << text;
  for (const std::string& body : bodies) EXPECT_THAT(body, Not(HasSubstr("if "))) << text;
  EXPECT_THAT(text, HasSubstr("y.cache.rows3"));
}

TEST(OpenRows, AChunkThatIsNotWholeIsDividedByItsTiles) {
  const Product product;
  const Schedule s = product.in_tiles(4, 3, TailStrategy::kGuard);
  product.check(s);
  const std::string text = product.text(s);
  for (const std::string& body : bodies_of(text, "k")) EXPECT_THAT(body, Not(HasSubstr("if "))) << text;
}

TEST(OpenRows, ATileOfManyRowsHasOneVersionThatAsks) {
  const Product product;
  const Schedule s = product.in_tiles(12, 1, TailStrategy::kGuard);
  product.check(s);
  EXPECT_EQ(bodies_of(product.text(s), "k").size(), 2U);
}

// What a condition chooses between is stored in every row.
TEST(OpenRows, RowsThatAreZeroBeyondTheEndAreStored) {
  auto x = placeholder({Dim::symbol("n")}, DType::kF32, "x");
  const Expr n = x.shape()[0];
  auto y = compute(
      {3, 4}, [&](auto& i) { return if_then_else(lt(i[1], n), x({i[1]}), float_imm(DType::kF32, 0)); }, "y");
  Schedule s({y});
  s[y].unroll(s[y].axes()[1]);
  for (int64_t size = 0; size < 6; ++size) {
    const Floats xs = random_floats(size_t(size));
    Floats expected(12, 0);
    for (size_t i = 0; i < 12; ++i)
      if (i % 4 < size_t(size)) expected[i] = xs[i % 4];
    EXPECT_EQ(run_schedule(s, {x}, {xs}, 12, {{"n", size}}), expected) << size;
  }
}

// Sums over rows of four tiles, of which the last ones may have no row at all: they are zero.
TEST(OpenRows, ATileWithoutRowsStoresWhatNoConditionGuards) {
  const Expr n = symbol_var("n"), tile = make_var("tile"), time = make_var("time"), row = make_var("row");
  const Buffer x = gpu_buffer("x", DType::kF32, n), y = gpu_buffer("y", DType::kF32, 4);
  const Expr at = tile * 4 + row;
  const Stmt add = if_stmt(lt(at, n), store(y, tile, load(y, tile) + load(x, at)));
  const Stmt twice = for_loop(time, 0, 2, LoopKind::kSerial, for_loop(row, 0, 4, LoopKind::kUnrolled, add));
  const Stmt body =
      for_loop(tile, 0, 4, LoopKind::kSerial, block({store(y, tile, float_imm(DType::kF32, 0)), twice}));
  const LoopKernel kernel = gpu_kernel("k", {x}, {y}, partition_guards(body), {"n"});
  for (int64_t size = 0; size <= 16; ++size) {
    Floats xs = random_floats(size_t(size)), expected(4, 0), sums(4, NAN);
    for (size_t i = 0; i < xs.size(); ++i) expected[i / 4] += 2 * xs[i];
    const std::vector<std::span<std::byte>> arguments{bytes_of(xs), bytes_of(sums)};
    evaluate(kernel, arguments, {{"n", size}});
    EXPECT_EQ(sums, expected) << size << "\n" << to_string(kernel);
  }
}

// Steps, each a launch, in which a block reads weights of its direction: the block is none of the loop around it.
TEST(OpenRows, IndicesOfThreadsStayInTheirLaunch) {
  const Expr n = symbol_var("n"), step = make_var("step");
  const Buffer weights = gpu_buffer("weights", DType::kF32, 2 * 32), y = gpu_buffer("y", DType::kF32, 2 * n * 32);
  const Grid g;
  const Stmt one = store(y, g.x * 32 + g.t, load(weights, floordiv(g.x, n) * 32 + g.t));
  const Stmt steps = for_loop(step, 0, 3, LoopKind::kSerial, g.run(2 * n, 32, one));
  EXPECT_TRUE(hoist_indices(steps).same_as(steps)) << to_string(hoist_indices(steps));
}

/// Sums over windows of 2 of lines of a matrix (h, w + 1), for the points of all lines in one row.
struct Windows {
  Tensor x = placeholder({Dim::symbol("h"), Dim::symbol("w") + 1}, DType::kF32, "x"), y;
  Windows() {
    const Expr w = simplify(x.shape()[1] - 1);
    auto k = reduce_axis(0, 2, "k");
    y = compute(
        {x.shape()[0] * w},
        [&](auto& i) { return sum(x({floordiv(i[0], w), mod(i[0], w) + k->var}), {k}); }, "y");
  }
};

TEST(OpenRows, WhatALoopLeavesOfAnIndexIsComputedBeforeIt) {
  const Windows windows;
  Schedule s({windows.y});
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{1, 1}, {3, 4}, {5, 1}, {0, 4}, {4, 0}}) {
    const Floats xs = random_floats(size_t(h * (w + 1)));
    Floats expected;
    for (int64_t p = 0; p < h * w; ++p) {
      const auto at = size_t(p / w * (w + 1) + p % w);
      expected.push_back(xs[at] + xs[at + 1]);
    }
    EXPECT_EQ(run_schedule(s, {windows.x}, {xs}, expected.size(), {{"h", h}, {"w", w}}), expected);
  }
  const std::string text = to_string(run_loop_passes(lower_schedule(s, {windows.x}, "k")));
  EXPECT_THAT(text, ContainsRegex("let index\\.0 = [^\n]*floordiv")) << text;
  const auto bodies = bodies_of(text, "k");
  ASSERT_FALSE(bodies.empty());
  for (const std::string& body : bodies) {
    EXPECT_THAT(body, HasSubstr("x[index.0 + ")) << text;
    EXPECT_THAT(body, Not(HasSubstr("floordiv"))) << text;
  }
}

}  // namespace
}  // namespace gantry::test
