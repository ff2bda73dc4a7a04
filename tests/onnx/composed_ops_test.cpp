// Ops that converters compose of others and that ONNX's data do not cover, against float64 loops after their
// definitions.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

constexpr const char* kMicrosoft = "domain: 'com.microsoft' ";
using Values = std::vector<double>;

/// f32 as given, so that references see what the model sees.
std::string constants(const std::string& name, const Given& given) {
  std::string text =
      fmt::format("initializer {{ name: '{}' data_type: {} ", name, given.dtype == DType::kF32 ? 1 : 7);
  for (int64_t d : given.shape) text += fmt::format("dims: {} ", d);
  for (double v : given.values)
    text += given.dtype == DType::kF32 ? fmt::format("float_data: {} ", v)
                                       : fmt::format("int64_data: {} ", static_cast<int64_t>(v));
  return text + "} ";
}

// --- Fourier transforms

Values naive_transform(const Values& x, bool complex, double sign) {
  const size_t n = x.size() / (complex ? 2 : 1);
  Values result;
  for (size_t k = 0; k < n; ++k) {
    std::complex<double> total = 0;
    for (size_t j = 0; j < n; ++j) {
      const double angle =
          sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
      const std::complex<double> value = complex ? std::complex(x[2 * j], x[2 * j + 1]) : x[j];
      total += value * std::polar(1.0, angle);
    }
    result.push_back(total.real());
    result.push_back(total.imag());
  }
  return result;
}

TEST(Fourier, LengthsThatArePrimeOrProductsGiveTheSum) {
  for (int64_t n : {1, 2, 5, 32, 37, 64, 90, 210}) {
    for (int64_t parts : {1, 2}) {
      SCOPED_TRACE(fmt::format("length {} parts {}", n, parts));
      const Inputs inputs{{"x", random({1, n, parts}, 7)}};
      const auto y = results(parse(node("DFT", "x", "y"), inputs, "y", kNewest), inputs)[0];
      expect_near(y, naive_transform(inputs[0].second.values, parts == 2, -1), 2e-4);
    }
  }
}

TEST(Fourier, TheInverseOfATransformIsTheSignal) {
  for (int64_t n : {4, 7, 66}) {
    for (bool half : {false, true}) {
      SCOPED_TRACE(fmt::format("length {} onesided {}", n, half));
      const Inputs inputs{{"x", random({1, n, 1}, 3)}};
      const std::string one = integer("onesided", half ? 1 : 0);
      const std::string nodes = constants("n", {{}, {static_cast<double>(n)}, DType::kI64}) +
                                node("DFT", "x", "y", one) +
                                node("DFT", "y n", "z", one + integer("inverse", 1));
      Values z = results(parse(nodes, inputs, "z", kNewest), inputs)[0];
      if (!half) {  // complex: the imaginary parts are 0
        for (size_t i = 0; i < z.size() / 2; ++i) {
          EXPECT_NEAR(z[2 * i + 1], 0, 1e-5);
          z[i] = z[2 * i];
        }
        z.resize(static_cast<size_t>(n));
      }
      expect_near(z, inputs[0].second.values, 1e-5);
    }
  }
}

// --- determinants

double cofactors(const Values& m, size_t n) {
  if (n == 1) return m[0];
  double total = 0;
  for (size_t column = 0; column < n; ++column) {
    Values rest;
    for (size_t i = n; i < n * n; ++i) {
      if (i % n != column) rest.push_back(m[i]);
    }
    total += (column % 2 == 0 ? 1 : -1) * m[column] * cofactors(rest, n - 1);
  }
  return total;
}

TEST(Det, IsTheSumOfCofactors) {
  for (int64_t n : {1, 2, 3, 5}) {
    Given given = random({2, n, n}, 11);
    given.values[0] = 0;  // a pivot that has to be found elsewhere
    const Inputs inputs{{"x", given}};
    const auto size = static_cast<size_t>(n * n);
    const Values first(given.values.begin(), given.values.begin() + static_cast<std::ptrdiff_t>(size));
    const Values second(given.values.begin() + static_cast<std::ptrdiff_t>(size), given.values.end());
    expect_near(results(parse(node("Det", "x", "y"), inputs, "y", kNewest), inputs)[0],
                {cofactors(first, static_cast<size_t>(n)), cofactors(second, static_cast<size_t>(n))}, 1e-4);
  }
}

TEST(Det, OfASingularMatrixIsZero) {
  const Inputs inputs{{"x", {{3, 3}, {1, 2, 3, 2, 4, 6, 0, 1, 1}}}};
  expect_near(results(parse(node("Det", "x", "y"), inputs, "y", kNewest), inputs)[0], {0}, 1e-6);
}

// --- regions of interest

/// Whether all constraints hold for these sizes.
bool takes(const Graph& graph, const std::map<std::string, int64_t>& sizes) {
  return std::ranges::all_of(graph.main.constraints, [&](const DimConstraint& c) {
    return c.left.evaluate(sizes) == c.right.evaluate(sizes);
  });
}

