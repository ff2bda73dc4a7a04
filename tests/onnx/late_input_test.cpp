// Inputs that are sequences of any number of tensors, beside lists of tensors that the tests keep themselves.
#include <gmock/gmock.h>

#include "host/onnx/unsupported.h"
#include "tests/onnx/late_models.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

using namespace late_models;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;

/// A model's text: s is a sequence of f32 tensors of these dimensions, numbers or names.
std::string with_sequence(const std::string& dims, const std::string& rest, const std::string& outputs) {
  std::string text =
      "input { name: 's' type { sequence_type { elem_type { tensor_type { elem_type: 1 shape { ";
  std::istringstream words(dims);
  for (std::string word; words >> word;) {
    const bool number = word.find_first_not_of("0123456789") == std::string::npos;
    text += number ? fmt::format("dim {{ dim_value: {} }} ", word)
                   : fmt::format("dim {{ dim_param: '{}' }} ", word);
  }
  return "ir_version: 8 " + kNewest + " graph { name: 'g' " + text + "} } } } } } " + kNumbers + rest +
         output_list(outputs) + "}";
}

Graph imported(const std::string& text, const ImportOptions& options = {}) {
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return import_onnx_bytes(proto.SerializeAsString(), ".", options);
}

std::vector<Numbers> numbers_of(const std::vector<ConstantPtr>& tensors) {
  std::vector<Numbers> all;
  for (const ConstantPtr& tensor : tensors) {
    Numbers& values = all.emplace_back();
    for (int64_t i = 0; i < element_count(tensor->type.shape).value(); ++i)
      values.push_back(tensor->type.dtype == DType::kF32 ? static_cast<double>(tensor->as<float>()[i])
                                                         : static_cast<double>(tensor->as<int64_t>()[i]));
  }
  return all;
}

/// The elements of all tensors, and the rows: what a module's two inputs are.
std::vector<ConstantPtr> inputs_of(const Numbers& elements, const Numbers& rows, int64_t columns) {
  const auto count = static_cast<int64_t>(rows.size()) / columns;
  return {floats(elements).constant(), Given{{count, columns}, rows, DType::kI64}.constant()};
}
std::vector<Numbers> run_with(const Graph& graph, const Tensors& tensors, size_t rank) {
  const std::vector<Numbers> parts = packed(tensors, rank);
  return numbers_of(
      testing::interpret_function(graph.main, inputs_of(parts[0], parts[1], static_cast<int64_t>(rank) + 1)));
}

TEST(LateInput, IsTwoInputsOfTheModel) {
  const Graph graph = imported(with_sequence("N 3", node("SequenceLength", "s", "length"), "length"));
  ASSERT_EQ(graph.main.parameters.size(), 2u);
  EXPECT_EQ(graph.main.parameters[0]->name, "s[]");
  EXPECT_EQ(graph.main.parameters[0]->type.rank(), 1);
  EXPECT_EQ(graph.main.parameters[1]->name, "s[].dims");
  EXPECT_EQ(graph.main.parameters[1]->type.dtype, DType::kI64);
  EXPECT_EQ(graph.main.parameters[1]->type.shape[1], Dim(3));
}

TEST(LateInput, HasAnyNumberOfTensorsOfAnySizes) {
  const Graph graph = imported(with_sequence(
      "N 2",
      node("SequenceMap", "s", "halves", late_models::graph("body", "e", node("Add", "e e", "f"), "f")) +
          node("ConcatFromSequence", "s", "all", integer("axis", 0)) + node("SequenceAt", "s nm1", "last") +
          node("SequenceLength", "s", "length"),
      "halves all last length"));
  const Tensors list{{{1, 2}, {1, 2}}, {{3, 2}, {3, 4, 5, 6, 7, 8}}, {{0, 2}, {}}, {{2, 2}, {9, 10, 11, 12}}};
  for (const size_t count : {1u, 2u, 4u}) {
    const Tensors given(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
    Tensors twice = given;
    for (Given& tensor : twice) {
      for (double& value : tensor.values) value *= 2;
    }
    std::vector<Numbers> expected = packed(twice, 2);
    expected.push_back(packed(given, 2)[0]);
    expected.push_back(given.back().values);
    expected.push_back({static_cast<double>(count)});
    EXPECT_EQ(run_with(graph, given, 2), expected) << count;
  }
}

TEST(LateInput, MayBeEmptyOrOfScalars) {
  const Graph length = imported(with_sequence("N", node("SequenceLength", "s", "length"), "s length"));
  EXPECT_THAT(run_with(length, {}, 1), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(0)));
  const Graph stacked = imported(with_sequence(
      "", node("ConcatFromSequence", "s", "y", integer("axis", 0) + integer("new_axis", 1)), "y"));
  EXPECT_THAT(run_with(stacked, {{{}, {4}}, {{}, {5}}}, 0), ElementsAre(ElementsAre(4, 5)));
}

