// Symbolic sizes, reductions, and random legal schedules.
#include "tests/loops/run_schedule.h"

namespace gantry::test {
namespace {

TEST(Lowering, SymbolicElementwiseIsRightAtEverySize) {
  Expr n = symbol_var("N"), c(6);
  Tensor x = placeholder({n, c}, DType::kF32, "x");
  Tensor a = compute(
      {n, c}, [&](auto& i) { return x(i) * x(i); }, "a");
  Tensor y = compute(
      {n, c}, [&](auto& i) { return a(i) + x(i); }, "y");
  Schedule s({y});
  s[a].compute_inline();
  Stage& out = s[y];
  auto fused = out.fuse(out.axes()[0], out.axes()[1]);
  auto [o, i] = out.split(fused, 16);
  auto [u, v] = out.split(i, 8);
  out.parallel(o);
  out.unroll(u);
  out.vectorize(v);
  for (int64_t size : {0, 1, 2, 3, 8, 13, 16}) {
    Floats data = random_floats(static_cast<size_t>(size * 6));
    Floats expected;
    for (float f : data) expected.push_back(f * f + f);
    EXPECT_EQ(run_schedule(s, {x}, {data}, data.size(), {{"N", size}}), expected) << size;
  }
}

TEST(Lowering, VectorizedReductionsHandleTheirTails) {
  Expr n = symbol_var("N"), m = symbol_var("M");
  Tensor x = placeholder({n, m}, DType::kF32, "x");
  auto k = reduce_axis(0, m, "k");
  Tensor total = compute(
      {n},
      [&](auto& i) {
        return sum(x({i[0], k->var}), {k});
      },
      "total");
  Tensor y = compute(
      {n, m}, [&](auto& i) { return x(i) - total({i[0]}); }, "y");
  Schedule s({y});
  Stage& out = s[y];
  out.parallel(out.axes()[0]);
  auto [jo, ji] = out.split(out.axes()[1], 8);
  out.vectorize(ji);
  Stage& row = s[total];
  auto [ko, ki] = row.split(row.reduce_axes()[0], 8);
  row.vectorize(ki);
  row.compute_at(out, out.axes()[0]);
  row.set_scope(StorageScope::kLocal);
  for (int64_t size : {1, 7, 8, 9, 24}) {
    Floats data = random_floats(static_cast<size_t>(3 * size)), expected;
    for (int64_t i = 0; i < 3; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < size; ++j) sum += data[static_cast<size_t>(i * size + j)];
      for (int64_t j = 0; j < size; ++j) expected.push_back(data[static_cast<size_t>(i * size + j)] - sum);
    }
    EXPECT_EQ(run_schedule(s, {x}, {data}, data.size(), {{"N", 3}, {"M", size}}), expected) << size;
  }
}

/// y = max(pool(x), 0) over random sizes, under random splits, fusions, orders, attachments and annotations.
TEST(Lowering, RandomSchedulesAgree) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 generator(seed);
    auto pick = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(generator); };
    int64_t h = 3 + pick(6), w = 3 + pick(9), c = 1 + pick(11);
    bool symbolic = pick(2);
    Expr hs = symbolic ? symbol_var("H") : Expr(h);
    Tensor x = placeholder({hs + 2, Expr(w + 2), Expr(c)}, DType::kF32, "x");
    auto rh = reduce_axis(0, 3, "rh"), rw = reduce_axis(0, 3, "rw");
    Tensor doubled = compute(
        {hs + 2, Expr(w + 2), Expr(c)}, [&](auto& i) { return x(i) + x(i); }, "doubled");
    Tensor pool = compute(
        {hs, Expr(w), Expr(c)},
        [&](auto& i) {
          return sum(doubled({i[0] + rh->var, i[1] + rw->var, i[2]}), {rh, rw});
        },
        "pool");
    Tensor y = compute(
        {hs, Expr(w), Expr(c)}, [&](auto& i) { return max(pool(i), float_imm(DType::kF32, 0)); }, "y");
    Schedule s({y});
    auto mangle = [&](Stage& stage) {
      for (int step = pick(4); step > 0; --step) {
        auto leaf = stage.leaves()[static_cast<size_t>(pick(static_cast<int>(stage.leaves().size())))];
        stage.split(leaf, Expr(2 + pick(4)));
      }
      for (size_t i = 0; i + 1 < stage.leaves().size(); ++i) {
        if (pick(4) == 0 && stage.leaves()[i]->kind == stage.leaves()[i + 1]->kind)
          stage.fuse(stage.leaves()[i], stage.leaves()[i + 1]);
      }
      std::vector<IterVarPtr> order = stage.leaves();
      std::shuffle(order.begin(), order.end(), generator);
      if (pick(2)) stage.reorder(order);
      for (const IterVarPtr& leaf : stage.leaves()) {
        bool constant = false;
        for (const AxisRelation& r : stage.relations())
          constant |= r.kind == AxisRelation::Kind::kSplit && r.inner == leaf;
        if (constant && pick(2))
          stage.unroll(leaf);
        else if (constant && pick(2) && leaf->kind == IterVar::Kind::kData)
          stage.vectorize(leaf);
      }
    };
    Stage& out = s[y];
    mangle(out);
    mangle(s[pool]);
    if (pick(2))
      s[doubled].compute_inline();
    else if (pick(2))
      mangle(s[doubled]);
    bool attached = pick(3) != 0;
    if (attached)
      s[pool].compute_at(out, out.leaves()[static_cast<size_t>(pick(static_cast<int>(out.leaves().size())))]);
    if (s[doubled].attachment().is_root() && attached && pick(2))
      s[doubled].compute_at(out, s[pool].attachment().axis());
    Floats data = random_floats(static_cast<size_t>((h + 2) * (w + 2) * c), seed), expected;
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < w; ++j)
        for (int64_t k = 0; k < c; ++k) {
          float sum = 0;
          for (int64_t p = 0; p < 3; ++p)
            for (int64_t q = 0; q < 3; ++q)
              sum += 2 * data[static_cast<size_t>(((i + p) * (w + 2) + j + q) * c + k)];
          expected.push_back(std::max(sum, 0.0F));
        }
    std::string text;
    EXPECT_EQ(run_schedule(s, {x}, {data}, expected.size(), {{"H", h}}, &text), expected) << "seed " << seed;
    if (testing::Test::HasFailure()) {
      std::fputs(text.substr(0, 8000).c_str(), stderr);
      FAIL() << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace gantry::test