TEST(RoiAlign, NeedsDataWhereThereIsARegion) {
  const Graph graph = imported_graph(open_input("x", "N 2 H W") + open_input("r", "M 4") +
                                         open_input("i", "M", 7) + node("RoiAlign", "x r i", "y"),
                                     "y");
  EXPECT_TRUE(takes(graph, {{"N", 1}, {"H", 1}, {"W", 1}, {"M", 3}}));
  EXPECT_TRUE(takes(graph, {{"N", 0}, {"H", 4}, {"W", 4}, {"M", 0}}));
  for (const char* empty : {"N", "H", "W"}) {
    std::map<std::string, int64_t> sizes{{"N", 4}, {"H", 4}, {"W", 4}, {"M", 3}};
    sizes[empty] = 0;
    EXPECT_FALSE(takes(graph, sizes)) << empty;
  }
}

/// Whether of the sizes 1 to 7 of K the graph, whose text has inputs and nodes, takes that one alone; N and M
/// are 3.
bool takes_only(const std::string& text, int64_t size) {
  const Graph graph = imported_graph(text, "y");
  for (int64_t k = 1; k <= 7; ++k) {
    if (takes(graph, {{"N", 3}, {"M", 3}, {"K", k}}) != (k == size)) return false;
  }
  return true;
}

TEST(OpenAxes, OfRegionsBoxesAndPositionsHaveAsManyNumbersAsTheseAreOf) {
  const std::string image = open_input("x", "N 2 8 8"), regions = open_input("r", "M K");
  const std::string images = open_input("i", "M", 7), grid = open_input("g", "N M M K");
  const std::string boxes = open_input("b", "N M K") + open_input("s", "N 2 M");
  const std::string pooled = attribute("pooled_shape", "type: INTS ints: [2, 3]");
  EXPECT_TRUE(takes_only(image + regions + images + node("RoiAlign", "x r i", "y"), 4));
  EXPECT_TRUE(takes_only(image + regions + node("MaxRoiPool", "x r", "y", pooled), 5));
  EXPECT_TRUE(takes_only(image + grid + node("GridSample", "x g", "y"), 2));
  EXPECT_TRUE(takes_only(boxes + node("NonMaxSuppression", "b s", "y"), 4));
}

TEST(OpenAxes, OfDataThatAreCutIntoPartsHaveThoseAlone) {
  const std::string pairs = open_input("a", "N K") + open_input("b", "N 2");
  for (const char* op : {"ComplexMul", "ComplexMulConj"})
    EXPECT_TRUE(takes_only(pairs + node(op, "a b", "y", kMicrosoft), 2)) << op;
  const std::string images = "initializer { name: 's' data_type: 7 dims: 4 int64_data: [3, 2, 4, 5] } ";
  EXPECT_TRUE(takes_only(open_input("t", "N 2 K") + images + node("AffineGrid", "t s", "y"), 3));
  EXPECT_TRUE(takes_only(open_input("t", "N K 3") + images + node("AffineGrid", "t s", "y"), 2));
  const std::string boxes = open_input("x", "N 2 8 8") + open_input("b", "M K") + open_input("i", "M", 6);
  const std::string crops = "initializer { name: 's' data_type: 6 dims: 2 int32_data: [2, 3] } ";
  EXPECT_TRUE(takes_only(boxes + crops + node("CropAndResize", "x b i s", "y", kMicrosoft), 4));
}

TEST(RestorePadding, HasNoMoreTokensThanPlaces) {
  const Graph graph = imported_graph(open_input("x", "K 2") + open_input("p", "M 4", 6) +
                                         node("RestorePadding", "x p", "y", kMicrosoft),
                                     "y");
  for (const int64_t k : {0, 1, 11, 12, 13}) EXPECT_EQ(takes(graph, {{"M", 3}, {"K", k}}), k <= 12) << k;
}

TEST(RoiAlign, NeedsNothingOfDataOfKnownSizes) {
  const Graph graph = imported_graph(open_input("x", "1 2 8 8") + open_input("r", "M 4") +
                                         open_input("i", "M", 7) + node("RoiAlign", "x r i", "y"),
                                     "y");
  EXPECT_TRUE(graph.main.constraints.empty());
}

TEST(MaxRoiPool, NeedsAnImageWhereThereIsARegion) {
  const Graph graph =
      imported_graph(open_input("x", "N 2 H 8") + open_input("r", "M 5") +
                         node("MaxRoiPool", "x r", "y", attribute("pooled_shape", "type: INTS ints: [2, 3]")),
                     "y");
  EXPECT_TRUE(takes(graph, {{"N", 1}, {"H", 0}, {"M", 3}}));
  EXPECT_TRUE(takes(graph, {{"N", 0}, {"H", 4}, {"M", 0}}));
  EXPECT_FALSE(takes(graph, {{"N", 0}, {"H", 4}, {"M", 3}}));
}

