// Random legal schedules for a GPU: every one computes what its tensor expression says, without races.
#include "tests/loops/gpu_case.h"

namespace gantry::test {
namespace {

class RandomGpuSchedule {
 public:
  explicit RandomGpuSchedule(unsigned seed) : generator_(seed) {}

  void run() {
    int64_t h = 3 + pick(6), w = 3 + pick(9), c = 1 + pick(11);
    Tensor x = placeholder({Expr(h + 2), Expr(w + 2), Expr(c)}, DType::kF32, "x");
    Tensor weights = placeholder({3, 3, Expr(c)}, DType::kF32, "weights");
    auto rh = reduce_axis(0, 3, "rh"), rw = reduce_axis(0, 3, "rw");
    Tensor twice = compute(
        x.shape(), [&](auto& i) { return x(i) + x(i); }, "twice");
    Tensor conv = compute(
        {Expr(h), Expr(w), Expr(c)},
        [&](auto& i) {
          return sum(twice({i[0] + rh->var, i[1] + rw->var, i[2]}) * weights({rh->var, rw->var, i[2]}),
                     {rh, rw});
        },
        "conv");
    Tensor y = compute(
        {Expr(h), Expr(w), Expr(c)}, [&](auto& i) { return max(conv(i), float_imm(DType::kF32, 0)); }, "y");
    Schedule s({y});
    s.for_gpu = true;
    Stage &out = s[y], &sum = s[conv], &copy = s[twice];
    bind_root(out);
    if (pick(4) == 0) {
      bind_root(sum);
    } else {
      sum.compute_at(
          out,
          out.leaves()[static_cast<size_t>(blocks_ + pick(static_cast<int>(out.leaves().size()) - blocks_))]);
      sum.set_scope(pick(2) ? StorageScope::kShared : StorageScope::kLocal);
      if (pick(2)) sum.split(sum.leaves()[static_cast<size_t>(pick(3))], Expr(2 + pick(3)));
      std::vector<IterVarPtr> order = sum.leaves();
      std::shuffle(order.begin(), order.end(), generator_);
      if (pick(2)) sum.reorder(order);
      if (sum.memory().scope == StorageScope::kShared && pick(3)) bind_one(sum);
    }
    if (pick(2)) {
      copy.compute_inline();
    } else {
      std::vector<IterVarPtr> places;
      for (size_t i = 0; i < sum.leaves().size(); ++i) {
        bool block = sum.kinds().of(sum.leaves()[i].get()) == LoopKind::kBlock;
        if (!block) places.push_back(sum.leaves()[i]);
      }
      IterVarPtr at = places[static_cast<size_t>(pick(static_cast<int>(places.size())))];
      copy.compute_at(sum, at);
      copy.set_scope(pick(3) ? StorageScope::kShared : StorageScope::kLocal);
      copy.pad_rows(pick(3));
      if (copy.memory().scope == StorageScope::kShared && pick(3)) bind_one(copy);
      bool serial = sum.kinds().of(at.get()) == LoopKind::kSerial;
      if (copy.memory().scope == StorageScope::kShared && serial && pick(2)) copy.double_buffer();
    }
    try {
      check_against_expression(s, {x, weights}, y);
    } catch (const std::exception& error) {
      // More threads inside than the launch has: not legal, and said so.
      EXPECT_THAT(error.what(), testing::HasSubstr("threads, but only"));
    }
  }

 private:
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(generator_); }

  /// Blocks, then threads and loops in any order.
  void bind_root(Stage& stage) {
    std::vector<IterVarPtr> blocks, threads, rest;
    int64_t room = 256;
    for (const IterVarPtr& axis : std::vector<IterVarPtr>(stage.axes())) {
      int64_t factor = 2 + pick(4);
      auto [outer, inner] = stage.split(axis, Expr(factor));
      (pick(3) ? blocks : rest).push_back(outer);
      bool bind = pick(2) && room / factor > 0;
      if (bind) room /= factor;
      (bind ? threads : rest).push_back(inner);
    }
    for (const IterVarPtr& axis : stage.reduce_axes()) rest.push_back(axis);
    rest.insert(rest.begin() + pick(static_cast<int>(rest.size()) + 1), threads.begin(), threads.end());
    if (pick(2)) std::shuffle(rest.begin(), rest.end(), generator_);
    blocks_ = static_cast<int>(blocks.size());
    std::vector<IterVarPtr> order = blocks;
    order.insert(order.end(), rest.begin(), rest.end());
    stage.reorder(order);
    for (const IterVarPtr& axis : blocks) stage.bind(axis, LoopKind::kBlock);
    for (const IterVarPtr& axis : threads) stage.bind(axis, LoopKind::kThread);
  }

  /// Some axis of a stage in shared memory, over a few threads.
  void bind_one(Stage& stage) {
    auto axis = stage.leaves()[static_cast<size_t>(pick(static_cast<int>(stage.leaves().size())))];
    if (axis->kind != IterVar::Kind::kData) return;
    auto [outer, inner] = stage.split(axis, Expr(2 + pick(3)));
    stage.bind(inner, LoopKind::kThread);
  }

  std::mt19937 generator_;
  int blocks_ = 0;
};

TEST(GpuProperty, RandomSchedulesAgree) {
  for (unsigned seed = 0; seed < 25; ++seed) {
    RandomGpuSchedule(seed).run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gantry::test
