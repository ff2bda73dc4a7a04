// MoE and QMoE of com.microsoft against float64 loops, which agree with ONNX Runtime's kernels for CPUs.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT
using ::testing::HasSubstr;

constexpr const char* kMicrosoft = "domain: 'com.microsoft' name: 'moe' ";
constexpr size_t kRows = 6, kExperts = 4, kWidth = 8, kHidden = 4, kChosen = 2;
using Values = std::vector<double>;
using Act = std::function<Values(const Values&)>;

std::string text(const std::string& name, const std::string& value) {
  return attribute(name, fmt::format("type: STRING s: '{}'", value));
}
std::string number(const std::string& name, double value) {
  return attribute(name, fmt::format("type: FLOAT f: {}", value));
}
std::string initializer(const std::string& name, int type, const std::vector<size_t>& dims,
                        const Values& values) {
  return fmt::format("initializer {{ name: '{}' data_type: {} dims: [{}] {}: [{}] }} ", name, type,
                     fmt::join(dims, ", "), type == 1 ? "float_data" : "int32_data", fmt::join(values, ", "));
}

Act each(double (*apply)(double)) {
  return [apply](const Values& z) {
    Values y;
    for (const double v : z) y.push_back(apply(v));
    return y;
  };
}

/// Of gates and what they are multiplied with, `step` apart, the first of which is at `linear`.
Act swiglu(size_t step, size_t linear, double alpha = 1, double beta = 0, double limit = 1e30) {
  return [=](const Values& z) {
    Values y;
    for (size_t i = 0; i < kHidden; ++i) {
      const double gate = std::min(z[i * step], limit);
      y.push_back(gate / (1 + std::exp(-alpha * gate)) *
                  (std::clamp(z[linear + i * step], -limit, limit) + beta));
    }
    return y;
  };
}

Values softmax(Values x) {
  for (double& v : x) v = std::exp(v);
  const double total = std::accumulate(x.begin(), x.end(), 0.0);
  for (double& v : x) v /= total;
  return x;
}

/// Row e of `rows` equal parts of all.
Values part(const Values& all, size_t e, size_t rows) {
  const auto size = static_cast<std::ptrdiff_t>(all.size() / rows),
             at = static_cast<std::ptrdiff_t>(e) * size;
  return {all.begin() + at, all.begin() + at + size};
}

Values dense(const Values& x, const Values& weight, const Values& bias) {
  Values y = bias;
  for (size_t o = 0; o < y.size(); ++o)
    for (size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
  return y;
}

/// The model's only result, to rounding beside the largest element.
void expect_result(const std::string& nodes, const Inputs& inputs, const Values& expected) {
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-5 * largest);
}

struct Network {
  Values x = elements(kRows * kWidth, 1), scores = elements(kRows * kExperts, 2);
  Values w1, b1, w2, b2;
  Act act;

  /// `shares` of the experts that are chosen, best first, by their scores and the row.
  Values computed(const std::function<Values(const std::vector<size_t>&, size_t row)>& shares) const {
    Values y;
    for (size_t row = 0; row < kRows; ++row) {
      const Values mine = part(scores, row, kRows), data = part(x, row, kRows);
      std::vector<size_t> order(kExperts);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return mine[a] > mine[b]; });
      order.resize(kChosen);
      const Values share = shares(order, row);
      Values total(kWidth);
      for (size_t c = 0; c < kChosen; ++c) {
        const size_t e = order[c];
        const Values hidden = act(dense(data, part(w1, e, kExperts), part(b1, e, kExperts)));
        const Values out = dense(hidden, part(w2, e, kExperts), part(b2, e, kExperts));
        for (size_t i = 0; i < kWidth; ++i) total[i] += share[c] * out[i];
      }
      y.insert(y.end(), total.begin(), total.end());
    }
    return y;
  }

  Inputs inputs() const {
    return {{"x", {{2, kRows / 2, kWidth}, x}}, {"scores", {{kRows, kExperts}, scores}}};
  }
};

Values of(const Values& all, const std::vector<size_t>& places) {
  Values chosen;
  for (const size_t place : places) chosen.push_back(all[place]);
  return chosen;
}

struct Variant {
  std::string attributes;
  size_t outputs;  ///< of an expert's first layer
  Act act;
};