TEST(GridSample, NeedsDataWhereThereIsAPosition) {
  const Graph graph = imported_graph(
      open_input("x", "N 2 H W") + open_input("g", "N P Q 2") + node("GridSample", "x g", "y"), "y");
  EXPECT_TRUE(takes(graph, {{"N", 1}, {"H", 1}, {"W", 1}, {"P", 3}, {"Q", 3}}));
  EXPECT_TRUE(takes(graph, {{"N", 1}, {"H", 0}, {"W", 4}, {"P", 0}, {"Q", 3}}));
  for (const char* empty : {"H", "W"}) {
    std::map<std::string, int64_t> sizes{{"N", 1}, {"H", 4}, {"W", 4}, {"P", 3}, {"Q", 3}};
    sizes[empty] = 0;
    EXPECT_FALSE(takes(graph, sizes)) << empty;
  }
}

TEST(Resize, NeedsAnElementForASizeThatIsGiven) {
  const std::string sizes = constants("sizes", {{4}, {1, 2, 5, 8}, DType::kI64});
  const Graph graph =
      imported_graph(open_input("x", "1 2 H 8") + sizes + node("Resize", "x - - sizes", "y"), "y");
  EXPECT_TRUE(takes(graph, {{"H", 1}}));
  EXPECT_FALSE(takes(graph, {{"H", 0}}));
}

/// x (1, 2, H, 8), changed by those nodes to `z`, resized to the shape of `of`.
Graph resized_to_shape(const std::string& nodes, const std::string& of, const std::string& inputs = "") {
  return imported_graph(open_input("x", "1 2 H 8") + inputs + nodes + node("Shape", of, "sizes") +
                            node("Resize", "z - - sizes", "y"),
                        "y");
}

TEST(Resize, NeedsAnElementForASizeOfAnotherTensor) {
  const Graph other = resized_to_shape(node("Identity", "x", "z"), "l", open_input("l", "1 2 L 8"));
  EXPECT_TRUE(takes(other, {{"H", 1}, {"L", 5}}));
  EXPECT_TRUE(takes(other, {{"H", 0}, {"L", 0}}));
  EXPECT_FALSE(takes(other, {{"H", 0}, {"L", 3}}));
  const std::string scales = constants("scales", {{4}, {1, 1, 0.5, 1}});
  const Graph half = resized_to_shape(scales + node("Resize", "x - scales", "z"), "x");
  EXPECT_TRUE(takes(half, {{"H", 0}}) && takes(half, {{"H", 2}}));
  EXPECT_FALSE(takes(half, {{"H", 1}}));
}

TEST(Resize, NeedsNothingMoreWhereASizeMeansThatThereAreElements) {
  const std::string scales = constants("scales", {{4}, {1, 1, 2, 1}});
  EXPECT_TRUE(resized_to_shape(scales + node("Resize", "x - scales", "z"), "x").main.constraints.empty());
  const std::string pairs =
      attribute("kernel_shape", "type: INTS ints: [2, 1]") + attribute("strides", "type: INTS ints: [2, 1]");
  const Graph pooled = resized_to_shape(node("MaxPool", "x", "z", pairs), "x");
  ASSERT_EQ(pooled.main.constraints.size(), 1U) << "that the window fits";
  EXPECT_TRUE(takes(pooled, {{"H", 2}}) && !takes(pooled, {{"H", 1}}));
}

TEST(MaxRoiPool, TakesTheLargestElementOfEachPartOfARegion) {
  const Given data = random({2, 3, 6, 8}, 5);
  // Image, x1, y1, x2, y2; the last one reaches outside, where there is nothing.
  const Values regions{1, 0, 0, 7, 5, 0, 3, 2, 4, 4, 1, 6, 4, 13, 9};
  const Inputs inputs{{"x", data}, {"r", {{3, 5}, regions}}};
  const auto actual =
      results(parse(node("MaxRoiPool", "x r", "y", attribute("pooled_shape", "type: INTS ints: [2, 3]")),
                    inputs, "y", kNewest),
              inputs)[0];
  Values expected;
  for (size_t r = 0; r < 3; ++r) {
    const double* at = &regions[r * 5];
    for (size_t c = 0; c < 3; ++c) {
      for (int64_t py = 0; py < 2; ++py) {
        for (int64_t px = 0; px < 3; ++px) {
          const double height = at[4] - at[2] + 1, width = at[3] - at[1] + 1;
          double top = -1e30;
          for (int64_t y = 0; y < 6; ++y) {
            for (int64_t x = 0; x < 8; ++x) {
              const bool inside =
                  static_cast<double>(y) >= std::floor(static_cast<double>(py) * height / 2) + at[2] &&
                  static_cast<double>(y) < std::ceil(static_cast<double>(py + 1) * height / 2) + at[2] &&
                  static_cast<double>(x) >= std::floor(static_cast<double>(px) * width / 3) + at[1] &&
                  static_cast<double>(x) < std::ceil(static_cast<double>(px + 1) * width / 3) + at[1];
              const auto image = static_cast<size_t>(at[0]);
              const double v =
                  data.values[((image * 3 + c) * 6 + static_cast<size_t>(y)) * 8 + static_cast<size_t>(x)];
              if (inside) top = std::max(top, v);
            }
          }
          expected.push_back(top == -1e30 ? 0 : top);
        }
      }
    }
  }
  expect_near(actual, expected, 0);
}

