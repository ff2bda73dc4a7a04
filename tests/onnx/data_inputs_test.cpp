// Inputs that steer shapes, axes and positions and that only the running model knows, against the same models
// in which they are known.
#include <cmath>
#include <complex>
#include <numbers>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT
using Values = std::vector<double>;

/// The input as an initialiser.
std::string known(const std::string& name, const Given& given) {
  const int type = given.dtype == DType::kF32 ? 1 : given.dtype == DType::kI32 ? 6 : 7;
  const char* field = type == 1 ? "float_data" : type == 6 ? "int32_data" : "int64_data";
  std::string text = fmt::format("initializer {{ name: '{}' data_type: {} ", name, type);
  for (int64_t d : given.shape) text += fmt::format("dims: {} ", d);
  for (double v : given.values) text += fmt::format("{}: {} ", field, v);
  return text + "} ";
}

/// Results of one node whose inputs after the first are data, and of the same node that knows them.
void expect_same_as_known(const std::string& op, const std::string& attributes, const Inputs& inputs,
                          double tolerance) {
  std::string names, initialisers;
  for (const auto& [name, given] : inputs) names += (given.values.empty() ? "-" : name) + " ";
  Inputs given;
  for (const auto& input : inputs) {
    if (!input.second.values.empty()) given.push_back(input);
  }
  for (size_t i = 1; i < given.size(); ++i) initialisers += known(given[i].first, given[i].second);
  const Inputs first{given[0]};
  const auto expected =
      results(parse(initialisers + node(op, names, "y", attributes), first, "y", kNewest), first)[0];
  const auto actual = results(parse(node(op, names, "y", attributes), given, "y", kNewest), given)[0];
  expect_near(actual, expected, tolerance);
}

std::string text_attribute(const std::string& name, const std::string& value) {
  return attribute(name, fmt::format("type: STRING s: '{}'", value));
}

// --- Resize

class ResizeOfModes : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

// Known ones are taken for the fractions that they were rounded from.
TEST_P(ResizeOfModes, IsThatOfKnownScales) {
  const std::string attributes = text_attribute("mode", std::get<0>(GetParam())) +
                                 text_attribute("coordinate_transformation_mode", std::get<1>(GetParam()));
  const Given x = random({1, 2, 5, 4}, 3);
  for (const Values& scales : {Values{1, 1, 1.6, 2.5}, Values{1, 1, 0.6, 0.75}, Values{1, 1, 2, 1}})
    expect_same_as_known("Resize", attributes, {{"x", x}, {"r", {}}, {"s", {{4}, scales}}}, 2e-6);
}
TEST_P(ResizeOfModes, IsThatOfKnownSizes) {
  const std::string attributes = text_attribute("mode", std::get<0>(GetParam())) +
                                 text_attribute("coordinate_transformation_mode", std::get<1>(GetParam()));
  const Inputs inputs{
      {"x", random({1, 2, 5, 4}, 3)}, {"r", {}}, {"s", {}}, {"z", {{4}, {1, 2, 8, 3}, DType::kI64}}};
  expect_same_as_known("Resize", attributes, inputs, 1e-6);
}
INSTANTIATE_TEST_SUITE_P(Modes, ResizeOfModes,
                         ::testing::Combine(::testing::Values("nearest", "linear", "cubic"),
                                            ::testing::Values("half_pixel", "half_pixel_symmetric",
                                                              "pytorch_half_pixel", "align_corners",
                                                              "asymmetric")));

