// Hand-written loop nests, for CPUs and GPUs, against loops written out here.
#include <gtest/gtest.h>

#include "host/ops/reduce.h"
#include "tests/ops/run_nests.h"

namespace gantry {
namespace {

using testing::constant_of;
using testing::NestOrder;
using testing::run_nests;
using testing::values_of;

constexpr NestOrder kOrders[] = {NestOrder::kCpu, NestOrder::kGpu, NestOrder::kGpuReversed};

/// Small integers, so that sums are exact in any order.
std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed) * 13) % 11) - 5;
  return values;
}

void expect_cumsum(int64_t outer, int64_t extent, int64_t inner) {
  std::vector<float> x = numbers(outer * extent * inner, 1);
  for (int variant = 0; variant < 4; ++variant) {
    auto attrs = std::make_shared<CumsumAttrs>();
    attrs->axis = 1;
    attrs->exclusive = (variant & 1) != 0;
    attrs->reverse = (variant & 2) != 0;
    std::vector<float> expected(x.size());
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        float sum = 0;
        for (int64_t t = 0; t < extent; ++t) {
          auto at = static_cast<size_t>((o * extent + (attrs->reverse ? extent - 1 - t : t)) * inner + i);
          expected[at] = attrs->exclusive ? sum : sum + x[at];
          sum += x[at];
        }
      }
    }
    for (NestOrder order : kOrders) {
      auto y = run_nests("cumsum", attrs, {constant_of(DType::kF32, {outer, extent, inner}, x)}, order);
      EXPECT_EQ(values_of<float>(y[0]), expected) << extent << " " << variant << " " << int(order);
    }
  }
}

TEST(Cumsum, ScansRowsInSharedMemoryOverSeveralChunks) { expect_cumsum(3, 2500, 1); }
TEST(Cumsum, ScansColumnsThatAreFew) { expect_cumsum(2, 300, 3); }
TEST(Cumsum, ScansColumnsThatAreManyAThreadEach) { expect_cumsum(2, 40, 2100); }
TEST(Cumsum, ScansShortRows) { expect_cumsum(5, 7, 1); }

}  // namespace
}  // namespace gantry