// By hand: from -0.5 to 3.5 are columns -1 to 4, so that a part has three, of which the first one is outside.
TEST(MaxRoiPool, RoundsHalvesAwayFromZero) {
  Given data{{1, 1, 8, 8}, {}};
  for (int64_t i = 0; i < 64; ++i) data.values.push_back(static_cast<double>(i % 8));
  const Inputs inputs{{"x", data}, {"r", {{1, 5}, {0, -1, 0, 7, 0}}}};
  const std::string attributes =
      attribute("pooled_shape", "type: INTS ints: [1, 2]") + attribute("spatial_scale", "type: FLOAT f: 0.5");
  const std::string pool = node("MaxRoiPool", "x r", "y", attributes);
  expect_near(results(parse(pool, inputs, "y", kNewest), inputs)[0], {1, 4}, 0);
}

// --- attention of com.microsoft

/// One query's result over keys, all of one head, and over one of score `sink` without a value.
Values attended(const double* query, const std::vector<const double*>& keys,
                const std::vector<const double*>& values, size_t size, double scale, double sink = -1e30) {
  Values weights;
  double top = -1e30, total = 0;
  for (const double* key : keys) {
    double score = 0;
    for (size_t d = 0; d < size; ++d) score += query[d] * key[d];
    weights.push_back(score * scale);
    top = std::max(top, weights.back());
  }
  Values result(size, 0);
  total = std::exp(sink - top);
  for (double& w : weights) total += w = std::exp(w - top);
  for (size_t k = 0; k < keys.size(); ++k) {
    for (size_t d = 0; d < size; ++d) result[d] += weights[k] / total * values[k][d];
  }
  return result;
}

TEST(GroupQueryAttention, ASequenceAttendsWhatItHasAndTheWindowLeaves) {
  constexpr size_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kSize = 4, kPast = 5;
  const Given query = random({kBatch, 1, kHeads * kSize}, 1), key = random({kBatch, 1, kKeyHeads * kSize}, 2);
  const Given value = random({kBatch, 1, kKeyHeads * kSize}, 3);
  const Given past_key = random({kBatch, kKeyHeads, kPast, kSize}, 4);
  const Given past_value = random({kBatch, kKeyHeads, kPast, kSize}, 5);
  const Values lengths{5, 3};  // with the new one, less one: 5 and 3 before it
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}, {"pk", past_key}, {"pv", past_value}};
  for (int64_t window : {-1, 3}) {
    const std::string nodes =
        "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [5, 3] } "
        "initializer { name: 'total' data_type: 6 int32_data: 6 } " +
        node("GroupQueryAttention", "q k v pk pv lengths total", "y",
             kMicrosoft + integer("num_heads", kHeads) + integer("kv_num_heads", kKeyHeads) +
                 integer("local_window_size", window));
    const auto actual = results(parse(nodes, inputs, "y", kNewest), inputs)[0];
    Values expected;
    for (size_t b = 0; b < kBatch; ++b) {
      const auto before = static_cast<size_t>(lengths[b]);
      const size_t first = window > 0 ? before + 1 - static_cast<size_t>(window) : 0;
      for (size_t h = 0; h < kHeads; ++h) {
        const size_t g = h / (kHeads / kKeyHeads);
        std::vector<const double*> keys, values;
        for (size_t j = first; j < before; ++j) {
          keys.push_back(&past_key.values[((b * kKeyHeads + g) * kPast + j) * kSize]);
          values.push_back(&past_value.values[((b * kKeyHeads + g) * kPast + j) * kSize]);
        }
        keys.push_back(&key.values[(b * kKeyHeads + g) * kSize]);
        values.push_back(&value.values[(b * kKeyHeads + g) * kSize]);
        const Values row = attended(&query.values[(b * kHeads + h) * kSize], keys, values, kSize, 0.5);
        expected.insert(expected.end(), row.begin(), row.end());
      }
    }
    expect_near(actual, expected, 1e-5);
  }
}

TEST(GroupQueryAttention, ASequenceOfABatchMayBeShorterThanItsQueriesBeforeThereIsACache) {
  constexpr size_t kBatch = 2, kLength = 3, kSize = 4;
  const Given query = random({kBatch, kLength, kSize}, 1), key = random({kBatch, kLength, kSize}, 2);
  const Given value = random({kBatch, kLength, kSize}, 3);
  const Given none{{kBatch, 1, 0, kSize}, {}};  // declared with a 0, which is any size
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}, {"pk", none}, {"pv", none}};
  const size_t lengths[] = {2, 3};
  const std::string nodes =
      "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [1, 2] } "
      "initializer { name: 'total' data_type: 6 int32_data: 3 } " +
      node("GroupQueryAttention", "q k v pk pv lengths total", "y",
           kMicrosoft + integer("num_heads", 1) + integer("kv_num_heads", 1));
  const auto actual = results(parse(nodes, inputs, "y", kNewest), inputs)[0];
  ASSERT_EQ(actual.size(), query.values.size());
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<const double*> keys, values;
    for (size_t i = 0; i < lengths[b]; ++i) {
      const size_t row = (b * kLength + i) * kSize;
      keys.push_back(&key.values[row]);
      values.push_back(&value.values[row]);
      expect_near({&actual[row], &actual[row] + kSize},
                  attended(&query.values[row], keys, values, kSize, 0.5), 1e-5);
    }
  }
}