TEST(ResizeByData, AntialiasesAsFarAsTheScaleSays) {
  const Given x = random({1, 1, 9, 7}, 3);
  for (const char* mode : {"linear", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "align_corners", "asymmetric"}) {
      const std::string attributes = text_attribute("mode", mode) + integer("antialias", 1) +
                                     text_attribute("coordinate_transformation_mode", coordinates);
      expect_same_as_known("Resize", attributes, {{"x", x}, {"r", {}}, {"s", {{4}, {1, 1, 0.4, 1.5}}}}, 1e-5);
      expect_same_as_known("Resize", attributes,
                           {{"x", x}, {"r", {}}, {"s", {}}, {"z", {{4}, {1, 1, 4, 9}, DType::kI64}}}, 1e-5);
    }
  }
}
TEST(ResizeByData, TakesARegionThatIsData) {
  const std::string attributes = text_attribute("mode", "linear") +
                                 text_attribute("coordinate_transformation_mode", "tf_crop_and_resize") +
                                 attribute("extrapolation_value", "type: FLOAT f: 7") +
                                 attribute("axes", "type: INTS ints: [3, 2]");
  const Given x = random({1, 1, 5, 6}, 3), region{{4}, {0.4, -0.2, 0.9, 0.6}};
  for (const Values& sizes : {Values{3, 4}, Values{1, 6}})
    expect_same_as_known("Resize", attributes,
                         {{"x", x}, {"r", region}, {"s", {}}, {"z", {{2}, sizes, DType::kI64}}}, 1e-6);
}
// By hand: half as wide, the kernel reaches over two elements at each side, of weights 1/4, 1/2, 1/4 and 0;
// those before the data are the first. An axis that stays, of any extent, is read as it is.
TEST(ResizeByData, AntialiasesARegionThatIsDataOfAnyNumberOfImages) {
  const std::string attributes = text_attribute("mode", "linear") + integer("antialias", 1) +
                                 text_attribute("coordinate_transformation_mode", "tf_crop_and_resize") +
                                 attribute("axes", "type: INTS ints: [3]");
  const Given region{{2}, {0, 1}};
  const std::string nodes = open_input("x", "N 1 1 4") + region.declared("r") +
                            known("z", {{1}, {2}, DType::kI64}) + node("Resize", "x r - z", "y", attributes);
  const Graph graph = imported_graph(nodes, "y");
  const Given x{{3, 1, 1, 4}, {0, 4, 8, 20, 1, 1, 1, 1, -4, 0, 0, 8}};
  const ConstantPtr y = testing::interpret_function(graph.main, {x.constant(), region.constant()}).at(0);
  ASSERT_EQ(y->type.shape, (Shape{3, 1, 1, 2}));
  expect_near({y->as<float>(), y->as<float>() + 6}, {1, 17, 1, 1, -3, 6}, 1e-5);
}
TEST(ResizeByData, KeepsTheAspectRatio) {
  for (const char* policy : {"not_larger", "not_smaller"}) {
    const std::string attributes = text_attribute("keep_aspect_ratio_policy", policy) +
                                   text_attribute("mode", "linear") +
                                   attribute("axes", "type: INTS ints: [2, 3]");
    expect_same_as_known(
        "Resize", attributes,
        {{"x", random({1, 1, 4, 6}, 3)}, {"r", {}}, {"s", {}}, {"z", {{2}, {7, 8}, DType::kI64}}}, 1e-6);
  }
}
TEST(ResizeByData, ReadsTheMiddleOfAnElementForNearestNeighbours) {
  // tf_half_pixel_for_nn: floor((i + 0.5) * 7 / 3) of 7 elements is 1, 3, 5.
  const Inputs inputs{{"x", {{1, 1, 1, 7}, {0, 1, 2, 3, 4, 5, 6}}}, {"z", {{4}, {1, 1, 1, 3}, DType::kI64}}};
  const std::string attributes = text_attribute("coordinate_transformation_mode", "tf_half_pixel_for_nn") +
                                 text_attribute("nearest_mode", "floor");
  const auto y =
      results(parse(node("Resize", "x - - z", "y", attributes), inputs, "y", "opset_import { version: 12 } "),
              inputs)[0];
  expect_near(y, {1, 3, 5}, 0);
}
TEST(ResizeByData, OfSymmetricHalfPixelsKeepsPositionsThatAreIntegers) {
  // 5 elements by 0.5 are 2, at 1 and 3; 3 by 1.5 are 4, at 0, 2/3, 4/3 and 2.
  const std::pair<const char*, Values> of_three[] = {{"floor", {0, 0, 1, 2}}, {"ceil", {0, 1, 2, 2}}};
  for (const auto& [rounding, expected] : of_three) {
    const std::string attributes = text_attribute("coordinate_transformation_mode", "half_pixel_symmetric") +
                                   text_attribute("nearest_mode", rounding);
    const auto resized = [&](const Given& x, double scale) {
      const Inputs inputs{{"x", x}, {"s", {{4}, {1, 1, 1, scale}}}};
      return results(
          parse(node("Resize", "x - s", "y", attributes), inputs, "y", "opset_import { version: 19 } "),
          inputs)[0];
    };
    expect_near(resized({{1, 1, 1, 5}, {0, 1, 2, 3, 4}}, 0.5), {1, 3}, 0);
    expect_near(resized({{1, 1, 1, 3}, {0, 1, 2}}, 1.5), expected, 0);
  }
}
/// The row 0, 1, … resized by that scale, which is known or data.
Values resized_row(int64_t extent, double scale, const std::string& attributes, bool is_known) {
  Values row;
  for (int64_t i = 0; i < extent; ++i) row.push_back(static_cast<double>(i));
  const Given scales{{4}, {1, 1, 1, scale}};
  Inputs inputs{{"x", {{1, 1, 1, extent}, row}}};
  if (!is_known) inputs.push_back({"s", scales});
  const std::string nodes = (is_known ? known("s", scales) : "") + node("Resize", "x - s", "y", attributes);
  return results(parse(nodes, inputs, "y", "opset_import { version: 19 } "), inputs)[0];
}
// 1 / 0.2 is 5 in f32 too, though the f32 nearest to 0.2 is more than that.
TEST(ResizeByF32, ReadsTheElementOnWhichAPositionLies) {
  const std::string attributes = text_attribute("coordinate_transformation_mode", "asymmetric") +
                                 text_attribute("nearest_mode", "floor");
  for (const bool is_known : {true, false}) {
    expect_near(resized_row(10, 0.2, attributes, is_known), {0, 5}, 0);
    expect_near(resized_row(9, 1.0 / 3, attributes, is_known), {0, 3, 6}, 0);
    expect_near(resized_row(12, 1.0 / 6, attributes, is_known), {0, 6}, 0);
    expect_near(resized_row(20, 0.1, attributes, is_known), {0, 10}, 0);
  }
  expect_near(resized_row(14, 1.0 / 7, attributes, true), {0, 7}, 0);
}
// 21 / 7 is 3 elements, at both ends and in the middle.
TEST(ResizeByF32, AlignsCornersOfWholeExtents) {
  const std::string attributes = text_attribute("coordinate_transformation_mode", "align_corners") +
                                 text_attribute("nearest_mode", "floor");
  for (const bool is_known : {true, false})
    expect_near(resized_row(21, 1.0 / 7, attributes, is_known), {0, 10, 20}, 0);
}
// 90 * 1.3 is 116.99999 in f32, the others are whole.
TEST(ResizeByF32, HasTheExtentOfTheProductInF32) {
  struct Case {
    int64_t extent;
    double scale;
    int64_t resized;
  };
  for (const Case& c : {Case{100, 0.7, 70}, {50, 0.9, 45}, {30, 1.3, 39}, {90, 1.3, 116}, {10, 0.2, 2}}) {
    for (const bool is_known : {true, false})
      EXPECT_EQ(std::ssize(resized_row(c.extent, c.scale, "", is_known)), c.resized) << c.scale;
    const std::string scales = known("s", {{4}, {1, 1, 1, c.scale}});
    const Graph graph =
        imported_graph(open_input("x", "1 1 1 W") + scales + node("Resize", "x - s", "y"), "y");
    const Given x = random({1, 1, 1, c.extent}, 3);
    const ConstantPtr y = testing::interpret_function(graph.main, {x.constant()}).at(0);
    EXPECT_EQ(y->type.shape[3], Dim(c.resized)) << c.extent << " by " << c.scale;
  }
}
// The f64 nearest to 1 / step may be more than that.
TEST(ResizeBySizes, ReadsTheElementOnWhichAPositionLies) {
  const std::string attributes = text_attribute("coordinate_transformation_mode", "asymmetric") +
                                 text_attribute("nearest_mode", "floor");
  for (const int64_t step : {49, 103, 107, 161, 187, 197, 237, 239}) {
    const Given x{{1, 1, 1, 2 * step}, Values(static_cast<size_t>(2 * step), 0)};
    Inputs inputs{{"x", x}, {"z", {{4}, {1, 1, 1, 2}, DType::kI64}}};
    for (size_t i = 0; i < x.values.size(); ++i) inputs[0].second.values[i] = static_cast<double>(i);
    const std::string resize = node("Resize", "x - - z", "y", attributes);
    expect_near(results(parse(resize, inputs, "y", kNewest), inputs)[0], {0, static_cast<double>(step)}, 0);
  }
}
// As ONNX Runtime computes it, and ONNX's own test of that operator set has it.
TEST(Resize10, RoundsUpWhereAnAxisShrinksAndDownWhereItGrows) {
  const std::pair<Values, Values> cases[] = {{{1, 1, 0.6, 0.6}, {1, 3}},
                                             {{1, 1, 1, 1.5}, {1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8}}};
  const std::string opset = "opset_import { version: 10 } ";
  for (const auto& [scales, expected] : cases) {
    Inputs inputs{{"x", {{1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}}};
    const std::string resize = node("Resize", "x s", "y"), by = known("s", {{4}, scales});
    expect_near(results(parse(by + resize, inputs, "y", opset), inputs)[0], expected, 0);
    inputs.push_back({"s", {{4}, scales}});
    expect_near(results(parse(resize, inputs, "y", opset), inputs)[0], expected, 0);
  }
}
TEST(UpsampleByData, RepeatsElements) {
  const Inputs inputs{{"x", {{1, 1, 2, 2}, {1, 2, 3, 4}}}, {"s", {{4}, {1, 1, 2, 3}}}};
  const auto y =
      results(parse(node("Upsample", "x s", "y"), inputs, "y", "opset_import { version: 9 } "), inputs)[0];
  expect_near(y, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4}, 0);
}

