#include "host/tensor/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/support/error.h"
#include "host/tensor/schedule.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// y(i, j) = 2 twice(i, j), twice(i, j) = x(i, j) + x(i, j).
struct Doubled {
  Tensor x = placeholder({8, 12}, DType::kF32, "x");
  Tensor twice = compute(
      {8, 12}, [&](const auto& i) { return x(i) + x(i); }, "twice");
  Tensor y = compute(
      {8, 12}, [&](const auto& i) { return twice(i) + twice(i); }, "y");
  Schedule schedule{{y}};
  Stage& made = schedule[twice];
  Stage& out = schedule[y];
};

template <typename Primitive>
std::string refusal(const Primitive& primitive) {
  try {
    primitive();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    return error.what();
  }
  return "";
}

TEST(StageLoops, AreTheAxesUntilPrimitivesChangeThem) {
  Doubled d;
  const IterVarPtr i = d.out.axes()[0], j = d.out.axes()[1];
  EXPECT_THAT(d.out.leaves(), ElementsAre(i, j));
  EXPECT_TRUE(d.out.relations().empty());
  const auto [outer, inner] = d.out.split(j, 4);
  EXPECT_THAT(d.out.leaves(), ElementsAre(i, outer, inner));
  d.out.reorder({outer, i});
  EXPECT_THAT(d.out.leaves(), ElementsAre(outer, i, inner));
  const IterVarPtr fused = d.out.fuse(outer, i);
  EXPECT_THAT(d.out.leaves(), ElementsAre(fused, inner));
  ASSERT_EQ(d.out.relations().size(), 2u);
  EXPECT_EQ(d.out.relations()[0].kind, AxisRelation::Kind::kSplit);
  EXPECT_EQ(d.out.relations()[1].kind, AxisRelation::Kind::kFuse);
  EXPECT_THAT(refusal([&] { d.out.unroll(j); }), HasSubstr("unroll of y"));
}

TEST(StageLoops, TakeElementsOfTheirOwnList) {
  Doubled d;
  d.out.split(d.out.leaves()[0], 2);
  d.out.fuse(d.out.leaves()[0], d.out.leaves()[1]);
  EXPECT_EQ(d.out.leaves().size(), 2u);
}

TEST(StageLoops, HaveRoundsWhereTheyAreParallelAlone) {
  Doubled d;
  const IterVarPtr i = d.out.axes()[0], j = d.out.axes()[1];
  EXPECT_TRUE(d.out.kinds().empty());
  EXPECT_EQ(d.out.kinds().of(i.get()), LoopKind::kSerial);
  d.out.parallel(i, 3);
  EXPECT_EQ(d.out.kinds().of(i.get()), LoopKind::kParallel);
  EXPECT_EQ(d.out.kinds().rounds_of(i.get()), 3);
  EXPECT_EQ(d.out.kinds().rounds_of(j.get()), 1);
  d.out.unroll(i);
  EXPECT_EQ(d.out.kinds().of(i.get()), LoopKind::kUnrolled);
  EXPECT_EQ(d.out.kinds().rounds_of(i.get()), 1);
}

TEST(StageAttachment, NamesALoopExactlyWhereThereIsOne) {
  Doubled d;
  const IterVarPtr i = d.out.axes()[0];
  EXPECT_TRUE(d.made.attachment().is_root());
  d.out.parallel(i);
  d.made.compute_once_a_thread(d.out, i);
  EXPECT_TRUE(d.made.attachment().is_at_loop());
  EXPECT_TRUE(d.made.attachment().once_a_thread());
  EXPECT_EQ(d.made.attachment().consumer(), &d.out);
  EXPECT_EQ(d.made.attachment().axis(), i);
  d.made.compute_at(d.out, i);
  EXPECT_TRUE(d.made.attachment().is_at_loop());
  EXPECT_FALSE(d.made.attachment().once_a_thread()) << "attached anew";
  d.made.compute_inline();
  EXPECT_TRUE(d.made.attachment().is_inline());
  EXPECT_EQ(d.made.attachment().consumer(), nullptr);
  EXPECT_EQ(d.made.attachment().axis(), nullptr);
  d.made.compute_root();
  EXPECT_TRUE(d.made.attachment().is_root());
}

TEST(StageAttachment, IsOnceAThreadInParallelLoopsOnly) {
  Doubled d;
  EXPECT_THAT(refusal([&] { d.made.compute_once_a_thread(d.out, d.out.axes()[0]); }),
              HasSubstr("twice is made once a thread"));
  EXPECT_TRUE(d.made.attachment().is_root());
}

TEST(StageInstruction, IsTheOneThatWasAskedForLast) {
  Doubled d;
  EXPECT_EQ(d.out.mma(), nullptr);
  EXPECT_EQ(d.out.tiles(), nullptr);
  const IterVarPtr rows = d.out.split(d.out.axes()[0], 2).first;
  d.out.split(d.out.axes()[1], 2);
  d.out.split(d.out.leaves().back(), 1);
  ASSERT_EQ(d.out.leaves().size(), 5u);
  d.out.tensorize(d.out.leaves()[2], MmaShape::kM16N8K8F16);
  ASSERT_NE(d.out.mma(), nullptr);
  EXPECT_EQ(*d.out.mma(), MmaShape::kM16N8K8F16);
  d.out.tensorize_tiles(rows, TileUnit{});
  EXPECT_EQ(d.out.mma(), nullptr);
  ASSERT_NE(d.out.tiles(), nullptr);
  EXPECT_EQ(*d.out.tiles(), TileUnit{});
}

TEST(StageRegion, EndsWithTheRowsThatAreRead) {
  Doubled d;
  EXPECT_FALSE(d.out.region().rows_end);
  d.out.read_rows_below(Expr(3));
  EXPECT_TRUE(structurally_equal(d.out.region().rows_end, Expr(3)));
  const Tensor line = compute(
      {Expr(8)}, [](const std::vector<Expr>&) { return Expr(1); }, "line");
  Schedule schedule({line});
  EXPECT_THAT(refusal([&] { schedule[line].read_rows_below(Expr(3)); }),
              HasSubstr("read_rows_below of line"));
}

TEST(StageOperation, IsReplacedByCachesAlone) {
  Doubled d;
  const Operation given = d.out.op();
  const Tensor cache = d.schedule.cache_write(d.y, StorageScope::kLocal);
  EXPECT_NE(d.out.op(), given);
  EXPECT_THAT(d.out.leaves(), ElementsAre(d.out.axes()[0], d.out.axes()[1]));
  EXPECT_EQ(d.schedule[cache].memory().scope, StorageScope::kLocal);
  EXPECT_EQ(&d.schedule[d.y], &d.out) << "as first given";
}

}  // namespace
}  // namespace gantry