TEST(GroupQueryAttention, WithoutACausalMaskASequenceAttendsAllThatItHas) {
  constexpr size_t kBatch = 2, kLength = 3, kSize = 4;
  const Given query = random({kBatch, kLength, kSize}, 1), key = random({kBatch, kLength, kSize}, 2);
  const Given value = random({kBatch, kLength, kSize}, 3);
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}};
  const size_t lengths[] = {2, 3};
  const std::string given =
      "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [1, 2] } "
      "initializer { name: 'total' data_type: 6 int32_data: 3 } ";
  const std::string attributes =
      kMicrosoft + integer("num_heads", 1) + integer("kv_num_heads", 1) + integer("causal", 0);
  const std::string nodes = given + node("GroupQueryAttention", "q k v - - lengths total", "y", attributes);
  Values expected;
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<const double*> keys, values;
    for (size_t i = 0; i < lengths[b]; ++i) {
      keys.push_back(&key.values[(b * kLength + i) * kSize]);
      values.push_back(&value.values[(b * kLength + i) * kSize]);
    }
    for (size_t i = 0; i < kLength; ++i) {
      const Values row = attended(&query.values[(b * kLength + i) * kSize], keys, values, kSize, 0.5);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-5);
  const std::string windowed = given + node("GroupQueryAttention", "q k v - - lengths total", "y",
                                            attributes + integer("local_window_size", 2));
  EXPECT_THROW(results(parse(windowed, inputs, "y", kNewest), inputs), Error);
}

TEST(GroupQueryAttention, AChunkOfQueriesMayEndBeforeItsPadding) {
  constexpr size_t kBatch = 2, kLength = 2, kSize = 4, kPast = 4;
  const Given query = random({kBatch, kLength, kSize}, 1), key = random({kBatch, kLength, kSize}, 2);
  const Given value = random({kBatch, kLength, kSize}, 3);
  const Given past_key = random({kBatch, 1, kPast, kSize}, 4),
              past_value = random({kBatch, 1, kPast, kSize}, 5);
  const Inputs inputs{{"q", query},     {"k", key},         {"v", value},
                      {"pk", past_key}, {"pv", past_value}, {"counts", {{kBatch}, {2, 1}, DType::kI32}}};
  const size_t counts[] = {2, 1}, before[] = {3, 2};
  const std::string nodes =
      "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [4, 2] } "
      "initializer { name: 'total' data_type: 6 int32_data: 6 } " +
      node("GroupQueryAttention", "q k v pk pv lengths total - - - - - - - - - counts", "y cache",
           kMicrosoft + integer("num_heads", 1) + integer("kv_num_heads", 1));
  const auto actual = results(parse(nodes, inputs, "y cache", kNewest), inputs);
  ASSERT_EQ(actual[0].size(), query.values.size());
  ASSERT_EQ(actual[1].size(), kBatch * (kPast + kLength) * kSize);
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<const double*> keys, values;
    for (size_t i = 0; i < before[b]; ++i) {
      keys.push_back(&past_key.values[(b * kPast + i) * kSize]);
      values.push_back(&past_value.values[(b * kPast + i) * kSize]);
    }
    for (size_t i = 0; i < counts[b]; ++i) {
      const size_t row = (b * kLength + i) * kSize;
      keys.push_back(&key.values[row]);
      values.push_back(&value.values[row]);
      expect_near({&actual[0][row], &actual[0][row] + kSize},
                  attended(&query.values[row], keys, values, kSize, 0.5), 1e-5);
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const double* row = &actual[1][(b * (kPast + kLength) + i) * kSize];
      expect_near({row, row + kSize}, {keys[i], keys[i] + kSize}, 0);
    }
  }
}

TEST(MicrosoftAttention, AMaskOfTwoNumbersASequenceSaysWhereItsKeysEndAndBegin) {
  constexpr size_t kBatch = 2, kLength = 4, kSize = 4;
  const Given data = random({kBatch, kLength, kSize}, 1);
  const size_t ends[] = {3, 4}, begins[] = {1, 0};
  const Inputs inputs{{"x", data}, {"m", {{2 * kBatch}, {3, 4, 1, 0}, DType::kI32}}};
  std::string weight =
      "initializer { name: 'w' dims: 4 dims: 12 data_type: 1 ";  // query, key and value are x
  for (size_t i = 0; i < kSize * 3 * kSize; ++i)
    weight += fmt::format("float_data: {} ", i / 12 == i % 4 ? 1 : 0);
  const auto actual =
      results(parse(weight + "} " + node("Attention", "x w - m", "y", kMicrosoft + integer("num_heads", 1)),
                    inputs, "y", kNewest),
              inputs)[0];
  Values expected;
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<const double*> keys;
    for (size_t j = begins[b]; j < ends[b]; ++j) keys.push_back(&data.values[(b * kLength + j) * kSize]);
    for (size_t i = 0; i < kLength; ++i) {
      const Values row = attended(&data.values[(b * kLength + i) * kSize], keys, keys, kSize, 0.5);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  expect_near(actual, expected, 1e-5);
}

TEST(MicrosoftAttention, OfACacheThatItsResultIsWrittenIntoIsToldByName) {
  const auto cached = [](int64_t shares) {
    const Inputs inputs{
        {"x", random({1, 2, 4}, 1)}, {"w", random({4, 12}, 2)}, {"p", random({2, 1, 1, 3, 4}, 3)}};
    const std::string attributes =
        kMicrosoft + integer("num_heads", 1) + integer("past_present_share_buffer", shares);
    return results(parse(node("Attention", "x w - - p", "y z", attributes), inputs, "y z", kNewest), inputs);
  };
  EXPECT_EQ(cached(0)[1].size(), 2u * (3 + 2) * 4);
  try {
    cached(1);
    FAIL() << "the cache is taken for one that grows";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("past_present_share_buffer"));
  }
}