TEST(MoE, AddsTheChosenExpertsByTheirShares) {
  const auto gelu = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  const std::string gated = text("activation_type", "swiglu");
  const Variant variants[] = {
      {"", kHidden, each([](double v) { return std::max(v, 0.0); })},
      {text("activation_type", "identity"), kHidden, each([](double v) { return v; })},
      {text("activation_type", "silu"), kHidden, each([](double v) { return v / (1 + std::exp(-v)); })},
      {text("activation_type", "gelu"), kHidden, each(gelu)},
      {gated + integer("swiglu_fusion", 1), 2 * kHidden, swiglu(2, 1)},
      {gated + integer("swiglu_fusion", 2) + number("activation_alpha", 1.5) + number("activation_beta", 1) +
           number("swiglu_limit", 0.75),
       2 * kHidden, swiglu(1, kHidden, 1.5, 1, 0.75)},
  };
  for (const Variant& v : variants) {
    for (const bool normalised : {false, true}) {
      SCOPED_TRACE(v.attributes);
      Network network;
      network.act = v.act;
      network.w1 = elements(kExperts * v.outputs * kWidth, 3);
      network.b1 = elements(kExperts * v.outputs, 4);
      network.w2 = elements(kExperts * kWidth * kHidden, 5);
      network.b2 = elements(kExperts * kWidth, 6);
      const Values expected = network.computed([&](const std::vector<size_t>& chosen, size_t row) {
        Values share = of(softmax(part(network.scores, row, kRows)), chosen);
        const double total = normalised ? share[0] + share[1] : 1;
        for (double& s : share) s /= total;
        return share;
      });
      const std::string weights = initializer("w1", 1, {kExperts, v.outputs, kWidth}, network.w1) +
                                  initializer("b1", 1, {kExperts, v.outputs}, network.b1) +
                                  initializer("w2", 1, {kExperts, kWidth, kHidden}, network.w2) +
                                  initializer("b2", 1, {kExperts, kWidth}, network.b2);
      const std::string moe = node("MoE", "x scores w1 b1 w2 b2", "y",
                                   kMicrosoft + v.attributes + integer("k", kChosen) +
                                       integer("normalize_routing_weights", normalised ? 1 : 0));
      expect_result(weights + moe, network.inputs(), expected);
    }
  }
}

/// Elements of `bits` in bytes, and what they stand for.
struct Quantised {
  Values bytes, scales, zeros, zero_bytes, weight;
};

Values packed(const Values& elements, size_t row, size_t bits) {
  const size_t in_byte = 8 / bits, row_bytes = (row + in_byte - 1) / in_byte;
  Values bytes(elements.size() / row * row_bytes);
  for (size_t i = 0; i < elements.size(); ++i)
    bytes[i / row * row_bytes + i % row / in_byte] += elements[i] * std::pow(2, i % row % in_byte * bits);
  return bytes;
}

/// `blocks` a row of `inputs` elements; 0: one, whose zero points are packed over the rows of an expert.
Quantised quantised(size_t outputs, size_t inputs, size_t blocks, size_t bits, bool with_zeros,
                    uint64_t seed) {
  const double range = std::pow(2, bits);
  const auto whole = [range](Values values) {
    for (double& v : values) v = std::floor((v + 2) / 4 * range);
    return values;
  };
  const size_t rows = kExperts * outputs, count = std::max<size_t>(blocks, 1);
  Quantised q;
  const Values raw = whole(elements(rows * inputs, seed));
  q.bytes = packed(raw, inputs, bits);
  q.zeros = with_zeros ? whole(elements(rows * count, seed + 1)) : Values(rows * count, range / 2);
  q.zero_bytes = packed(q.zeros, blocks > 0 ? blocks : outputs, bits);
  for (size_t i = 0; i < rows * count; ++i)
    q.scales.push_back((1 + 0.1 * static_cast<double>(i % 7)) / range);
  for (size_t i = 0; i < raw.size(); ++i) {
    const size_t block = i / inputs * count + i % inputs / (inputs / count);
    q.weight.push_back((raw[i] - q.zeros[block]) * q.scales[block]);
  }
  return q;
}

std::string initializers(const Quantised& q, const std::string& number, size_t outputs, size_t inputs,
                         size_t blocks, size_t bits) {
  std::vector<size_t> scales{kExperts, outputs}, zeros{kExperts, outputs * bits / 8};
  if (blocks > 0) {
    scales.push_back(blocks);
    zeros = {kExperts, outputs, q.zero_bytes.size() / (kExperts * outputs)};
  }
  return initializer("w" + number, 2, {kExperts, outputs, inputs * bits / 8}, q.bytes) +
         initializer("s" + number, 1, scales, q.scales) + initializer("z" + number, 2, zeros, q.zero_bytes);
}

