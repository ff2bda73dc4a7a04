// The type rules of custom ops.
#include "host/custom_ops/signature.h"

#include <gtest/gtest.h>

#include <deque>

#include "tests/support/message_of.h"

namespace gantry {
namespace {

using testing::message_of;

Signature signature(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                    const std::vector<std::string>& attributes = {},
                    const std::vector<std::string>& types = {}) {
  Signature made;
  for (const std::string& text : inputs) made.inputs.push_back(parse_tensor_pattern(text));
  for (const std::string& text : outputs) made.outputs.push_back(parse_tensor_pattern(text));
  for (const std::string& text : attributes) made.attributes.push_back(parse_attribute_spec(text));
  for (const std::string& text : types) made.types.push_back(parse_type_variable(text));
  check_signature(made);
  return made;
}

/// Applies a signature to inputs of types.
class Rule {
 public:
  explicit Rule(Signature signature) : signature_(std::move(signature)) {}

  std::vector<std::string> outputs(const std::vector<std::optional<TensorType>>& inputs,
                                   const std::vector<CustomAttribute>& attributes = {}) {
    node_.inputs.clear();
    node_.origin = {"node"};
    for (const auto& type : inputs) {
      values_.emplace_back();
      if (type) values_.back().type = *type;
      node_.inputs.push_back(type ? &values_.back() : nullptr);
    }
    SignatureResult result = apply_signature(signature_, node_, attributes, function_);
    scratch_ = result.scratch;
    std::vector<std::string> texts;
    for (const TensorType& type : result.outputs) texts.push_back(type.str());
    return texts;
  }
  std::string scratch() const { return scratch_.str(); }
  std::vector<std::string> constraints() const {
    std::vector<std::string> texts;
    for (const DimConstraint& constraint : function_.constraints)
      texts.push_back(constraint.left.str() + " == " + constraint.right.str() + " from " + constraint.origin);
    return texts;
  }