TEST(MultiHeadAttention, KeysThatTheMaskLeavesOutHaveNoWeight) {
  constexpr size_t kLength = 3, kKeys = 4, kHeads = 2, kSize = 4;
  const Given query = random({1, kLength, kHeads * kSize}, 1), key = random({1, kKeys, kHeads * kSize}, 2);
  const Given value = random({1, kKeys, kHeads * kSize}, 3);
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}, {"m", {{1, kKeys}, {1, 1, 0, 1}, DType::kI32}}};
  const std::string nodes =
      node("MultiHeadAttention", "q k v - m", "y", kMicrosoft + integer("num_heads", kHeads));
  const auto actual = results(parse(nodes, inputs, "y", kNewest), inputs)[0];
  Values expected;
  for (size_t i = 0; i < kLength; ++i) {
    for (size_t h = 0; h < kHeads; ++h) {
      std::vector<const double*> keys, values;
      for (size_t j : {size_t{0}, size_t{1}, size_t{3}}) {
        keys.push_back(&key.values[(j * kHeads + h) * kSize]);
        values.push_back(&value.values[(j * kHeads + h) * kSize]);
      }
      const Values row = attended(&query.values[(i * kHeads + h) * kSize], keys, values, kSize, 0.5);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  expect_near(actual, expected, 1e-5);
}

TEST(MultiHeadAttention, UnpacksQueryKeyAndValue) {
  constexpr size_t kLength = 3, kHeads = 2, kSize = 4;
  const Given packed = random({1, kLength, kHeads, 3, kSize}, 1);
  // (head, part) of a row.
  const auto row_of = [&](size_t i, size_t h, size_t part) {
    return &packed.values[((i * kHeads + h) * 3 + part) * kSize];
  };
  Given query{{1, kLength, kHeads * kSize}, {}}, rest{{1, kLength, kHeads, 2, kSize}, {}};
  Values expected;
  for (size_t i = 0; i < kLength; ++i) {
    for (size_t h = 0; h < kHeads; ++h) {
      std::vector<const double*> keys, values;
      for (size_t j = 0; j < kLength; ++j) {
        keys.push_back(row_of(j, h, 1));
        values.push_back(row_of(j, h, 2));
      }
      const Values row = attended(row_of(i, h, 0), keys, values, kSize, 0.5);
      expected.insert(expected.end(), row.begin(), row.end());
      query.values.insert(query.values.end(), row_of(i, h, 0), row_of(i, h, 1));
      rest.values.insert(rest.values.end(), row_of(i, h, 1), row_of(i, h, 1) + 2 * kSize);
    }
  }
  const std::string heads = kMicrosoft + integer("num_heads", kHeads);
  const Inputs one{{"q", packed}}, two{{"q", query}, {"k", rest}};
  expect_near(results(parse(node("MultiHeadAttention", "q", "y", heads), one, "y", kNewest), one)[0],
              expected, 1e-5);
  expect_near(results(parse(node("MultiHeadAttention", "q k", "y", heads), two, "y", kNewest), two)[0],
              expected, 1e-5);
}

TEST(GroupQueryAttention, ASinkTakesItsPartOfTheWeights) {
  constexpr size_t kHeads = 2, kSize = 4, kLength = 3;
  const Given query = random({1, kLength, kHeads * kSize}, 1), key = random({1, kLength, kSize}, 2);
  const Given value = random({1, kLength, kSize}, 3);
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}};
  const double sinks[] = {0.5, -1.5};
  for (const bool given : {true, false}) {
    Values expected;
    for (size_t i = 0; i < kLength; ++i) {
      for (size_t h = 0; h < kHeads; ++h) {
        std::vector<const double*> keys, values;
        for (size_t j = 0; j <= i; ++j) {
          keys.push_back(&key.values[j * kSize]);
          values.push_back(&value.values[j * kSize]);
        }
        const double* row = &query.values[(i * kHeads + h) * kSize];
        const Values result = attended(row, keys, values, kSize, 0.5, given ? sinks[h] : 0);
        expected.insert(expected.end(), result.begin(), result.end());
      }
    }
    const std::string nodes =
        "initializer { name: 'lengths' dims: 1 data_type: 6 int32_data: [2] } "
        "initializer { name: 'total' data_type: 6 int32_data: 3 } "
        "initializer { name: 'sinks' dims: 2 data_type: 1 float_data: [0.5, -1.5] } " +
        node("GroupQueryAttention",
             given ? "q k v - - lengths total - - - - sinks" : "q k v - - lengths total", "y",
             kMicrosoft + integer("num_heads", kHeads) + integer("kv_num_heads", 1) +
                 integer("smooth_softmax", 1));
    expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-5);
  }
}