// --- lists whose length is data

/// A list of axes of unknown length, or what a value of that rank is declared as.
std::string declared_list(const std::string& name) {
  return fmt::format(
      "input {{ name: '{}' type {{ tensor_type {{ elem_type: 7 shape {{ dim {{ dim_param: 'length' }} }} }} "
      "}} }} ",
      name);
}
std::string declared_rank(const std::string& name, int rank) {
  std::string text =
      fmt::format("value_info {{ name: '{}' type {{ tensor_type {{ elem_type: 1 shape {{ ", name);
  for (int i = 0; i < rank; ++i) text += "dim { } ";
  return text + "} } } } ";
}

/// The node's result, of x and a list.
Values by_list(const std::string& op, const Given& x, const Values& list, const std::string& rest) {
  const std::string text = declared_list("list") + node(op, "x list", "y", rest);
  const Graph graph = import_onnx_bytes(parse(text, {{"x", x}}, "y", kNewest).SerializeAsString(), ".");
  const Given entries{{static_cast<int64_t>(list.size())}, list, DType::kI64};
  const ConstantPtr y = testing::interpret_function(graph.main, {x.constant(), entries.constant()}).at(0);
  return {y->as<float>(), y->as<float>() + y->size / sizeof(float)};
}

Values sums(const Given& x, const std::vector<bool>& over) {
  const auto& s = x.shape;
  std::vector<int64_t> left;
  for (size_t i = 0; i < 3; ++i) left.push_back(over[i] ? 1 : s[i]);
  Values result(static_cast<size_t>(left[0] * left[1] * left[2]), 0);
  for (int64_t i = 0; i < s[0]; ++i)
    for (int64_t j = 0; j < s[1]; ++j)
      for (int64_t k = 0; k < s[2]; ++k)
        result[static_cast<size_t>(((over[0] ? 0 : i) * left[1] + (over[1] ? 0 : j)) * left[2] +
                                   (over[2] ? 0 : k))] +=
            x.values[static_cast<size_t>((i * s[1] + j) * s[2] + k)];
  return result;
}

