// Hand-written loop nests, for CPUs and GPUs, against loops written out here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "host/ops/op.h"
#include "host/ops/recurrent.h"
#include "host/ops/reduce.h"
#include "host/ops/scatter.h"
#include "host/ops/sort.h"
#include "host/support/error.h"
#include "tests/ops/run_nests.h"

namespace gantry {
namespace {

using testing::constant_of;
using testing::NestKind;
using testing::run_nests;
using testing::values_of;

constexpr NestKind kKinds[] = {NestKind::kCpu, NestKind::kGpu};

/// Small integers, so that sums are exact in any order.
std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed) * 13) % 11) - 5;
  return values;
}

/// Powers of two, whose products are exact in any order.
std::vector<float> factors(int64_t count) {
  constexpr float kFactors[] = {2, -1, 0.5, -1};
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = kFactors[i * 7 % 4];
  return values;
}

void expect_scan(const std::string& op, int64_t outer, int64_t extent, int64_t inner) {
  const bool multiplies = op == "cumprod";
  const std::vector<float> x = multiplies ? factors(outer * extent * inner) : numbers(outer * extent * inner, 1);
  for (int variant = 0; variant < 4; ++variant) {
    auto attrs = std::make_shared<CumsumAttrs>();
    attrs->axis = 1;
    attrs->exclusive = (variant & 1) != 0;
    attrs->reverse = (variant & 2) != 0;
    std::vector<float> expected(x.size());
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        float sum = multiplies ? 1 : 0;
        for (int64_t t = 0; t < extent; ++t) {
          auto at = static_cast<size_t>((o * extent + (attrs->reverse ? extent - 1 - t : t)) * inner + i);
          const float next = multiplies ? sum * x[at] : sum + x[at];
          expected[at] = attrs->exclusive ? sum : next;
          sum = next;
        }
      }
    }
    for (NestKind kind : kKinds) {
      auto y = run_nests(op, attrs, {constant_of(DType::kF32, {outer, extent, inner}, x)}, kind);
      EXPECT_EQ(values_of<float>(y[0]), expected) << op << " " << extent << " " << variant << " " << int(kind);
    }
  }
}

void expect_cumsum(int64_t outer, int64_t extent, int64_t inner) {
  expect_scan("cumsum", outer, extent, inner);
}

TEST(Cumprod, ScansRowsAndColumns) {
  expect_scan("cumprod", 3, 2500, 1);
  expect_scan("cumprod", 2, 60, 3);
  expect_scan("cumprod", 7, 30, 20);
  expect_scan("cumprod", 2, 9, 2100);
  expect_scan("cumprod", 5, 7, 1);
}

TEST(Cumsum, ScansRowsInSharedMemoryOverSeveralChunks) {
  expect_cumsum(3, 2500, 1);
}
TEST(Cumsum, ScansColumnsThatAreFew) {
  expect_cumsum(2, 300, 3);
}
TEST(Cumsum, ScansColumnsInVectorsAndTheRestOneByOne) {
  expect_cumsum(1, 30, 37);
  expect_cumsum(7, 30, 20);
}
TEST(Cumsum, ScansColumnsThatAreManyAThreadEach) {
  expect_cumsum(2, 9, 2100);
}
TEST(Cumsum, ScansShortRows) {
  expect_cumsum(5, 7, 1);
}

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
  for (size_t i = 0; i < count; ++i)
    indices[i] = static_cast<int64_t>(i * i * 5 + 3 * i) % (2 * extent) - extent;
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
    for (NestKind kind : kKinds) {
      auto y = run_nests("scatter_elements", attrs,
                         {constant_of(DType::kF32, {rows, columns}, data),
                          constant_of(DType::kI64, {index_rows, index_columns}, indices),
                          constant_of(DType::kF32, {index_rows, index_columns}, updates)},
                         kind);
      EXPECT_EQ(values_of<float>(y[0]), expected) << int(reduction) << " " << int(kind);
    }
  }
}

