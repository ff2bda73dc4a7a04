#include "host/ops/reduce.h"

#include "host/ops/norm.h"
#include "tests/targets/cuda/one_op.h"

namespace gantry {
namespace {

using test::attrs_of;
using test::GpuRun;
using test::run_op;

TEST(RowRule, TakesSoftmaxOfAnyAxisInOneLaunch) {
  const std::pair<std::vector<int64_t>, int64_t> cases[] = {
      {{1, 1000}, 1}, {{3, 7}, 1}, {{2, 3, 5, 37}, 3}, {{600, 33}, 1}, {{2, 21, 5, 4}, 1}, {{1, 1}, 1}, {{2, 4097}, 1}};
  for (const auto& [shape, axis] : cases) {
    for (const char* op : {"nn.softmax", "nn.log_softmax"}) {
      SCOPED_TRACE(testing::Message() << op << " along " << axis << " of " << testing::PrintToString(shape));
      GpuRun done = run_op(op, attrs_of<SoftmaxAttrs>([&](auto& a) { a.axis = axis; }), {shape});
      EXPECT_EQ(done.plan.launches.size(), 1u);
    }
  }
}

TEST(RowRule, NormalisesLayersInOneLaunch) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{5, 768}, {1, 17}, {130, 64}, {3, 1}, {2, 5000}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
    GpuRun done = run_op("nn.layer_norm", attrs_of<LayerNormAttrs>([&](auto& a) { a.axis = 1; }),
                      {{rows, width}, {width}, {width}});
    EXPECT_EQ(done.plan.launches.size(), 1u);
  }
}

TEST(RowRule, NormalisesInstancesInOneLaunchInEitherLayout) {
  const std::vector<int64_t> shapes[] = {{2, 9, 11, 32}, {1, 7, 5, 3}, {1, 1, 1, 40}, {2, 14, 14, 17}};
  for (const auto& shape : shapes) {
    SCOPED_TRACE(testing::PrintToString(shape));
    for (bool last : {true, false}) {
      int64_t channels = last ? shape[3] : shape[1];
      GpuRun done = run_op("nn.instance_norm", attrs_of<GroupNormAttrs>([&](auto& a) { a.channels_last = last; }),
                        {shape, {channels}, {channels}});
      EXPECT_EQ(done.plan.launches.size(), 1u);
    }
  }
}

TEST(RowRule, NormalisesGroups) {
  for (bool last : {true, false}) {
    run_op("nn.group_norm", attrs_of<GroupNormAttrs>([&](auto& a) {
          a.channels_last = last;
          a.groups = 4;
        }),
        {last ? std::vector<int64_t>{2, 5, 7, 12} : std::vector<int64_t>{2, 12, 5, 7}, {12}, {12}});
  }
}

TEST(RowRule, ReducesAnyAxes) {
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> cases[] = {
      {{2, 7, 7, 64}, {1, 2}}, {{5, 1000}, {1}}, {{1000, 5}, {0}},   {{3, 5, 7}, {0, 1, 2}},
      {{100000}, {0}},         {{1, 90, 70, 8}, {1, 2}}, {{4, 1, 1}, {0}}, {{3, 4, 5, 6}, {0, 2}}};
  for (const auto& [shape, axes] : cases) {
    for (const char* op : {"sum", "mean", "max"}) {
      for (bool keep : {true, false}) {
        SCOPED_TRACE(testing::Message() << op << " over " << testing::PrintToString(axes) << " of "
                                        << testing::PrintToString(shape) << " keep " << keep);
        run_op(op, attrs_of<ReduceAttrs>([&](auto& a) {
              a.axes = axes;
              a.keepdims = keep;
            }),
            {shape}, 2e-5);
      }
    }
  }
}

TEST(RowRule, NormalisesVectors) {
  for (int64_t axis : {1, 2}) {
    run_op("nn.lp_normalize", attrs_of<LpNormAttrs>([&](auto& a) { a.axis = axis; }), {{2, 65, 9}});
  }
}

}  // namespace
}  // namespace gantry