TEST(LateInput, IsCheckedBeforeItIsRead) {
  const Graph graph = imported(with_sequence("N 2", node("SequenceAt", "s n0", "y"), "y"));
  const auto told = [&](const Numbers& elements, const Numbers& rows) {
    return message_of([&] { testing::interpret_function(graph.main, inputs_of(elements, rows, 3)); });
  };
  const Numbers four{1, 2, 3, 4};
  EXPECT_EQ(numbers_of(testing::interpret_function(graph.main, inputs_of(four, {2, 1, 2, 2, 1, 2}, 3)))[0],
            (Numbers{1, 2}));
  EXPECT_THAT(told(four, {2, 1, 2}), HasSubstr("for s"));            // fewer elements than there are
  EXPECT_THAT(told(four, {2, 2, 2, 2, 1, 2}), HasSubstr("for s"));   // more
  EXPECT_THAT(told(four, {2, 2, 2, 2, 0, 3}), HasSubstr("for s"));   // not the declared two columns
  EXPECT_THAT(told(four, {1, 2, 2}), HasSubstr("for s"));            // another rank
  EXPECT_THAT(told(four, {2, 3, 2, 2, -1, 2}), HasSubstr("for s"));  // a negative extent
}

TEST(LateInput, OfMoreElementsThanANumberHolds) {
  // 2^32 * 2^32 is 0 in 64 bits.
  const Graph graph = imported(with_sequence("N M", node("SequenceAt", "s n0", "y"), "y"));
  const Numbers rows{2, 2, 2, 2, 4294967296.0, 4294967296.0};
  EXPECT_THAT(message_of([&] {
                testing::interpret_function(graph.main, inputs_of({1, 2, 3, 4}, rows, 3));
              }),
              HasSubstr("for s"));
}

TEST(LateInput, IsOfTheNumberAndTheShapesThatTheUserGives) {
  const std::string text = with_sequence("N", node("ConcatFromSequence", "s", "y", integer("axis", 0)), "y");
  ImportOptions options;
  options.shapes["s"] = {2};
  options.shapes["s[0]"] = {3};
  const Graph two = imported(text, options);
  ASSERT_EQ(two.main.parameters.size(), 2u);
  EXPECT_EQ(two.main.parameters[0]->name, "s[0]");
  options.shapes = {{"s", {kOpenSize}}};
  EXPECT_EQ(imported(text, options).main.parameters[0]->name, "s[]");
  options.shapes = {{"s", {GivenSize(DimRange{1, 4})}}};
  EXPECT_THAT(message_of([&] { imported(text, options); }), HasSubstr("the number of its elements"));
  options.shapes = {{"s[]", {6}}, {"s[].dims", {3, 2}}};
  EXPECT_EQ(imported(text, options).main.parameters[0]->type.shape, (Shape{6}));
}

TEST(LateInput, TakesSizesOfOtherInputsByName) {
  const std::string other = open_input("x", "N");
  const Graph graph =
      imported(with_sequence("N", other + node("SequenceAt", "s n0", "e") + node("Neg", "x", "z"), "e z"));
  const auto run = [&](const Numbers& x) {
    std::vector<ConstantPtr> inputs = inputs_of({1, 2, 3}, {1, 3}, 2);
    inputs.push_back(floats(x).constant());
    return numbers_of(testing::interpret_function(graph.main, inputs));
  };
  EXPECT_THAT(run({7, 8, 9}), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(-7, -8, -9)));
  EXPECT_THAT(message_of([&] { run({7, 8}); }), HasSubstr("for s"));
}

TEST(LateInput, OfTensorsOfTooManyDimensionsIsRefused) {
  std::string dims;
  for (int i = 0; i < 65; ++i) dims += "1 ";
  const std::string text = with_sequence(dims, node("SequenceLength", "s", "length"), "length");
  EXPECT_THAT(message_of([&] { imported(text); }),
              HasSubstr("input 's' has 65 dimensions, and tensors have at most 64"));
}

TEST(LateInput, OfTensorsOfUnknownRankIsRefused) {
  const std::string text =
      "ir_version: 8 " + kNewest +
      " graph { name: 'g' input { name: 's' type { sequence_type { elem_type { tensor_type { "
      "elem_type: 1 } } } } } " +
      node("SequenceLength", "s", "length") + output_list("length") + "}";
  try {
    imported(text);
    FAIL() << "it was taken";
  } catch (const UnsupportedModel& error) {
    EXPECT_THAT(error.what(), HasSubstr("sequence of tensors of unknown rank"));
  }
}

}  // namespace
}  // namespace gantry