TEST(ScatterElements, AppliesUpdatesToOneElementInTheirOrder) {
  expect_scatter_elements(3, 9, 2, 40);
}
TEST(ScatterElements, AppliesFewUpdatesToManyRows) {
  expect_scatter_elements(70, 5, 60, 7);
}
TEST(ScatterElements, TakesNoUpdates) {
  expect_scatter_elements(4, 5, 0, 3);
}
TEST(ScatterElements, TouchesNoDataWhereThereIsNone) {
  expect_scatter_elements(0, 5, 0, 20);
}

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
    for (NestKind kind : kKinds) {
      auto y = run_nests("scatter_nd", attrs,
                         {constant_of(DType::kF32, {d[0], d[1], d[2]}, data),
                          constant_of(DType::kI64, {count, static_cast<int64_t>(depth)}, indices),
                          constant_of(DType::kF32, update_shape, updates)},
                         kind);
      EXPECT_EQ(values_of<float>(y[0]), expected) << int(reduction) << " " << int(kind);
    }
  }
}

TEST(ScatterNd, AppliesUpdatesToOneSliceInTheirOrder) {
  expect_scatter_nd({4, 3, 5}, 30, 2);
}
TEST(ScatterNd, UpdatesSingleElements) {
  expect_scatter_nd({4, 3, 5}, 50, 3);
}
TEST(ScatterNd, UpdatesWideSlices) {
  expect_scatter_nd({3, 50, 100}, 20, 1);
}

/// A recurrence with S steps, B sequences, H units on both devices; ONNX's own data check the CPU's nest.
struct RecurrenceCase {
  std::string op;
  RecurrenceAttrs attrs;
  int64_t hidden = 40;
  bool lengths = true, extra = true;  ///< extra: peepholes, or the bias of a GRU
  int64_t directions = 1;
};

/// (D, H, columns) -> (D, H P): the columns [begin, end) of every run in strips, column by column.
ConstantPtr packed_weight(const ConstantPtr& weight, const std::vector<int64_t>& runs, int64_t block) {
  const int64_t d = weight->type.shape[0].value(), hidden = weight->type.shape[1].value(),
                columns = weight->type.shape[2].value();
  const std::vector<float> w = values_of<float>(weight);
  std::vector<float> packed;
  for (int64_t i = 0; i < d; ++i) {
    int64_t begin = 0;
    for (int64_t run : runs) {
      const int64_t padded = (run + 15) / 16 * 16;
      for (int64_t strip = 0; strip < padded; strip += block)
        for (int64_t k = 0; k < hidden; ++k)
          for (int64_t j = strip; j < std::min(strip + block, padded); ++j)
            packed.push_back(j < run ? w[static_cast<size_t>((i * hidden + k) * columns + begin + j)] : 0);
      begin += run;
    }
  }
  return constant_of(DType::kF32, {d, static_cast<int64_t>(packed.size()) / d}, packed);
}

std::vector<ConstantPtr> recurrence_inputs(const RecurrenceCase& c) {
  constexpr int64_t kSteps = 5, kBatch = 3;
  const bool lstm = c.op == "nn.lstm_recurrence", gru = c.op == "nn.gru_recurrence";
  const int64_t gates = lstm ? 4 : gru ? 3 : 1;
  auto values = [](Shape shape, int seed) {
    std::vector<float> v = numbers(element_count(shape).value(), seed);
    for (float& x : v) x *= 0.05f;
    return constant_of(DType::kF32, shape, v);
  };
  const int64_t d = c.directions;
  std::vector<ConstantPtr> inputs{values({kSteps, kBatch, d * gates * c.hidden}, 1),
                                  values({d, c.hidden, gates * c.hidden}, 2),
                                  values({d, kBatch, c.hidden}, 3)};
  if (lstm) inputs.push_back(values({d, kBatch, c.hidden}, 4));
  inputs.push_back(c.lengths ? constant_of<int32_t>(DType::kI32, {kBatch}, {5, 0, 2}) : nullptr);
  if (c.extra && lstm) inputs.push_back(values({d, 3 * c.hidden}, 5));
  if (c.extra && gru) inputs.push_back(values({d, c.hidden}, 6));
  return inputs;
}