TEST(GroupQueryAttention, ScoresAndWeightsAreOnnxRuntimes) {
  const Inputs inputs{{"q", random({2, 1, 16}, 1)},    {"k", random({2, 1, 8}, 2)},
                      {"v", random({2, 1, 8}, 3)},     {"pk", random({2, 1, 3, 8}, 4)},
                      {"pv", random({2, 1, 3, 8}, 5)}, {"bias", random({1, 1, 1, 4}, 6)}};
  const auto of_mode = [&](int64_t mode) {
    const std::string nodes =
        "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [3, 1] } "
        "initializer { name: 'total' data_type: 6 int32_data: 4 } "
        "initializer { name: 'sinks' dims: 2 data_type: 1 float_data: [0.5, -1] } " +
        node("GroupQueryAttention", "q k v pk pv lengths total - - - bias sinks", "y pk2 pv2 qk",
             kMicrosoft + integer("num_heads", 2) + integer("kv_num_heads", 1) + integer("qk_output", mode) +
                 attribute("softcap", "type: FLOAT f: 2"));
    return results(parse(nodes, inputs, "qk", kNewest), inputs)[0];
  };
  // What ONNX Runtime 1.32 computes.
  expect_near(
      of_mode(1),
      {-0.9416743, 0.89570415, 0.71289766, -1.8841236, -2.864051, 0.8957797, 1.6709838, -0.18025208,  //
       -0.82193124, 0.41132727, 0, 0, -0.53755146, 0.63724554, 0, 0},
      1e-5);
  expect_near(
      of_mode(2),
      {0.05838279, 0.36664703, 0.30539107, 0.02275016, 0.00631878, 0.2713358, 0.58907956, 0.0925108,  //
       0.12220376, 0.41945168, 0, 0, 0.20545585, 0.6651604, 0, 0},
      1e-5);
  try {
    of_mode(0);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("its qk_output should be 1 or 2, not 0"));
  }
}

/// A head's features with a mean square of 1, weighted, and turned by `angle`, as their halves are a complex
/// number each.
Values normalised_and_turned(const double* x, const Values& weights, double epsilon, double angle) {
  const size_t size = weights.size(), half = size / 2;
  double power = 0;
  for (size_t i = 0; i < size; ++i) power += x[i] * x[i] / static_cast<double>(size);
  Values y(size);
  for (size_t i = 0; i < half; ++i) {
    const double root = std::sqrt(power + epsilon);
    const std::complex<double> pair(x[i] / root * weights[i], x[half + i] / root * weights[half + i]);
    const std::complex<double> turned = pair * std::polar(1.0, angle * static_cast<double>(i + 1));
    y[i] = turned.real();
    y[half + i] = turned.imag();
  }
  return y;
}

TEST(GroupQueryAttention, QueriesAndKeysAreNormalisedBeforeTheyTurn) {
  constexpr size_t kHeads = 2, kSize = 4, kLength = 3, kWidth = (kHeads + 2) * kSize;
  const Given packed = random({1, kLength, kWidth}, 1);
  const Values query_weights{0.5, -1, 2, 1.5}, key_weights{1, 3, -0.5, 0.25};
  Given cosines{{kLength, kSize / 2}, {}}, sines = cosines;
  for (size_t i = 0; i < kLength; ++i) {
    for (size_t pair = 1; pair <= kSize / 2; ++pair) {
      cosines.values.push_back(std::cos(0.3 * static_cast<double>(i * pair)));
      sines.values.push_back(std::sin(0.3 * static_cast<double>(i * pair)));
    }
  }
  const Inputs inputs{{"x", packed}, {"c", cosines}, {"s", sines}};
  const std::string constant =
      "initializer { name: 'lengths' dims: 1 data_type: 6 int32_data: [2] } "
      "initializer { name: 'total' data_type: 6 int32_data: 3 } " +
      constants("qw", {{kSize}, query_weights}) + constants("kw", {{kSize}, key_weights});
  const std::string heads =
      kMicrosoft + integer("num_heads", kHeads) + integer("kv_num_heads", 1) + integer("do_rotary", 1);
  const auto with = [&](const std::string& norms, const std::string& attributes) {
    return results(
        parse(constant + node("GroupQueryAttention", "x - - - - lengths total c s - - - - - " + norms,
                              "y present", heads + attributes),
              inputs, "y present", kNewest),
        inputs);
  };
  struct Case {
    std::string attributes;
    double query_epsilon, key_epsilon;
  };
  const std::string common = attribute("qk_norm_epsilon", "type: FLOAT f: 0.25"),
                    own = attribute("k_norm_epsilon", "type: FLOAT f: 2");
  for (const Case& c : {Case{"", 1e-6, 1e-6}, Case{common, 0.25, 0.25}, Case{common + own, 0.25, 2}}) {
    SCOPED_TRACE(c.attributes);
    Values expected, present;
    std::vector<Values> kept;
    std::vector<const double*> values;
    for (size_t i = 0; i < kLength; ++i) {
      const double *row = &packed.values[i * kWidth], angle = 0.3 * static_cast<double>(i);
      kept.push_back(normalised_and_turned(row + kHeads * kSize, key_weights, c.key_epsilon, angle));
      present.insert(present.end(), kept.back().begin(), kept.back().end());
      values.push_back(row + (kHeads + 1) * kSize);
      std::vector<const double*> keys;
      for (const Values& key : kept) keys.push_back(key.data());
      for (size_t h = 0; h < kHeads; ++h) {
        const Values query = normalised_and_turned(row + h * kSize, query_weights, c.query_epsilon, angle);
        const Values result = attended(query.data(), keys, values, kSize, 0.5);
        expected.insert(expected.end(), result.begin(), result.end());
      }
    }
    const auto actual = with("qw kw", c.attributes);
    expect_near(actual[0], expected, 1e-5);
    expect_near(actual[1], present, 1e-5);
  }
  for (const auto& [norms, message] : {std::pair("qw -", "has q_norm_weight but not k_norm_weight"),
                                       std::pair("qw total", "its weights () of a norm")}) {
    try {
      with(norms, "");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(message));
    }
  }
}

