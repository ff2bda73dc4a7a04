// Ops of com.microsoft that stand for several others, against float64 loops after their definitions.
#include <gmock/gmock.h>

#include <cmath>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

constexpr const char* kMicrosoft = "domain: 'com.microsoft' ";
using Values = std::vector<double>;

std::string text(const std::string& name, const std::string& value) {
  return attribute(name, fmt::format("type: STRING s: '{}'", value));
}
std::string floats(const std::string& name, const Values& values) {
  return attribute(name, fmt::format("type: FLOATS floats: [{}]", fmt::join(values, ", ")));
}
std::string number(const std::string& name, double value) {
  return attribute(name, fmt::format("type: FLOAT f: {}", value));
}
std::string initializer(const std::string& name, int type, const std::vector<int64_t>& dims,
                        const Values& values) {
  return fmt::format("initializer {{ name: '{}' data_type: {} {} {}: [{}] }} ", name, type,
                     dims.empty() ? "" : fmt::format("dims: [{}]", fmt::join(dims, ", ")),
                     type == 1 ? "float_data" : "int32_data", fmt::join(values, ", "));
}

struct Activation {
  std::string name;
  Values params;
  double (*apply)(double);
};
const Activation kActivations[] = {
    {"Relu", {}, [](double x) { return std::max(x, 0.0); }},
    {"Sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"Tanh", {}, [](double x) { return std::tanh(x); }},
    {"LeakyRelu", {0.25}, [](double x) { return x < 0 ? 0.25 * x : x; }},
    {"Selu", {1.5, 0, 1.25}, [](double x) { return 1.25 * (x > 0 ? x : 1.5 * (std::exp(x) - 1)); }},
    {"ScaledTanh", {0.5, 0.75}, [](double x) { return 0.5 * std::tanh(0.75 * x); }},
    {"HardSigmoid", {0.25, 0.625}, [](double x) { return std::min(1.0, std::max(0.0, 0.25 * x + 0.625)); }},
};

std::string named_params(const Activation& activation) {
  constexpr const char* kNames[] = {"activation_alpha", "activation_beta", "activation_gamma"};
  std::string text;
  for (size_t i = 0; i < activation.params.size(); ++i) text += number(kNames[i], activation.params[i]);
  return text;
}

/// A convolution of (1, 2, 4, 4) with (3, 2, 3, 3), without padding.
double convolution(const Values& x, const Values& w, size_t channel, size_t row, size_t column) {
  double total = 0;
  for (size_t c = 0; c < 2; ++c)
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 3; ++j)
        total += x[c * 16 + (row + i) * 4 + column + j] * w[((channel * 2 + c) * 3 + i) * 3 + j];
  return total;
}

TEST(FusedConv, AddsBiasAndSumBeforeTheActivation) {
  const Inputs inputs{{"x", random({1, 2, 4, 4}, 1)},
                      {"w", random({3, 2, 3, 3}, 2)},
                      {"b", random({3}, 3)},
                      {"z", random({1, 3, 2, 2}, 4)}};
  for (const Activation& activation : kActivations) {
    SCOPED_TRACE(activation.name);
    Values expected;
    for (size_t at = 0; at < 12; ++at) {
      const double sum =
          convolution(inputs[0].second.values, inputs[1].second.values, at / 4, at % 4 / 2, at % 2) +
          inputs[2].second.values[at / 4] + inputs[3].second.values[at];
      expected.push_back(activation.apply(sum));
    }
    std::string attributes = kMicrosoft + text("activation", activation.name);
    if (!activation.params.empty()) attributes += floats("activation_params", activation.params);
    const auto y =
        results(parse(node("FusedConv", "x w b z", "y", attributes), inputs, "y", kNewest), inputs)[0];
    expect_near(y, expected, 1e-4);
  }
}

