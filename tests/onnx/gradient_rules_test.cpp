// The derivative of each op against central differences in float64.
#include "tests/onnx/differentiated.h"

namespace gantry {
namespace {

using namespace differentiated;  // NOLINT
using model_text::attribute;
using model_text::integer;
using model_text::node;

constexpr const char* kMicrosoft = "domain: 'com.microsoft' ";

/// On both sides of where activations are not smooth.
const Tensor64 kMixed{{2, 4}, {-2.13, -1.31, -0.72, -0.28, 0.17, 0.64, 1.37, 2.09}};
const Tensor64 kPositive{{2, 3}, {0.31, 0.72, 1.18, 1.57, 2.2, 2.9}};
const Tensor64 kInside{{5}, {-0.83, -0.4, 0.11, 0.52, 0.77}};
const Tensor64 kAboveOne{{4}, {1.21, 1.5, 2.02, 2.75}};

Tensor64 any(std::vector<int64_t> shape, uint64_t seed = 1) {
  return between(-2, 2, std::move(shape), seed);
}

TEST(GradientOf, FunctionsOfOneElement) {
  const auto check = [](const std::string& op, const Tensor64& x, const std::string& rest = "") {
    SCOPED_TRACE(op + " " + rest);
    expect_gradients(node(op, "x", "t", rest), {{"x", x}});
  };
  for (const char* op : {"Exp",        "Tanh",
                         "Erf",        "Sigmoid",
                         "Sin",        "Cos",
                         "Atan",       "Sinh",
                         "Cosh",       "Asinh",
                         "Abs",        "Neg",
                         "Reciprocal", "Identity",
                         "Softplus",   "Softsign",
                         "Relu",       "Elu",
                         "Selu",       "Celu",
                         "LeakyRelu",  "HardSigmoid",
                         "HardSwish",  "Mish",
                         "Gelu",       "ThresholdedRelu",
                         "Floor",      "Sign"})
    check(op, kMixed);
  for (const char* op : {"Log", "Sqrt"}) check(op, kPositive);
  for (const char* op : {"Asin", "Acos", "Atanh", "Tan"}) check(op, kInside);
  check("Acosh", kAboveOne);
  check("Gelu", kMixed, text("approximate", "tanh"));
  check("Elu", kMixed, real("alpha", 0.5));
  check("Celu", kMixed, real("alpha", 2));
  check("Selu", kMixed, real("gamma", 1.5));
  check("Shrink", kMixed, real("bias", 0.25) + real("lambd", 1));
  check("HardSigmoid", kMixed, real("alpha", 0.5));
  check("QuickGelu", kMixed, kMicrosoft + real("alpha", 1.5));
  check("Cast", kMixed, integer("to", 11));
}

TEST(GradientOf, Clip) {
  expect_gradients(doubles("low", {}, {-1}) + doubles("high", {}, {1.5}) + node("Clip", "x low high", "t"),
                   {{"x", kMixed}});
  expect_gradients(doubles("low", {}, {-1}) + node("Clip", "x low", "t"), {{"x", kMixed}});
}

TEST(GradientOf, FunctionsOfTwoElementsSumOverWhatIsBroadcast) {
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> shapes[] = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {{}, {2, 3}}, {{1, 1}, {3}}};
  for (const auto& [a, b] : shapes) {
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"}) {
      SCOPED_TRACE(op);
      expect_gradients(node(op, "a b", "t"),
                       {{"a", between(0.5, 2.5, a, 3)}, {"b", between(0.5, 2.5, b, 4)}});
    }
  }
  // Far from where the quotient is whole.
  const Tensor64 a{{3}, {5.3, -4.6, 7.7}}, b{{3}, {2.1, 1.7, -3.2}};
  expect_gradients(node("Mod", "a b", "t", integer("fmod", 1)), {{"a", a}, {"b", b}});
  expect_gradients(node("PRelu", "x s", "t"), {{"x", kMixed}, {"s", any({4})}});
  expect_gradients(node("Less", "a b", "c") + node("Where", "c a b", "t"),
                   {{"a", any({2, 3})}, {"b", any({3}, 2)}});
  expect_gradients(node("Sum", "a b a", "t"), {{"a", any({2, 2})}, {"b", any({2}, 2)}});
  expect_gradients(node("Mean", "a b", "t"), {{"a", any({2, 2})}, {"b", any({2}, 2)}});
}