void expect_same_on_gpu(const RecurrenceCase& c) {
  const std::vector<ConstantPtr> inputs = recurrence_inputs(c);
  auto attrs = std::make_shared<RecurrenceAttrs>(c.attrs);
  auto expected = run_nests(c.op, attrs, inputs, NestKind::kCpu);
  auto actual = run_nests(c.op, attrs, inputs, NestKind::kGpu);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t r = 0; r < expected.size(); ++r) {
    std::vector<float> a = values_of<float>(actual[r]), e = values_of<float>(expected[r]);
    for (size_t i = 0; i < e.size(); ++i)
      ASSERT_NEAR(a[i], e[i], 1e-5) << c.op << " result " << r << " at " << i;
  }
}

TEST(Recurrences, LstmOnGpuFollowsTheCpu) {
  for (bool reverse : {false, true}) {
    for (bool couple : {false, true}) {
      RecurrenceCase c{"nn.lstm_recurrence", {}};
      c.attrs.reverse = reverse;
      c.attrs.couple_gates = couple;
      c.lengths = c.extra = !couple;
      expect_same_on_gpu(c);
    }
  }
}

TEST(Recurrences, GruOnGpuFollowsTheCpu) {
  for (bool reverse : {false, true}) {
    for (bool linear : {false, true}) {
      RecurrenceCase c{"nn.gru_recurrence", {}};
      c.attrs.reverse = reverse;
      c.attrs.linear_before_reset = linear;
      c.lengths = !reverse || linear;
      c.extra = linear;
      expect_same_on_gpu(c);
    }
  }
}

TEST(Recurrences, BothDirectionsOnGpuFollowTheCpu) {
  for (const char* op : {"nn.lstm_recurrence", "nn.gru_recurrence", "nn.rnn_recurrence"}) {
    RecurrenceCase c{op, {}};
    c.directions = 2;
    c.attrs.linear_before_reset = true;
    expect_same_on_gpu(c);
  }
}

TEST(Recurrences, RnnOnGpuFollowsTheCpuWhateverTheNumberOfUnits) {
  for (int64_t hidden : {1, 7, 32, 70}) {
    RecurrenceCase c{"nn.rnn_recurrence", {}, hidden};
    c.attrs.relu = hidden == 7;
    c.attrs.reverse = hidden == 70;
    expect_same_on_gpu(c);
  }
}

TEST(Recurrences, PackedWeightsGiveTheSameResults) {
  struct Packing {
    const char* op;
    int64_t hidden, block, sequences;
    std::vector<int64_t> runs;
  };
  // Of an LSTM the gates are one product: strips of 80 columns begin in one gate and end in the next. Of the
  // three sequences one is left over where two go together.
  for (const Packing& p :
       {Packing{"nn.lstm_recurrence", 40, 80, 1, {160}}, Packing{"nn.lstm_recurrence", 32, 128, 3, {128}},
        Packing{"nn.lstm_recurrence", 13, 32, 2, {52}}, Packing{"nn.gru_recurrence", 64, 64, 2, {128, 64}},
        Packing{"nn.gru_recurrence", 96, 48, 1, {192, 96}}, Packing{"nn.gru_recurrence", 20, 32, 2, {40, 20}},
        Packing{"nn.gru_recurrence", 5, 16, 4, {10, 5}}, Packing{"nn.rnn_recurrence", 64, 32, 3, {64}},
        Packing{"nn.rnn_recurrence", 37, 32, 2, {37}}}) {
    for (int64_t directions : {1, 2}) {
      for (bool linear : {false, true}) {
        for (bool lengths : {false, true}) {
          RecurrenceCase c{p.op, {}, p.hidden, lengths};
          c.directions = directions;
          c.attrs.linear_before_reset = linear;
          c.attrs.reverse = directions == 1 && linear;
          std::vector<ConstantPtr> inputs = recurrence_inputs(c);
          auto attrs = std::make_shared<RecurrenceAttrs>(c.attrs);
          const auto expected = run_nests(p.op, attrs, inputs, NestKind::kCpu);
          attrs = std::make_shared<RecurrenceAttrs>(c.attrs);
          attrs->form.weight_block = p.block;
          attrs->form.sequences = p.sequences;
          inputs[1] = packed_weight(inputs[1], p.runs, p.block);
          const auto actual = run_nests(p.op, attrs, inputs, NestKind::kCpu);
          for (size_t r = 0; r < expected.size(); ++r)
            EXPECT_EQ(values_of<float>(actual[r]), values_of<float>(expected[r]))
                << p.op << ", " << p.hidden << " units, strips of " << p.block << ", result " << r;
        }
      }
    }
  }
}

