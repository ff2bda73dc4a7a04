// Hand-written loop nests, for CPUs and GPUs, against loops written out here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "host/ops/reduce.h"
#include "host/ops/scatter.h"
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
TEST(Cumsum, ScansColumnsThatAreManyAThreadEach) { expect_cumsum(2, 9, 2100); }
TEST(Cumsum, ScansShortRows) { expect_cumsum(5, 7, 1); }

/// What one update makes of an element.
float combined(ScatterReduction reduction, float old, float update) {
  switch (reduction) {
    case ScatterReduction::kNone:
      return update;
    case ScatterReduction::kAdd:
      return old + update;
    case ScatterReduction::kMultiply:
      return old * update;
    case ScatterReduction::kMax:
      return std::max(old, update);
    default:
      return std::min(old, update);
  }
}

constexpr ScatterReduction kReductions[] = {ScatterReduction::kNone, ScatterReduction::kAdd,
                                            ScatterReduction::kMultiply, ScatterReduction::kMax,
                                            ScatterReduction::kMin};

std::vector<int64_t> some_indices(size_t count, int64_t extent) {
  std::vector<int64_t> indices(count);
  for (size_t i = 0; i < count; ++i) indices[i] = static_cast<int64_t>(i * i * 5 + 3 * i) % (2 * extent) - extent;
  return indices;
}

/// Data (rows, columns), indices and updates (few rows, few columns) along axis 1; negative indices and
/// duplicates among them.
void expect_scatter_elements(int64_t rows, int64_t columns, int64_t index_rows, int64_t index_columns) {
  for (ScatterReduction reduction : kReductions) {
    auto attrs = std::make_shared<ScatterAttrs>();
    attrs->axis = 1;
    attrs->reduction = reduction;
    std::vector<float> data = numbers(rows * columns, 3), updates = numbers(index_rows * index_columns, 5);
    std::vector<int64_t> indices = some_indices(updates.size(), columns);
    std::vector<float> expected = data;
    for (int64_t r = 0; r < index_rows; ++r) {
      for (int64_t c = 0; c < index_columns; ++c) {
        auto u = static_cast<size_t>(r * index_columns + c);
        int64_t to = indices[u] < 0 ? indices[u] + columns : indices[u];
        float& element = expected[static_cast<size_t>(r * columns + to)];
        element = combined(reduction, element, updates[u]);
      }
    }
    for (NestOrder order : kOrders) {
      auto y = run_nests("scatter_elements", attrs,
                         {constant_of(DType::kF32, {rows, columns}, data),
                          constant_of(DType::kI64, {index_rows, index_columns}, indices),
                          constant_of(DType::kF32, {index_rows, index_columns}, updates)},
                         order);
      EXPECT_EQ(values_of<float>(y[0]), expected) << int(reduction) << " " << int(order);
    }
  }
}

TEST(ScatterElements, AppliesUpdatesToOneElementInTheirOrder) { expect_scatter_elements(3, 9, 2, 40); }
TEST(ScatterElements, AppliesFewUpdatesToManyRows) { expect_scatter_elements(70, 5, 60, 7); }
TEST(ScatterElements, TakesNoUpdates) { expect_scatter_elements(4, 5, 0, 3); }
TEST(ScatterElements, TouchesNoDataWhereThereIsNone) { expect_scatter_elements(0, 5, 0, 20); }

/// Data (d0, d1, d2), indices (updates, depth).
void expect_scatter_nd(std::array<int64_t, 3> d, int64_t count, size_t depth) {
  int64_t slices = 1, length = 1;
  for (size_t i = 0; i < 3; ++i) (i < depth ? slices : length) *= d[i];
  std::vector<int64_t> places = some_indices(static_cast<size_t>(count), slices), indices;
  for (int64_t& place : places) {
    place = (place + slices) % slices;
    int64_t rest = place;
    std::vector<int64_t> row(depth);
    for (size_t i = depth; i-- > 0; rest /= d[i]) row[i] = rest % d[i];
    indices.insert(indices.end(), row.begin(), row.end());
  }
  for (ScatterReduction reduction : kReductions) {
    auto attrs = std::make_shared<ScatterAttrs>();
    attrs->reduction = reduction;
    std::vector<float> data = numbers(slices * length, 3), updates = numbers(count * length, 5);
    std::vector<float> expected = data;
    for (int64_t u = 0; u < count; ++u) {
      for (int64_t i = 0; i < length; ++i) {
        float& element = expected[static_cast<size_t>(places[static_cast<size_t>(u)] * length + i)];
        element = combined(reduction, element, updates[static_cast<size_t>(u * length + i)]);
      }
    }
    Shape update_shape{count};
    for (size_t i = depth; i < 3; ++i) update_shape.emplace_back(d[i]);
    for (NestOrder order : kOrders) {
      auto y = run_nests("scatter_nd", attrs,
                         {constant_of(DType::kF32, {d[0], d[1], d[2]}, data),
                          constant_of(DType::kI64, {count, static_cast<int64_t>(depth)}, indices),
                          constant_of(DType::kF32, update_shape, updates)},
                         order);
      EXPECT_EQ(values_of<float>(y[0]), expected) << int(reduction) << " " << int(order);
    }
  }
}

TEST(ScatterNd, AppliesUpdatesToOneSliceInTheirOrder) { expect_scatter_nd({4, 3, 5}, 30, 2); }
TEST(ScatterNd, UpdatesSingleElements) { expect_scatter_nd({4, 3, 5}, 50, 3); }
TEST(ScatterNd, UpdatesWideSlices) { expect_scatter_nd({3, 50, 100}, 20, 1); }

}  // namespace
}  // namespace gantry