TEST(GradientOf, PowersWithExponentsOfAnyKind) {
  expect_gradients(doubles("e", {}, {3}) + node("Pow", "x e", "t"), {{"x", kMixed}});
  expect_gradients(integers("e", {2}) + node("Pow", "x e", "t"), {{"x", kMixed}});
  // 0^0 is 1, and does not change with its base.
  const auto y = run(doubles("e", {2}, {0, 1}) + node("Pow", "x e", "y") + gradient("x", "y", "x", "d"),
                     {{"x", {{2}, {0, 0}}}}, "d");
  EXPECT_EQ(y[0], (std::vector<double>{0, 1}));
}

TEST(GradientOf, EqualOperandsOfAnExtremumShareIt) {
  const auto d = run(node("Max", "a b", "y") + gradient("a b", "y", "a b", "da db"),
                     {{"a", {{3}, {1, 2, 3}}}, {"b", {{3}, {1, 5, 0}}}}, "da db");
  EXPECT_EQ(d[0], (std::vector<double>{0.5, 0, 1}));
  EXPECT_EQ(d[1], (std::vector<double>{0.5, 1, 0}));
}

TEST(GradientOf, MatrixProducts) {
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> shapes[] = {
      {{2, 3}, {3, 4}}, {{2, 2, 3}, {3, 2}}, {{2, 1, 2, 3}, {3, 3, 2}}, {{3}, {3, 2}},
      {{2, 3}, {3}},    {{3}, {3}},          {{3}, {2, 3, 2}},          {{2, 2, 3}, {3}}};
  for (const auto& [a, b] : shapes) {
    SCOPED_TRACE(fmt::format("ranks {} and {}", a.size(), b.size()));
    expect_gradients(node("MatMul", "a b", "t"), {{"a", any(a)}, {"b", any(b, 2)}});
  }
  for (const int64_t transposed : {0, 1}) {
    const std::vector<int64_t> a = transposed != 0 ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2, 3};
    const std::vector<int64_t> b = transposed != 0 ? std::vector<int64_t>{4, 3} : std::vector<int64_t>{3, 4};
    const std::string rest =
        integer("transA", transposed) + integer("transB", transposed) + real("alpha", 0.5);
    expect_gradients(node("Gemm", "a b c", "t", rest), {{"a", any(a)}, {"b", any(b, 2)}, {"c", any({4}, 3)}});
  }
  // Constant matrices are products of another kind.
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3}, {2, 3}, {2, 2, 3}})
    expect_gradients(doubles("w", {3, 2}, {1, 2, -3, 4, 0.5, -1}) + node("MatMul", "x w", "t"),
                     {{"x", any(shape)}});
  expect_gradients(node("Einsum", "a b", "t", text("equation", "bij,bkj->bik")),
                   {{"a", any({2, 2, 3})}, {"b", any({2, 3, 3}, 2)}});
}

TEST(GradientOf, Convolutions) {
  const auto check = [](const std::string& op, const std::vector<int64_t>& x, const std::vector<int64_t>& w,
                        const std::string& rest) {
    SCOPED_TRACE(op + " " + rest);
    expect_gradients(node(op, "x w", "t", rest), {{"x", any(x)}, {"w", any(w, 2)}});
  };
  check("Conv", {1, 2, 6}, {3, 2, 3}, list("strides", "2") + list("pads", "1, 0"));
  check("Conv", {2, 1, 5, 4}, {2, 1, 2, 3}, "");
  check(
      "Conv", {1, 4, 5, 5}, {4, 2, 3, 2},
      integer("group", 2) + list("strides", "2, 1") + list("dilations", "1, 2") + list("pads", "1, 0, 2, 1"));
  check("Conv", {2, 3, 4, 4}, {3, 1, 2, 2}, integer("group", 3) + list("strides", "3, 3"));
  check("ConvTranspose", {1, 2, 3}, {2, 2, 3}, list("strides", "2") + list("output_padding", "1"));
  check(
      "ConvTranspose", {1, 4, 2, 3}, {4, 1, 3, 2},
      integer("group", 2) + list("strides", "2, 1") + list("dilations", "1, 2") + list("pads", "1, 0, 0, 1"));
}