TEST(FusedGemm, AppliesTheActivationToTheScaledProduct) {
  const Inputs inputs{{"a", random({2, 3}, 5)}, {"b", random({4, 3}, 6)}, {"c", random({4}, 7)}};
  for (const Activation& activation : kActivations) {
    SCOPED_TRACE(activation.name);
    Values expected;
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < 4; ++j) {
        double total = 0;
        for (size_t k = 0; k < 3; ++k)
          total += inputs[0].second.values[i * 3 + k] * inputs[1].second.values[j * 3 + k];
        expected.push_back(activation.apply(0.5 * total + 2 * inputs[2].second.values[j]));
      }
    }
    std::string attributes = kMicrosoft + integer("transB", 1) + number("alpha", 0.5) + number("beta", 2) +
                             text("activation", activation.name);
    attributes += named_params(activation);
    const auto y =
        results(parse(node("FusedGemm", "a b c", "y", attributes), inputs, "y", kNewest), inputs)[0];
    expect_near(y, expected, 1e-4);
  }
}

/// (1, C, 4) as (1, 4, C), or back where the counts are the other way round.
Values exchanged(const Values& x, size_t rows, size_t columns) {
  Values result;
  for (size_t j = 0; j < columns; ++j)
    for (size_t i = 0; i < rows; ++i) result.push_back(x[i * columns + j]);
  return result;
}

TEST(NhwcFusedConv, IsFusedConvOfDataWithTheirChannelsLast) {
  const Inputs first{{"x", random({1, 2, 4, 4}, 1)},
                     {"w", random({3, 2, 3, 3}, 2)},
                     {"b", random({3}, 3)},
                     {"z", random({1, 3, 2, 2}, 4)}};
  const Inputs last{{"x", {{1, 4, 4, 2}, exchanged(first[0].second.values, 2, 16)}},
                    first[1],
                    first[2],
                    {"z", {{1, 2, 2, 3}, exchanged(first[3].second.values, 3, 4)}}};
  Values expected;
  for (size_t at = 0; at < 12; ++at) {
    const double sum =
        convolution(first[0].second.values, first[1].second.values, at / 4, at % 4 / 2, at % 2) +
        first[2].second.values[at / 4] + first[3].second.values[at];
    expected.push_back(sum < 0 ? 0.25 * sum : sum);
  }
  const std::string attributes =
      kMicrosoft + text("activation", "LeakyRelu") + floats("activation_params", {0.25});
  const auto model = parse(node("NhwcFusedConv", "x w b z", "y", attributes), last, "y", kNewest);
  expect_near(results(model, last)[0], exchanged(expected, 3, 4), 1e-4);
}

/// Row i of a (rows, 3) times column j of b (3, 4).
double product(const Values& a, const Values& b, size_t i, size_t j) {
  double total = 0;
  for (size_t k = 0; k < 3; ++k) total += a[i * 3 + k] * b[k * 4 + j];
  return total;
}

TEST(FusedMatMulActivation, AppliesTheActivationToTheScaledProduct) {
  const Inputs inputs{{"a", random({2, 3}, 5)}, {"b", random({3, 4}, 6)}};
  for (const Activation& activation : kActivations) {
    SCOPED_TRACE(activation.name);
    Values expected;
    for (size_t at = 0; at < 8; ++at)
      expected.push_back(
          activation.apply(0.5 * product(inputs[0].second.values, inputs[1].second.values, at / 4, at % 4)));
    const std::string attributes =
        kMicrosoft + number("alpha", 0.5) + text("activation", activation.name) + named_params(activation);
    const auto model = parse(node("FusedMatMulActivation", "a b", "y", attributes), inputs, "y", kNewest);
    expect_near(results(model, inputs)[0], expected, 1e-4);
  }
}