TEST(ReductionOverAList, TakesAnyNumberOfAxes) {
  const Given x = random({2, 3, 4}, 5);
  expect_near(by_list("ReduceSum", x, {1}, ""), sums(x, {false, true, false}), 1e-5);
  expect_near(by_list("ReduceSum", x, {-1, 0}, ""), sums(x, {true, false, true}), 1e-5);
  expect_near(by_list("ReduceSum", x, {}, ""), sums(x, {true, true, true}), 1e-5);
  expect_near(by_list("ReduceSum", x, {}, integer("noop_with_empty_axes", 1)), x.values, 0);
}
TEST(ReductionOverAList, TakesTheRankOfItsResultFromItsDeclaration) {
  const Given x = random({2, 3, 4}, 5);
  const std::string gone = integer("keepdims", 0);
  const auto reduced = [&](const Values& axes, int rank) {
    const std::string text = declared_list("list") + declared_rank("t", rank) +
                             node("ReduceSum", "x list", "t", gone) + node("Neg", "t", "y");
    const Graph graph = import_onnx_bytes(parse(text, {{"x", x}}, "y", kNewest).SerializeAsString(), ".");
    const Given entries{{static_cast<int64_t>(axes.size())}, axes, DType::kI64};
    const ConstantPtr y = testing::interpret_function(graph.main, {x.constant(), entries.constant()}).at(0);
    EXPECT_EQ(y->type.rank(), rank);
    Values values(y->as<float>(), y->as<float>() + y->size / sizeof(float));
    for (double& v : values) v = -v;
    return values;
  };
  expect_near(reduced({1}, 2), sums(x, {false, true, false}), 1e-5);
  expect_near(reduced({0, 2}, 1), sums(x, {true, false, true}), 1e-5);
  expect_near(reduced({}, 0), sums(x, {true, true, true}), 1e-5);
  EXPECT_THROW(reduced({0}, 1), Error);  // two dimensions would be left
}
TEST(ReductionOverAList, WithoutADeclarationSaysWhatItNeeds) {
  try {
    by_list("ReduceSum", random({2, 3, 4}, 5), {1}, integer("keepdims", 0));
    FAIL() << "it has no rank";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("whose declared shape does not say how many stay"),
              std::string::npos)
        << error.what();
  }
}
TEST(ListOfUndeclaredLength, HasTheOneThatTheOpTakes) {
  const Given x{{2, 3}, {1, 5, 2, 7, 0, 3}};
  expect_near(by_list("CumSum", x, {1}, ""), {1, 6, 8, 7, 7, 10}, 0);
  expect_near(by_list("CumSum", x, {0}, ""), {1, 5, 2, 8, 5, 5}, 0);
  expect_near(by_list("TopK", x, {2}, ""), {5, 2, 7, 3}, 0);
  expect_near(by_list("CenterCropPad", x, {2, 1}, ""), {5, 0}, 0);
  expect_near(by_list("CenterCropPad", x, {2, 5}, ""), {0, 1, 5, 2, 0, 0, 7, 0, 3, 0}, 0);
}
TEST(SliceByLists, TakesAnyNumberOfBounds) {
  const Given x = random({2, 3, 4}, 5);
  const std::string text =
      declared_list("list") + declared_list("other") + node("Slice", "x list other", "y");
  const Graph graph = import_onnx_bytes(parse(text, {{"x", x}}, "y", kNewest).SerializeAsString(), ".");
  const auto sliced = [&](const Values& starts, const Values& ends) {
    const auto list = [](const Values& v) {
      return Given{{static_cast<int64_t>(v.size())}, v, DType::kI64}.constant();
    };
    const ConstantPtr y =
        testing::interpret_function(graph.main, {x.constant(), list(starts), list(ends)}).at(0);
    return Values(y->as<float>(), y->as<float>() + y->size / sizeof(float));
  };
  expect_near(sliced({}, {}), x.values, 0);
  expect_near(sliced({1}, {2}), {x.values.begin() + 12, x.values.end()}, 0);
  expect_near(sliced({0, -1, 1}, {1, 9, -1}), {x.values[9], x.values[10]}, 0);
}
TEST(SliceByData, OfAStepOfZeroOrAnAxisThatThereIsNotIsAnError) {
  const auto sliced = [](double axis, double step) {
    Inputs inputs{{"x", random({3, 4}, 1)}};
    for (const auto& [name, value] : {std::pair("start", 0.0), {"end", 2.0}, {"axis", axis}, {"step", step}})
      inputs.push_back({name, {{1}, {value}, DType::kI64}});
    return results(parse(node("Slice", "x start end axis step", "y"), inputs, "y", kNewest), inputs)[0];
  };
  EXPECT_EQ(sliced(-2, 1).size(), 8u);
  EXPECT_EQ(sliced(1, 1).size(), 6u);
  EXPECT_THROW(sliced(1, 0), Error);
  EXPECT_THROW(sliced(2, 1), Error);
  EXPECT_THROW(sliced(-3, 1), Error);
}

