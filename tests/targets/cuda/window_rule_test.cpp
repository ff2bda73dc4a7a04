// Poolings, depthwise convolutions, elementwise stages and transpositions.
#include "host/ops/conv.h"
#include "host/ops/pool.h"
#include "tests/targets/cuda/one_op.h"

namespace gantry {
namespace {

using test::attrs_of;
using test::run_op;

std::shared_ptr<PoolAttrs> pool_attrs(int64_t kernel, int64_t stride, int64_t pad, bool last) {
  return attrs_of<PoolAttrs>([&](auto& a) {
    a.kernel = {kernel, kernel};
    a.strides = {stride, stride};
    a.dilations = {1, 1};
    a.padding = {pad, pad, pad, pad};
    a.channels_last = last;
  });
}

TEST(WindowRule, PoolsImagesInEitherLayout) {
  const std::vector<int64_t> shapes[] = {{2, 13, 11, 5}, {1, 8, 8, 64}, {3, 7, 7, 3}};
  for (const auto& shape : shapes) {
    for (bool last : {true, false}) {
      for (const char* op : {"nn.max_pool", "nn.avg_pool"}) {
        SCOPED_TRACE(testing::Message() << op << " of " << testing::PrintToString(shape) << " last " << last);
        run_op(op, pool_attrs(3, 2, 1, last), {shape});
        run_op(op, pool_attrs(3, 1, 1, last), {shape}, 1e-5, test::small_gpu());
      }
    }
  }
}

TEST(WindowRule, ConvolvesDepthwise) {
  for (const auto& [size, channels, stride] : {std::array<int64_t, 3>{9, 7, 1}, {28, 96, 2}}) {
    SCOPED_TRACE(testing::Message() << size << "x" << size << "x" << channels << " stride " << stride);
    auto attrs = attrs_of<ConvAttrs>([&, c = channels, s = stride](auto& a) {
      a.channels = a.groups = c;
      a.kernel = {3, 3};
      a.strides = {s, s};
      a.dilations = {1, 1};
      a.padding = {1, 1, 1, 1};
      a.channels_last = a.form.depthwise_packed = true;
    });
    run_op("nn.conv", attrs, {{1, size, size, channels}, {3, 3, channels}});
    run_op("nn.conv", attrs, {{1, size, size, channels}, {3, 3, channels}}, 1e-5, test::small_gpu());
  }
}

TEST(ElementwiseRule, MapsElementsOfAnyCount) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {1}, {7}, {3, 5}, {64, 513}, {2, 1, 64}}) {
    SCOPED_TRACE(testing::PrintToString(shape));
    run_op("nn.relu", std::make_shared<NoAttrs>(), {shape});
    run_op("add", std::make_shared<NoAttrs>(), {shape, shape});
    run_op("add", std::make_shared<NoAttrs>(), {shape, shape}, 1e-5, test::small_gpu());
  }
  run_op("add", std::make_shared<NoAttrs>(), {{4, 30, 60}, {60}}, 1e-5, test::small_gpu());
  run_op("add", std::make_shared<NoAttrs>(), {{4, 130, 260}, {260}});
  run_op("multiply", std::make_shared<NoAttrs>(), {{3, 1, 5}, {1, 70, 1}});
}

TEST(ElementwiseRule, TransposesThroughSharedMemory) {
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> cases[] = {
      {{65, 33}, {1, 0}},           {{2, 3, 40, 50}, {0, 2, 3, 1}}, {{2, 40, 50, 64}, {0, 3, 1, 2}},
      {{1, 17, 100, 5}, {3, 2, 1, 0}}, {{2, 64, 12, 32}, {0, 2, 1, 3}}, {{16, 16, 16}, {2, 1, 0}}};
  for (const auto& [shape, axes] : cases) {
    SCOPED_TRACE(testing::PrintToString(shape));
    auto done = run_op("transpose", attrs_of<TransposeAttrs>([&](auto& a) { a.axes = axes; }), {shape}, 0);
    EXPECT_EQ(done.plan.launches.size(), 1u);
  }
}

TEST(WinogradRule, ConvolvesInThreeLaunches) {
  for (auto [algorithm, tile] : {std::pair{ConvAlgorithm::kWinograd2, 2}, {ConvAlgorithm::kWinograd4, 4}}) {
    for (const auto& [size, in, out] : {std::array<int64_t, 3>{7, 5, 9}}) {
      SCOPED_TRACE(testing::Message() << "F(" << tile << ") of " << size << "x" << size << "x" << in);
      auto attrs = attrs_of<ConvAttrs>([&, channels = out, a_ = algorithm](auto& a) {
        a.channels = channels;
        a.kernel = {3, 3};
        a.strides = a.dilations = {1, 1};
        a.padding = {1, 1, 1, 1};
        a.channels_last = true;
        a.form.algorithm = a_;
      });
      int64_t t = tile + 2;
      auto done = run_op("nn.conv", attrs, {{2, size, size + 1, in}, {t * t, in, out}}, 5e-5);
      EXPECT_LE(done.plan.launches.size(), 4u);
      EXPECT_GE(done.plan.launches.size(), 3u);
    }
  }
}

TEST(GemmRule, ConvolvesByImplicitProducts) {
  struct Case {
    int64_t height, width, in, out, kernel, stride, pad, groups;
  };
  for (const Case& c : {Case{9, 8, 3, 17, 3, 1, 1, 1}, {8, 8, 16, 32, 1, 1, 0, 1}, {15, 11, 8, 12, 3, 2, 1, 4},
                        {9, 12, 4, 20, 7, 2, 3, 1}}) {
    SCOPED_TRACE(testing::Message() << c.height << "x" << c.width << "x" << c.in << " -> " << c.out << " kernel "
                                    << c.kernel << " groups " << c.groups);
    auto attrs = attrs_of<ConvAttrs>([&](auto& a) {
      a.channels = c.out;
      a.groups = c.groups;
      a.kernel = {c.kernel, c.kernel};
      a.strides = {c.stride, c.stride};
      a.dilations = {1, 1};
      a.padding = {c.pad, c.pad, c.pad, c.pad};
      a.channels_last = true;
      a.form.algorithm = ConvAlgorithm::kGemm;
    });
    std::vector<int64_t> weight{c.kernel * c.kernel * c.in / c.groups, c.out / c.groups};
    if (c.groups > 1) weight.insert(weight.begin(), c.groups);
    run_op("nn.conv", attrs, {{2, c.height, c.width, c.in}, weight}, 2e-5);
  }
}

}  // namespace
}  // namespace gantry