TEST(GemmFastGelu, AddsTheBiasBeforeTheActivation) {
  const Inputs inputs{{"a", random({2, 3}, 5)}, {"b", random({3, 4}, 6)}, {"c", random({4}, 7)}};
  Values expected;
  for (size_t at = 0; at < 8; ++at) {
    const double x = product(inputs[0].second.values, inputs[1].second.values, at / 4, at % 4) +
                     inputs[2].second.values[at % 4];
    expected.push_back(0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
  }
  const auto model = parse(node("GemmFastGelu", "a b c", "y", kMicrosoft), inputs, "y", kNewest);
  expect_near(results(model, inputs)[0], expected, 1e-4);
}

TEST(FusedMatMul, MayHaveItsBatchBehindItsRows) {
  // a (rows, batch, depth) or, with transA, (depth, batch, rows); b (depth, batch, columns) or (columns,
  // batch, depth).
  constexpr size_t kBatch = 2, kRows = 3, kDepth = 4, kColumns = 5;
  for (const bool transposed : {false, true}) {
    const Given a = transposed ? random({kDepth, kBatch, kRows}, 1) : random({kRows, kBatch, kDepth}, 1);
    const Given b =
        transposed ? random({kColumns, kBatch, kDepth}, 2) : random({kDepth, kBatch, kColumns}, 2);
    Values expected;
    for (size_t at = 0; at < kBatch; ++at) {
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t j = 0; j < kColumns; ++j) {
          double total = 0;
          for (size_t k = 0; k < kDepth; ++k)
            total +=
                transposed
                    ? a.values[(k * kBatch + at) * kRows + i] * b.values[(j * kBatch + at) * kDepth + k]
                    : a.values[(i * kBatch + at) * kDepth + k] * b.values[(k * kBatch + at) * kColumns + j];
          expected.push_back(0.5 * total);
        }
      }
    }
    const Inputs inputs{{"a", a}, {"b", b}};
    const std::string attributes = kMicrosoft + integer("transBatchA", 1) + integer("transBatchB", 1) +
                                   integer("transA", transposed ? 1 : 0) +
                                   integer("transB", transposed ? 1 : 0) + number("alpha", 0.5);
    expect_near(results(parse(node("FusedMatMul", "a b", "y", attributes), inputs, "y", kNewest), inputs)[0],
                expected, 1e-4);
  }
}

TEST(FusedConv, WithAnActivationThatIsUnknownIsRefused) {
  const Inputs inputs{{"x", random({1, 2, 4, 4}, 1)}, {"w", random({3, 2, 3, 3}, 2)}};
  const auto model =
      parse(node("FusedConv", "x w", "y", kMicrosoft + text("activation", "Wave")), inputs, "y", kNewest);
  EXPECT_THROW(results(model, inputs), Error);
}

TEST(EmbedLayerNormalization, CountsTheWordsWhoseMaskIsOne) {
  const Inputs inputs{{"ids", {{2, 3}, {1, 0, 1, 0, 1, 1}, DType::kI32}},
                      {"mask", {{2, 3}, {1, 0, 1, 2, 1, -1}, DType::kI32}}};
  const std::string tables = initializer("words", 1, {2, 2}, {1, 2, 4, 8}) +
                             initializer("positions", 1, {3, 2}, {1, 2, 3, 4, 5, 6}) +
                             initializer("gamma", 1, {2}, {1, 1}) + initializer("beta", 1, {2}, {0, 0});
  const auto model =
      parse(tables + node("EmbedLayerNormalization", "ids - words positions - gamma beta mask", "y counts", kMicrosoft),
            inputs, "counts", kNewest);
  expect_near(results(model, inputs)[0], {2, 1}, 0);
}

TEST(QEmbedLayerNormalization, LooksQuantisedRowsUp) {
  const Inputs inputs{{"ids", {{1, 2}, {1, 0}, DType::kI32}}};
  const Values words{10, 20, 30, 130, 140, 120}, positions{1, 2, 9, 250, 200, 128}, gamma{100, 120, 140},
      beta{3, 2, 1};
  // Each table's scale and zero point.
  const double scale[] = {0.05, 0.02, 0.01, 0.1}, zero[] = {120, 128, 20, 2};
  const std::string tables = initializer("words", 2, {2, 3}, words) +
                             initializer("positions", 2, {2, 3}, positions) +
                             initializer("gamma", 2, {3}, gamma) + initializer("beta", 2, {3}, beta);
  const char* const names[] = {"word", "position", "gamma", "beta"};
  std::string parameters;
  for (size_t i = 0; i < 4; ++i)
    parameters += initializer(fmt::format("{}_scale", names[i]), 1, {}, {scale[i]}) +
                  initializer(fmt::format("{}_zero", names[i]), 2, {}, {zero[i]});
  const std::string all =
      "ids - words positions - gamma beta - word_scale position_scale - gamma_scale beta_scale "
      "word_zero position_zero - gamma_zero beta_zero";
  Values expected;
  for (size_t at = 0; at < 2; ++at) {
    const size_t word = at == 0 ? 1 : 0;
    double sum[3], mean = 0, variance = 0;
    for (size_t i = 0; i < 3; ++i) {
      sum[i] = (words[word * 3 + i] - zero[0]) * scale[0] + (positions[at * 3 + i] - zero[1]) * scale[1];
      mean += sum[i] / 3;
    }
    for (const double v : sum) variance += (v - mean) * (v - mean) / 3;
    for (size_t i = 0; i < 3; ++i)
      expected.push_back((sum[i] - mean) / std::sqrt(variance + 1e-12) * (gamma[i] - zero[2]) * scale[2] +
                         (beta[i] - zero[3]) * scale[3]);
  }
  const auto model = parse(tables + parameters + node("QEmbedLayerNormalization", all, "y", kMicrosoft),
                           inputs, "y", kNewest);
  expect_near(results(model, inputs)[0], expected, 1e-4);
}