TEST(GradientOf, Poolings) {
  const auto check = [](const std::string& op, const std::string& rest) {
    SCOPED_TRACE(op + " " + rest);
    expect_gradients(node(op, "x", "t", rest), {{"x", any({1, 2, 5, 4}, 7)}});
  };
  const std::string kernel = list("kernel_shape", "3, 2");
  check("MaxPool", kernel);
  check("MaxPool", kernel + list("strides", "2, 2") + list("pads", "1, 1, 1, 1"));
  check("AveragePool", kernel);
  check("AveragePool", kernel + list("strides", "2, 1") + list("pads", "1, 1, 0, 1"));
  check("AveragePool",
        kernel + list("strides", "2, 1") + list("pads", "1, 1, 0, 1") + integer("count_include_pad", 1));
  check("AveragePool", list("kernel_shape", "2, 3") + list("strides", "2, 2") + integer("ceil_mode", 1));
  check("AveragePool", list("kernel_shape", "2, 2") + list("dilations", "2, 1"));
  check("LpPool", kernel + list("strides", "2, 1"));
  check("LpPool", kernel + integer("p", 1));
  check("LpPool", kernel + integer("p", 3));
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}) check(op, "");
}

TEST(GradientOf, Reductions) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                         "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum"}) {
    SCOPED_TRACE(op);
    for (const int64_t keep : {0, 1}) {
      const Tensor64 x = between(0.3, 2, {2, 3, 2}, 5);
      expect_gradients(integers("axes", {0, 2}) + node(op, "x axes", "t", integer("keepdims", keep)),
                       {{"x", x}});
      expect_gradients(integers("axes", {-2}) + node(op, "x axes", "t", integer("keepdims", keep)),
                       {{"x", x}});
    }
    expect_gradients(node(op, "x", "t"), {{"x", between(0.3, 2, {4}, 6)}});
  }
  for (const char* rest : {"", "exclusive", "reverse"})
    expect_gradients(
        integers("axis", {}, {1}) + node("CumSum", "x axis", "t", *rest != 0 ? integer(rest, 1) : ""),
        {{"x", any({2, 4})}});
}

TEST(GradientOf, ProductsWithZerosAndExtremaOfEqualElements) {
  const std::string axes = integers("axes", {1});
  const auto product = run(axes + node("ReduceProd", "x axes", "y") + gradient("x", "y", "x", "d"),
                           {{"x", {{3, 3}, {2, 3, 4, 2, 0, 4, 0, 5, 0}}}}, "d");
  EXPECT_EQ(product[0], (std::vector<double>{12, 8, 6, 0, 8, 0, 0, 0, 0}));
  const auto largest = run(axes + node("ReduceMax", "x axes", "y") + gradient("x", "y", "x", "d"),
                           {{"x", {{2, 4}, {1, 3, 3, 2, 0, 0, 0, 0}}}}, "d");
  EXPECT_EQ(largest[0], (std::vector<double>{0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25}));
}

TEST(GradientOf, SoftmaxAndLosses) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const int64_t axis : {0, 1, -1})
      expect_gradients(node(op, "x", "t", integer("axis", axis)), {{"x", any({2, 3, 2})}});
  }
  expect_gradients(integers("labels", {2, 0}) + node("SoftmaxCrossEntropyLoss", "x labels", "t"),
                   {{"x", any({2, 3})}});
}

TEST(GradientOf, Normalisations) {
  const Tensor64 x = any({2, 4, 3}, 9);
  const Inputs64 channels{{"x", x}, {"s", any({4}, 2)}, {"b", any({4}, 3)}};
  expect_gradients(node("LayerNormalization", "x s b", "t"),
                   {{"x", x}, {"s", any({3}, 2)}, {"b", any({3}, 3)}});
  expect_gradients(node("LayerNormalization", "x s", "t", integer("axis", 1)),
                   {{"x", x}, {"s", any({4, 3}, 2)}});
  expect_gradients(node("InstanceNormalization", "x s b", "t"), channels);
  expect_gradients(node("GroupNormalization", "x s b", "t", integer("num_groups", 2)), channels);
  Inputs64 batch = channels;
  batch.emplace_back("m", any({4}, 4));
  batch.emplace_back("v", between(0.5, 2, {4}, 5));
  expect_gradients(node("BatchNormalization", "x s b m v", "t"), batch);
  expect_gradients(node("LRN", "x", "t", integer("size", 3) + real("alpha", 0.5) + real("bias", 2)),
                   {{"x", x}});
  for (const int64_t p : {1, 2})
    expect_gradients(node("LpNormalization", "x", "t", integer("axis", 1) + integer("p", p)), {{"x", x}});
  const auto zero =
      run(node("LpNormalization", "x", "y") + gradient("x", "y", "x", "d"), {{"x", {{2}, {0, 0}}}}, "d");
  EXPECT_EQ(zero[0], (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace gantry