TEST(TileOfAList, HasAsManyRepeatsAsAxes) {
  expect_near(by_list("Tile", {{1, 2}, {1, 2}}, {2, 3}, ""), {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, 0);
}

// --- amounts of both signs

TEST(PadByData, CutsAndFillsEveryAxis) {
  const Given x = random({2, 3, 4, 5}, 3);
  for (const char* mode : {"constant", "edge", "reflect", "wrap"})
    expect_same_as_known("Pad", text_attribute("mode", mode),
                         {{"x", x}, {"p", {{8}, {1, 0, -1, 2, 0, 2, 1, -2}, DType::kI64}}}, 0);
}
TEST(PadByData, ReadsNothingOutsideOfItsData) {
  const auto padded = [](const char* mode, double before, double after) {
    const Inputs inputs{{"x", {{3}, {1, 2, 3}}}, {"p", {{2}, {before, after}, DType::kI64}}};
    const std::string nodes = node("Pad", "x p", "y", text_attribute("mode", mode));
    return results(parse(nodes, inputs, "y", kNewest), inputs)[0];
  };
  expect_near(padded("reflect", 2, 1), {3, 2, 1, 2, 3, 2}, 0);
  EXPECT_THROW(padded("reflect", 5, 0), Error);
  EXPECT_THROW(padded("reflect", 0, 3), Error);
  expect_near(padded("reflect", -2, 0), {3}, 0);
  expect_near(padded("wrap", 5, 0), {2, 3, 1, 2, 3, 1, 2, 3}, 0);
  expect_near(padded("edge", 1, -2), {1, 1}, 0);
}
// Rows are 4 5 6, 7 8 9 and zeros where the first one is cut; below the diagonal of -1 there is the 7.
TEST(PadByData, AmountsMayBeADiagonalTooThatIsNegative) {
  const Inputs inputs{{"x", {{3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}}, {"p", {{4}, {-1, 0, 1, 0}, DType::kI64}}};
  const std::string nodes = known("first", {{}, {0}, DType::kI64}) + node("Pad", "x p", "y") +
                            node("Gather", "p first", "k") + node("Trilu", "y k", "z", integer("upper", 0));
  expect_near(results(parse(nodes, inputs, "z", kNewest), inputs)[0], {0, 0, 0, 7, 0, 0, 0, 0, 0}, 0);
}
TEST(PadByData, AmountsThatAreSizesTooMustNotBeNegative) {
  const std::string nodes =
      node("Pad", "x p", "a") + node("ConstantOfShape", "p", "b") + node("Size", "b", "c");
  const auto run = [&](const Values& amounts) {
    const Inputs inputs{{"x", random({3}, 1)}, {"p", {{2}, amounts, DType::kI64}}};
    return results(parse(nodes, inputs, "a b", kNewest), inputs);
  };
  EXPECT_EQ(run({1, 2})[0].size(), 6u);
  EXPECT_EQ(run({1, 2})[1].size(), 2u);
  EXPECT_THROW(run({-1, 2}), Error);
}

TEST(OneHotByData, HasAsManyClassesAsAPadOfTheSameNumberAdds) {
  const Graph graph =
      imported_graph(open_input("i", "2", 7) + open_input("d", "1", 7) + open_input("x", "2 3") +
                         known("on", {{2}, {0, 1}}) + known("none", {{3}, {0, 0, 0}, DType::kI64}) +
                         node("OneHot", "i d on", "y") + node("Concat", "none d", "p", integer("axis", 0)) +
                         node("Pad", "x p", "z"),
                     "y z");
  const Dim classes = graph.main.outputs[0]->type.shape.at(1);
  EXPECT_TRUE(classes.is_symbol());
  EXPECT_EQ(graph.main.outputs[1]->type.shape.at(1), classes + 3);
}

// --- element types

// Of 2^32 + 2 the lower 32 bits are 2.
TEST(SizesOfI32, AreWhatTheCastLeavesOfData) {
  const Inputs inputs{{"d", {{1}, {0x1p32 + 2}, DType::kI64}}};
  const std::string nodes = node("Cast", "d", "narrow", integer("to", 6)) +
                            node("Cast", "narrow", "size", integer("to", 7)) +
                            node("ConstantOfShape", "size", "y");
  expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], {0, 0}, 0);
}
TEST(SizesOfI32, AreDimensionsWhereTheyAreMadeOfThem) {
  const Graph graph = imported_graph(
      open_input("x", "N 3") + open_input("d", "1", 7) + node("Shape", "x", "n") +
          node("Concat", "n d", "both", integer("axis", 0)) +
          node("Cast", "both", "narrow", integer("to", 6)) +
          node("Cast", "narrow", "size", integer("to", 7)) + node("ConstantOfShape", "size", "y"),
      "y");
  const Shape& shape = graph.main.outputs[0]->type.shape;
  ASSERT_EQ(shape.size(), 3u);
  EXPECT_EQ(shape[0], Dim::symbol("N"));
  EXPECT_EQ(shape[1], Dim(3));
  EXPECT_TRUE(shape[2].is_symbol());
}
// Of d[K:4] and d[:K] the lengths are open, and 4 together.
TEST(SizesOfI32, MayBePutTogetherOfPartsOfOpenLengths) {
  const std::string parts = open_input("x", "K") + open_input("d", "4", 7) +
                            known("none", {{1}, {0}, DType::kI64}) + known("four", {{1}, {4}, DType::kI64}) +
                            node("Shape", "x", "k") + node("Slice", "d k four", "tail") +
                            node("Slice", "d none k", "head");
  const std::string as_given = node("Concat", "tail head", "size", integer("axis", 0));
  const std::string narrowed = node("Cast", "tail", "tail32", integer("to", 6)) +
                               node("Cast", "head", "head32", integer("to", 6)) +
                               node("Concat", "tail32 head32", "both", integer("axis", 0)) +
                               node("Cast", "both", "size", integer("to", 7));
  for (const std::string& sizes : {as_given, narrowed}) {
    const Graph graph = imported_graph(parts + sizes + node("ConstantOfShape", "size", "y"), "y");
    EXPECT_EQ(graph.main.outputs[0]->type.rank(), 4) << sizes;
  }
}