TEST(Recurrences, WeightsArePackedInStripsOfTheRuns) {
  Node gru;
  gru.op = &op_set().get(nn::gru_recurrence);
  const std::vector<int64_t> runs = recurrent_runs(gru, 20);
  EXPECT_EQ(runs, (std::vector<int64_t>{40, 20}));
  const ConstantPtr weight = recurrence_inputs({"nn.gru_recurrence", {}, 20, true, true, 2})[1];
  for (int64_t block : {16, 32, 48}) {
    const ConstantPtr packed = packed_recurrent_weight(*weight, runs, block);
    EXPECT_EQ(values_of<float>(packed), values_of<float>(packed_weight(weight, runs, block))) << block;
  }
}

/// Every row sorted by std::stable_sort.
template <typename T>
void expect_topk(DType dtype, std::array<int64_t, 3> d, int64_t k, const std::vector<T>& x,
                 const std::vector<NestKind>& kinds = {std::begin(kKinds), std::end(kKinds)}) {
  for (bool largest : {true, false}) {
    auto attrs = std::make_shared<TopKAttrs>();
    attrs->axis = 1;
    attrs->k = k;
    attrs->largest = largest;
    auto greater = [](T a, T b) { return a > b || (a != a && b == b); };  // NaN above all
    std::vector<T> values(static_cast<size_t>(d[0] * k * d[2]));
    std::vector<int64_t> positions(values.size());
    for (int64_t row = 0; row < d[0] * d[2]; ++row) {
      auto at = [&](int64_t t, int64_t n) {
        return static_cast<size_t>((row / d[2] * n + t) * d[2] + row % d[2]);
      };
      std::vector<int64_t> order(static_cast<size_t>(d[1]));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        T u = x[at(a, d[1])], v = x[at(b, d[1])];
        return largest ? greater(u, v) : greater(v, u);
      });
      for (int64_t t = 0; t < k; ++t) {
        positions[at(t, k)] = order[static_cast<size_t>(t)];
        values[at(t, k)] = x[at(positions[at(t, k)], d[1])];
      }
    }
    for (NestKind kind : kinds) {
      auto y = run_nests("topk", attrs, {constant_of(dtype, {d[0], d[1], d[2]}, x)}, kind);
      EXPECT_EQ(values_of<int64_t>(y[1]), positions) << largest << " " << int(kind);
      std::vector<T> actual = values_of<T>(y[0]);
      ASSERT_EQ(actual.size(), values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(actual[i] == values[i] || (actual[i] != actual[i] && values[i] != values[i])) << i;
      }
    }
  }
}

TEST(TopK, TakesTheLowerPositionOfEqualElements) {
  for (int64_t k : {0, 1, 2, 5, 33, 100}) {
    expect_topk(DType::kF32, {2, 100, 3}, k, numbers(600, 1));
    expect_topk(DType::kF32, {6, 100, 1}, k, numbers(600, 1));
  }
}

TEST(TopK, OrdersNanAboveEveryNumber) {
  std::vector<float> x = numbers(40, 1);
  x[3] = x[17] = x[39] = std::nanf("");
  x[5] = x[30] = std::numeric_limits<float>::infinity();
  x[6] = x[31] = -std::numeric_limits<float>::infinity();
  expect_topk(DType::kF32, {2, 20, 1}, 20, x);
  std::vector<float> many = numbers(400, 2);
  for (size_t i : {5, 25, 90, 120, 121, 250, 399}) many[i] = std::nanf("");
  for (int64_t k : {3, 9}) expect_topk(DType::kF32, {2, 200, 1}, k, many);
  std::vector<float> none(100, std::nanf(""));
  none[60] = 1;
  expect_topk(DType::kF32, {1, 100, 1}, 5, none);
}