// --- distances of com.microsoft

TEST(CDist, IsOfEveryPairOfRows) {
  constexpr size_t kFirst = 4, kSecond = 3, kSize = 5;
  const Inputs inputs{{"a", random({kFirst, kSize}, 1)}, {"b", random({kSecond, kSize}, 2)}};
  for (const std::string metric : {"sqeuclidean", "euclidean"}) {
    Values expected;
    for (size_t i = 0; i < kFirst; ++i) {
      for (size_t j = 0; j < kSecond; ++j) {
        double squares = 0;
        for (size_t d = 0; d < kSize; ++d)
          squares +=
              std::pow(inputs[0].second.values[i * kSize + d] - inputs[1].second.values[j * kSize + d], 2);
        expected.push_back(metric == "euclidean" ? std::sqrt(squares) : squares);
      }
    }
    const std::string rest = attribute("metric", fmt::format("type: STRING s: '{}'", metric));
    expect_near(results(parse(node("CDist", "a b", "y", kMicrosoft + rest), inputs, "y", kNewest), inputs)[0],
                expected, 1e-4);
  }
}

// --- slices of com.microsoft

TEST(UnfoldTensor, ElementsOfSlicesAreTheLastAxis) {
  constexpr size_t kBefore = 2, kLength = 7, kBehind = 3;
  const Inputs inputs{{"x", random({kBefore, kLength, kBehind}, 1)}};
  for (const auto& [size, step] : {std::pair<size_t, size_t>{3, 2}, {2, 1}, {2, 4}, {7, 1}}) {
    Values expected;
    for (size_t i = 0; i < kBefore; ++i)
      for (size_t first = 0; first + size <= kLength; first += step)
        for (size_t j = 0; j < kBehind; ++j)
          for (size_t at = first; at < first + size; ++at)
            expected.push_back(inputs[0].second.values[(i * kLength + at) * kBehind + j]);
    const std::string rest = integer("dim", -2) + integer("size", static_cast<int64_t>(size)) +
                             integer("step", static_cast<int64_t>(step));
    const std::string nodes = node("UnfoldTensor", "x", "y", kMicrosoft + rest);
    expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 0);
  }
}

// --- normalisations of com.microsoft

TEST(SkipLayerNormalization, NormalisesTheSumAndGivesIt) {
  const Given x = random({2, 8}, 1), skip = random({2, 8}, 2), gamma = random({8}, 3), beta = random({8}, 4);
  const Given bias = random({8}, 5);
  const Inputs inputs{{"x", x}, {"s", skip}, {"g", gamma}, {"b", beta}, {"c", bias}};
  const std::string nodes = node("SkipLayerNormalization", "x s g b c", "y - - t",
                                 kMicrosoft + attribute("epsilon", "type: FLOAT f: 0.5"));
  // An output without a name is one that nobody asks for.
  onnx::ModelProto proto = parse(nodes, inputs, "y t", kNewest);
  const auto actual = results(proto, inputs);
  Values expected, sums;
  for (size_t row = 0; row < 2; ++row) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < 8; ++i) {
      sums.push_back(x.values[row * 8 + i] + skip.values[row * 8 + i] + bias.values[i]);
      mean += sums.back() / 8;
    }
    for (size_t i = 0; i < 8; ++i) variance += std::pow(sums[row * 8 + i] - mean, 2) / 8;
    for (size_t i = 0; i < 8; ++i)
      expected.push_back((sums[row * 8 + i] - mean) / std::sqrt(variance + 0.5) * gamma.values[i] +
                         beta.values[i]);
  }
  expect_near(actual[0], expected, 1e-5);
  expect_near(actual[1], sums, 1e-6);
}

}  // namespace
}  // namespace gantry