// --- branches

// What NonZero of constants counts is a constant that the branch drops when it is whole: what the other
// branch reads first comes to lie where that lay.
TEST(SizesInABranch, AreNotThoseOfTheOther) {
  const auto branch = [](const std::string& nodes, const std::string& result) {
    return "type: GRAPH g { name: 'b' " + nodes + output_list(result) + "}";
  };
  const std::string places = node("ConstantOfShape", "five", "zeros") + node("NonZero", "zeros", "table") +
                             node("Squeeze", "table first", "row") +
                             node("Cast", "row", "a", integer("to", 1));
  const std::string nodes =
      known("five", {{1}, {5}, DType::kI64}) + known("first", {{1}, {0}, DType::kI64}) +
      node("Cast", "k", "c", integer("to", 9)) +
      node("If", "c", "y",
           attribute("then_branch", branch(places, "a")) +
               attribute("else_branch", branch(node("ConstantOfShape", "count", "b"), "b")));
  const Inputs inputs{{"k", {{}, {0}, DType::kI64}}, {"count", {{1}, {2}, DType::kI64}}};
  expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], {0, 0}, 0);
}

// --- signals

TEST(DftByData, IsAlongAnyAxisAndOfAnyLength) {
  for (const Values& axis : {Values{0}, Values{1}, Values{-2}})
    for (const char* onesided : {"0", "1"})
      expect_same_as_known(
          "DFT", attribute("onesided", fmt::format("type: INT i: {}", onesided)),
          {{"x", random({3, 6, 5, 1}, 3)}, {"n", {{}, {7}, DType::kI64}}, {"a", {{}, axis, DType::kI64}}},
          1e-4);
  expect_same_as_known("DFT", integer("inverse", 1),
                       {{"x", random({3, 6, 2}, 3)}, {"n", {}}, {"a", {{1}, {0}, DType::kI64}}}, 1e-5);
}
TEST(DftByData, InvertsHalfASpectrumOfUnknownLength) {
  for (const double length : {1.0, 2.0, 5.0, 8.0})
    expect_same_as_known("DFT", integer("inverse", 1) + integer("onesided", 1),
                         {{"x", random({2, 5, 2}, 3)}, {"n", {{}, {length}, DType::kI64}}}, 1e-5);
}
TEST(StftByData, MovesByStepsThatAreData) {
  const Given x = random({1, 20, 1}, 3), window = random({6}, 4);
  expect_same_as_known("STFT", "", {{"x", x}, {"s", {{}, {3}, DType::kI64}}, {"w", window}}, 1e-4);
  expect_same_as_known("STFT", integer("onesided", 0),
                       {{"x", x}, {"s", {{}, {4}, DType::kI64}}, {"w", {}}, {"l", {{}, {8}, DType::kI64}}},
                       1e-4);
}
TEST(Col2ImByData, PutsBlocksOfAnySizeBack) {
  expect_same_as_known(
      "Col2Im", attribute("strides", "type: INTS ints: [2, 1]"),
      {{"x", random({1, 12, 4}, 3)}, {"i", {{2}, {5, 4}, DType::kI64}}, {"b", {{2}, {2, 3}, DType::kI64}}},
      1e-6);
}

}  // namespace
}  // namespace gantry