 private:
  Signature signature_;
  std::deque<Value> values_;
  Node node_;
  Function function_;
  Dim scratch_;
};

using Texts = std::vector<std::string>;
const Dim kBatch = Dim::symbol("batch"), kLength = Dim::symbol("length");

TEST(CustomSignature, SizesOfOutputsAreExpressionsOfThoseOfInputs) {
  Signature made = signature({"x: f32[N, L]", "w: f32[K]"},
                             {"y: f32[N, floordiv(L - K, step) + 1]", "count: i64[]"}, {"step: int = 2"});
  made.scratch = Dim::parse("4 * N * K");
  Rule rule(made);
  const CustomAttribute step{"step", std::vector<int64_t>{2}, false};
  EXPECT_EQ(rule.outputs({TensorType{DType::kF32, {kBatch, 10}}, TensorType{DType::kF32, {4}}}, {step}),
            (Texts{"Tensor[(batch, 4), f32]", "Tensor[(), i64]"}));
  EXPECT_EQ(rule.scratch(), (kBatch * 16).str());
  EXPECT_EQ(rule.outputs({TensorType{DType::kF32, {1, kLength}}, TensorType{DType::kF32, {3}}}, {step}),
            (Texts{"Tensor[(1, " + (floordiv(kLength - 3, 2) + 1).str() + "), f32]", "Tensor[(), i64]"}));
  EXPECT_TRUE(rule.constraints().empty());
}

TEST(CustomSignature, LeadingDimensionsAreAnyNumber) {
  Rule rule(signature({"x: T[..., C]", "y: T[..., C]?"}, {"z: T[..., 2*C]"}, {}, {"T: f32, f64"}));
  EXPECT_EQ(rule.outputs({TensorType{DType::kF64, {2, kBatch, 3}}, std::nullopt}),
            (Texts{"Tensor[(2, batch, 6), f64]"}));
  EXPECT_EQ(rule.outputs({TensorType{DType::kF32, {3}}, std::nullopt}), (Texts{"Tensor[(6), f32]"}));
  EXPECT_EQ(message_of([&] {
              rule.outputs({TensorType{DType::kF32, {2, 3}}, TensorType{DType::kF32, {3}}});
            }),
            "its input y has 0 dimensions in front, and an input before it 1");
}

TEST(CustomSignature, DimensionsThatMayBeEqualAreConstraints) {
  Rule rule(signature({"x: f32[N, C]", "y: f32[C]"}, {"z: f32[N, C]"}));
  EXPECT_EQ(rule.outputs({TensorType{DType::kF32, {2, kLength}}, TensorType{DType::kF32, {kBatch}}}),
            (Texts{"Tensor[(2, length), f32]"}));
  EXPECT_EQ(rule.constraints(), (Texts{"length == batch from node"}));
  EXPECT_EQ(message_of([&] {
              rule.outputs({TensorType{DType::kF32, {2, 3}}, TensorType{DType::kF32, {4}}});
            }),
            "dimensions of its input y: 3 and 4 differ");
}

TEST(CustomSignature, WhatDoesNotFitIsNamed) {
  Rule rule(signature({"x: T[N]", "y: T[N]", "n: i64[]"}, {"z: T[N]"}, {}, {"T: f32, f16"}));
  const TensorType one{DType::kI64, {}};
  EXPECT_EQ(message_of([&] {
              rule.outputs({TensorType{DType::kF64, {2}}, TensorType{DType::kF64, {2}}, one});
            }),
            "its input x is of f64, and it takes f32, f16");
  EXPECT_EQ(message_of([&] {
              rule.outputs({TensorType{DType::kF32, {2}}, TensorType{DType::kF16, {2}}, one});
            }),
            "its input y is of f16, and an input before it of f32");
  EXPECT_EQ(message_of([&] {
              rule.outputs(
                  {TensorType{DType::kF32, {2}}, TensorType{DType::kF32, {2}}, TensorType{DType::kI32, {}}});
            }),
            "its input n is of i32, not of i64");
  EXPECT_EQ(message_of([&] {
              rule.outputs({TensorType{DType::kF32, {2, 2}}, TensorType{DType::kF32, {2}}, one});
            }),
            "its input x is Tensor[(2, 2), f32], of 2 dimensions, and 1 are asked for");
}

TEST(CustomSignature, ASizeBelowZeroIsRefused) {
  Rule rule(signature({"x: f32[N]"}, {"y: f32[N - cut]"}, {"cut: int"}));
  EXPECT_EQ(message_of([&] {
              rule.outputs({TensorType{DType::kF32, {2}}}, {{"cut", std::vector<int64_t>{3}, false}});
            }),
            "its output y would be of the size -1");
}

TEST(CustomSignature, WhatNoNodeCanFitIsRefusedAtOnce) {
  EXPECT_EQ(message_of([] { signature({"x: f32[N]"}, {"y: f32[M]"}); }),
            "output y: M is neither the size of an input before it nor an attribute that is an int with a "
            "value: sizes that "
            "only the kernel knows cannot be said");
  EXPECT_EQ(message_of([] {
              signature({"x: f32[N]", "b: f32[M]?"}, {"y: f32[M]"});
            }),
            "output y: M is only the size of an input that may be left out");
  EXPECT_EQ(message_of([] { signature({"x: f32[N]"}, {}); }), "it has no outputs");
  EXPECT_EQ(message_of([] { signature({"x: f32[N]"}, {"x: f32[N]"}); }), "x stands for two things");
  EXPECT_EQ(message_of([] {
              signature({"b: f32[N]?", "x: f32[N]"}, {"y: f32[]"});
            }),
            "x: inputs that may be left out stand behind the others");
  EXPECT_EQ(message_of([] { signature({"x: g32[N]"}, {"y: f32[N]"}); }),
            "x: 'g32' is neither an element type, such as f32 or i64, nor one of the types that are listed");
  EXPECT_EQ(message_of([] { signature({"x: f32[N]"}, {"y: T[N]"}, {}, {"T: f32"}); }),
            "y: no input that must be there is of type T");
  EXPECT_EQ(message_of([] { signature({"x: f32[N]"}, {"y: f32[..., N]"}); }),
            "y: no input that must be there has ... in front");
  EXPECT_EQ(message_of([] { signature({"x: f32[2*N]"}, {"y: f32[N]"}); }),
            "input x: N is neither the size of an input before it nor an attribute that is an int with a "
            "value: sizes that "
            "only the kernel knows cannot be said");
}

TEST(CustomSignature, TextThatIsNoneIsQuoted) {
  EXPECT_EQ(message_of([] { parse_tensor_pattern("x: f32"); }),
            "'x: f32': a tensor is written as \"x: f32[N, C]\"");
  EXPECT_EQ(message_of([] { parse_tensor_pattern("2x: f32[]"); }),
            "'2x: f32[]': a tensor begins with a name of letters, digits and _");
  EXPECT_EQ(message_of([] { parse_tensor_pattern("x: f32[N, ...]"); }),
            "'x: f32[N, ...]': ... stands in front of the other dimensions");
  EXPECT_EQ(message_of([] { parse_tensor_pattern("x: f32[N,]"); }), "'x: f32[N,]': a dimension is missing");
  EXPECT_EQ(
      message_of([] { parse_attribute_spec("axis: integer"); }),
      "'axis: integer': an attribute is an int, float, string, ints, floats or strings: \"axis: int = -1\"");
  EXPECT_EQ(message_of([] { parse_attribute_spec("axis: int = 1.5"); }),
            "'axis: int = 1.5': its value is of another kind than int");
  EXPECT_EQ(message_of([] { parse_type_variable("f32: f64"); }), "'f32: f64': f32 is an element type itself");
  EXPECT_EQ(message_of([] { parse_type_variable("T"); }),
            "'T': it stands for no element type; write \"T: f32, f64\"");
}

TEST(CustomSignature, AnIntegerIsAFloatToo) {
  const AttributeSpec spec = parse_attribute_spec("scales: floats = [1, 2]");
  EXPECT_FALSE(spec.required);
  EXPECT_EQ(*spec.otherwise, (CustomAttribute{"scales", std::vector<double>{1, 2}, true}));
  EXPECT_FALSE(parse_attribute_spec("bias: float?").required);
  EXPECT_TRUE(parse_attribute_spec("bias: float").required);
}

}  // namespace
}  // namespace gantry