TEST(TopK, SortsIntegersWithTheirExtremes) {
  std::vector<int64_t> x{3, std::numeric_limits<int64_t>::min(), 7, std::numeric_limits<int64_t>::max(), 7,
                         0, std::numeric_limits<int64_t>::min()};
  expect_topk(DType::kI64, {1, 7, 1}, 7, x);
  expect_topk(DType::kU8, {1, 5, 1}, 3, std::vector<uint8_t>{255, 0, 128, 255, 1});
}

TEST(TopK, TakesRowsOfOneElement) {
  expect_topk(DType::kF32, {4, 1, 2}, 1, numbers(8, 1));
}

std::vector<double> doubles(int64_t count) {
  const std::vector<float> x = numbers(count, 1);
  return {x.begin(), x.end()};
}

TEST(TopK, SelectsFromRowsThatAreLongerThanSharedMemory) {
  expect_topk(DType::kF64, {1, 4100, 1}, 10, doubles(4100), {NestKind::kCpu, NestKind::kGpu});
}

TEST(TopK, SortsLongRowsByANetworkInMemory) {
  expect_topk(DType::kF64, {1, 2100, 1}, 2100, doubles(2100), {NestKind::kGpu});
}

TEST(TopK, HasNestsForGpusIfTheNumberOfElementsOrASmallKIsKnown) {
  auto kernels = [](const Dim& extent, const Dim& k) {
    TopKLoops loops;
    loops.extent = extent;
    loops.k = min(extent, k);
    loops.k_limit = k.constant();
    return loops.has_launches();
  };
  EXPECT_TRUE(kernels(100000, 100000));
  EXPECT_TRUE(kernels(Dim::symbol("N"), 1000));
  EXPECT_FALSE(kernels(Dim::symbol("N"), 10000));
  EXPECT_FALSE(kernels(Dim::symbol("N"), Dim::symbol("K")));
}

TEST(TopK, ReturnsFewerWhereTheAxisMayBeShorterThanK) {
  Function f;
  auto attrs = std::make_shared<TopKAttrs>();
  attrs->k = 5;
  auto shape_of = [&](const Dim& extent) {
    Value* x = f.add_parameter("x", {DType::kF32, {extent}});
    return infer_and_add(f, op_set().get(op::topk), attrs, {x}, {"node"})->result(1)->type.str();
  };
  EXPECT_EQ(shape_of(7), "Tensor[(5), i64]");
  EXPECT_EQ(shape_of(Dim::symbol("N") + 5), "Tensor[(5), i64]");
  EXPECT_EQ(shape_of(Dim::symbol("N")), "Tensor[(min(5, N)), i64]");
  EXPECT_THROW(shape_of(4), Error);
}

/// Matrices of small integers with a larger element in each row, off the diagonal where there is another
/// place.
std::vector<float> invertible(int64_t count, int64_t size) {
  std::vector<float> x = numbers(count * size * size, 3);
  for (int64_t m = 0; m < count; ++m) {
    for (int64_t row = 0; row < size; ++row)
      x[static_cast<size_t>((m * size + row) * size + (row + m + 1) % size)] += static_cast<float>(8 * size);
  }
  return x;
}

TEST(Inverse, TimesTheMatrixIsTheIdentity) {
  for (const auto& [count, size] : {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {2, 5}, {2, 17}}) {
    const std::vector<float> x = invertible(count, size);
    for (NestKind kind : kKinds) {
      const auto y = values_of<float>(run_nests("linalg.inverse", std::make_shared<NoAttrs>(),
                                                {constant_of(DType::kF32, {count, size, size}, x)}, kind)[0]);
      for (int64_t i = 0; i < count * size * size; ++i) {
        const int64_t matrix = i / (size * size), row = i / size % size, column = i % size;
        double sum = 0;
        for (int64_t k = 0; k < size; ++k)
          sum += double(x[static_cast<size_t>((matrix * size + row) * size + k)]) *
                 double(y[static_cast<size_t>((matrix * size + k) * size + column)]);
        EXPECT_NEAR(sum, row == column ? 1 : 0, 1e-5) << size << " at " << i << " of kind " << int(kind);
      }
    }
  }
}

}  // namespace
}  // namespace gantry