TEST(QMoE, UnpacksWeightsOfFewBits) {
  for (const size_t bits : {2, 4, 8}) {
    for (const size_t blocks : {0, 2}) {
      for (const bool zeros : {false, true}) {
        for (const bool given : {false, true}) {
          SCOPED_TRACE(fmt::format("{} bits, {} blocks, zeros {}, weights {}", bits, blocks, zeros, given));
          const Quantised first = quantised(2 * kHidden, kWidth, blocks, bits, zeros, 3);
          const Quantised second = quantised(kWidth, kHidden, bits == 2 ? 0 : blocks, bits, zeros, 5);
          Network network;
          network.act = swiglu(2, 1, 1.702, 1, 7);
          network.w1 = first.weight;
          network.w2 = second.weight;
          network.b1 = elements(kExperts * 2 * kHidden, 7);
          network.b2 = elements(kExperts * kWidth, 8);
          const Values weights = elements(kRows * kExperts, 9);
          const Values expected = network.computed([&](const std::vector<size_t>& chosen, size_t row) {
            return given ? of(part(weights, row, kRows), chosen)
                         : softmax(of(part(network.scores, row, kRows), chosen));
          });
          const std::string tables =
              initializers(first, "1", 2 * kHidden, kWidth, blocks, bits) +
              initializers(second, "2", kWidth, kHidden, bits == 2 ? 0 : blocks, bits) +
              initializer("b1", 1, {kExperts, 2 * kHidden}, network.b1) +
              initializer("b2", 1, {kExperts, kWidth}, network.b2) +
              initializer("weights", 1, {kRows, kExperts}, weights);
          const std::string moe =
              node("QMoE",
                   fmt::format("x scores w1 s1 b1 w2 s2 b2 - - - {} - {}", zeros ? "z1 z2" : "- -",
                               given ? "weights" : "-"),
                   "y",
                   kMicrosoft + text("activation_type", "swiglu") + integer("swiglu_fusion", 1) +
                       number("activation_alpha", 1.702) + number("activation_beta", 1) +
                       number("swiglu_limit", 7) + integer("k", kChosen) +
                       integer("expert_weight_bits", static_cast<int64_t>(bits)));
          expect_result(tables + moe, network.inputs(), expected);
        }
      }
    }
  }
}

/// What is said to be wrong with the one node of a network, its experts' weights among `nodes`.
std::string error_of_network(const std::string& nodes) {
  try {
    const auto model = parse(nodes, Network().inputs(), "y", kNewest);
    import_onnx_bytes(model.SerializeAsString(), ".");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The layout for CUDA: (experts, inputs, bytes of outputs) beside scales (experts, outputs).
TEST(QMoE, WeightsThatAreLaidOutForAKernelAreRefused) {
  const auto bytes = [](const std::string& name, size_t rows, size_t columns) {
    return initializer(name, 2, {kExperts, rows, columns}, Values(kExperts * rows * columns, 7));
  };
  const std::string scales = initializer("s1", 1, {kExperts, kHidden}, elements(kExperts * kHidden, 3)) +
                             initializer("s2", 1, {kExperts, kWidth}, elements(kExperts * kWidth, 4)) +
                             initializer("few", 1, {kExperts, 1}, elements(kExperts, 5));
  const std::string rows = scales + bytes("w1", kHidden, kWidth / 2) + bytes("w2", kWidth, kHidden / 2);
  const std::string turned = scales + bytes("w1", kWidth, kHidden / 2) + bytes("w2", kHidden, kWidth / 2);
  const auto error = [](const std::string& weights, const std::string& layout, const char* first = "s1") {
    const std::string inputs = fmt::format("x scores w1 {} - w2 s2", first);
    return error_of_network(weights + node("QMoE", inputs, "y", kMicrosoft + layout));
  };
  const auto layout = [](int64_t value) { return integer("weights_prepacked", value); };
  for (const std::string& given : {std::string(), layout(-1), layout(0)})
    EXPECT_EQ(error(rows, given), "no error");
  for (const std::string& given : {std::string(), layout(-1)})
    EXPECT_THAT(error(turned, given),
                HasSubstr("weights that are laid out for a kernel (weights_prepacked -1)"));
  EXPECT_THAT(error(turned, layout(0)), HasSubstr("do not fit its weights"));
  EXPECT_THAT(error(rows, "", "few"), HasSubstr("do not fit its weights"));
  EXPECT_THAT(error(rows, layout(1)), HasSubstr("a weights_prepacked of 1"));
  EXPECT_THAT(error(rows, layout(2)), HasSubstr("a weights_prepacked of 2"));
}

std::string error_of(const std::string& attributes) {
  const std::string weights = initializer("w1", 1, {kExperts, kHidden, kWidth}, elements(128, 3)) +
                              initializer("w2", 1, {kExperts, kWidth, kHidden}, elements(128, 4));
  return error_of_network(weights + node("MoE", "x scores w1 - w2", "y", kMicrosoft + attributes));
}

TEST(MoE, VariantsThatThereAreNotAreErrors) {
  EXPECT_EQ(error_of(""), "no error");
  EXPECT_THAT(error_of(integer("k", 5)), HasSubstr("node moe (MoE): its k is 5, of 4 experts"));
  EXPECT_THAT(error_of(text("activation_type", "swiglu")), HasSubstr("it should have a third layer"));
  EXPECT_THAT(error_of(text("activation_type", "geglu")), HasSubstr("activation_type 'geglu'"));
  EXPECT_THAT(error_of(integer("use_sparse_mixer", 1)), HasSubstr("use_sparse_mixer"));
}

}  // namespace
}  // namespace gantry