TEST(QEmbedLayerNormalization, WithoutTheScaleOfATableIsRefused) {
  const Inputs inputs{{"ids", {{1, 2}, {1, 0}, DType::kI32}}};
  const std::string tables = initializer("table", 2, {2, 3}, {1, 2, 3, 4, 5, 6}) +
                             initializer("row", 2, {3}, {1, 2, 3}) + initializer("scale", 1, {}, {0.5});
  const std::string names = "ids - table table - row row - - scale - scale scale";
  const auto model =
      parse(tables + node("QEmbedLayerNormalization", names, "y", kMicrosoft), inputs, "y", kNewest);
  try {
    results(model, inputs);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("its input 8 is missing"));
  }
}

TEST(GatherBlockQuantized, UnpacksTheRowsThatAreAskedFor) {
  // Three rows of 34 elements in blocks of 16, the last of which is cut short; two elements to a byte.
  constexpr size_t kRow = 34, kBlocks = 3;
  const Values bytes = [] {
    Values values;
    for (size_t i = 0; i < 3 * kRow / 2; ++i) values.push_back(static_cast<double>((i * 37 + 11) % 256));
    return values;
  }();
  const Values scales = elements(3 * kBlocks, 9), zeros{0x52, 0x03, 0xf8, 0x09, 0x31, 0x0c};
  const Inputs inputs{{"at", {{2, 2}, {2, 0, 1, 2}, DType::kI64}}};
  const auto nibble = [](const Values& from, size_t row, size_t bytes_a_row, size_t i) {
    const auto byte = static_cast<unsigned>(from[row * bytes_a_row + i / 2]);
    return static_cast<double>(i % 2 == 0 ? byte & 15 : byte >> 4);
  };
  for (const bool given : {false, true}) {
    Values expected;
    for (const double row : inputs[0].second.values) {
      const auto r = static_cast<size_t>(row);
      for (size_t i = 0; i < kRow; ++i) {
        const double zero = given ? nibble(zeros, r, 2, i / 16) : 8;
        expected.push_back((nibble(bytes, r, kRow / 2, i) - zero) * scales[r * kBlocks + i / 16]);
      }
    }
    const std::string tables = initializer("data", 2, {3, kRow / 2}, bytes) +
                               initializer("scales", 1, {3, kBlocks}, scales) +
                               initializer("zeros", 2, {3, 2}, zeros);
    const std::string attributes = kMicrosoft + integer("block_size", 16) + integer("bits", 4);
    const std::string names = given ? "data at scales zeros" : "data at scales";
    const auto y =
        results(parse(tables + node("GatherBlockQuantized", names, "y", attributes), inputs, "y", kNewest),
                inputs)[0];
    expect_near(y, expected, 1e-5);
  }
}

TEST(MicrosoftQuantizeLinear, HasElementsOf16Bits) {
  const Inputs inputs{{"x", {{1, 4}, {-3, 0.125, 1.5, 200}}}};
  const std::string parameters = initializer("scale", 1, {}, {0.001}) + initializer("zero", 4, {}, {5000});
  const std::string nodes = node("QuantizeLinear", "x scale zero", "q", kMicrosoft) +
                            node("DequantizeLinear", "q scale zero", "y", kMicrosoft);
  const auto y = results(parse(parameters + nodes, inputs, "y", kNewest), inputs)[0];
  expect_near(y, {-3, 0.125, 1.5, 0.001 * (65535 - 5000)}, 1e-4);
}

}  // namespace
}  // namespace gantry
