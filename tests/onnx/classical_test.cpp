// Labels, linear models, what prepares features, and maps: ops of ai.onnx.ml against their definitions.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "tests/onnx/classical.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using namespace classical;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OneNode;

constexpr int64_t kWide = (int64_t{1} << 53) + 1;  ///< no double is that number

TEST(LabelEncoder, LooksEveryElementUp) {
  const Inputs x{{"x", {{2, 3}, {3, 1, 7, 2, 1, 0}, DType::kI64}}};
  const std::string keys = integers("keys_int64s", {1, 2, 3});
  expect_near(run("LabelEncoder",
                  keys + integers("values_int64s", {10, -20, 30}) + integer("default_int64", 5), x)[0],
              {30, 10, 5, -20, 10, 5}, 0);
  expect_near(run("LabelEncoder", keys + floats("values_floats", {0.5, 1.5, 2.5}), x)[0],
              {2.5, 0.5, 0, 1.5, 0.5, 0}, 0);
  expect_near(
      run("LabelEncoder", integers("keys_int64s", {1, 2, 1}) + integers("values_int64s", {10, 20, 30}), x)[0],
      {-1, 30, -1, 20, 30, -1}, 0);  // of keys that are repeated the last counts
  const Inputs y{{"x", {{3}, {1.5, std::nan(""), 2}}}};
  const std::string with_nan = attribute("keys_floats", "type: FLOATS floats: 1.5 floats: nan ");
  expect_near(run("LabelEncoder", with_nan + integers("values_int64s", {1, 2}), y)[0], {1, 2, -1}, 0);
}

TEST(LabelEncoder, HasMinusZeroAsItsDefault) {
  const Inputs x{{"x", {{2}, {1, 7}, DType::kI64}}};
  const std::string labels = integers("keys_int64s", {1}) + floats("values_floats", {0});
  const auto signs = [&](const std::string& otherwise) {
    const Values y = run("LabelEncoder", labels + otherwise, x)[0];
    expect_near(y, {0, 0}, 0);
    return std::vector<bool>{std::signbit(y[0]), std::signbit(y[1])};
  };
  EXPECT_THAT(signs(""), ElementsAre(false, true));
  EXPECT_THAT(signs(attribute("default_float", "type: FLOAT f: 0")), ElementsAre(false, false));
}

TEST(LabelEncoder, HasDefaultsOf64Bits) {
  const Inputs x{{"x", {{2}, {1, 7}, DType::kI64}}};
  const std::string labels = integers("keys_int64s", {1}) + integers("values_int64s", {kWide + 2});
  const std::string wide_tensor =
      fmt::format("type: TENSOR t {{ data_type: 7 dims: 1 int64_data: {} }}", kWide);
  for (const std::string& otherwise :
       {integer("default_int64", kWide), attribute("default_tensor", wide_tensor)})
    EXPECT_THAT(run_whole("LabelEncoder", labels + otherwise, x), ElementsAre(kWide + 2, kWide)) << otherwise;
  OneNode mapper("ai.onnx.ml", "CategoryMapper", 16);
  mapper.texts({2}, {"cat", "cow"}).with_texts("cats_strings", {"cat"}).with_list("cats_int64s", {kWide + 2});
  EXPECT_THAT(mapper.with("default_int64", kWide).run<int64_t>(DType::kI64), ElementsAre(kWide + 2, kWide));
}

TEST(LabelEncoder, WhoseDefaultIsNotOneElementOfItsValuesIsRefused) {
  const Inputs x{{"x", {{2}, {1, 7}, DType::kI64}}};
  const std::string keys = integers("keys_int64s", {1}), numbers = integers("values_int64s", {2});
  const std::string texts = attribute("values_strings", "type: STRINGS strings: 'a'");
  const std::string none = "data_type: 7 dims: 0", two = "data_type: 7 dims: 2 int64_data: [1, 2]",
                    word = "data_type: 8 dims: 1 string_data: 'a'";
  const auto error = [&](const std::string& values, const std::string& given) {
    const std::string otherwise = attribute("default_tensor", "type: TENSOR t { " + given + " }");
    return error_of("LabelEncoder", keys + values + otherwise, x);
  };
  for (const std::string& given : {none, two, word})
    EXPECT_THAT(error(numbers, given), HasSubstr("its default_tensor Tensor[(")) << given;
  EXPECT_THAT(error(numbers, none), HasSubstr("should be one number"));
  EXPECT_THAT(error(texts, none), HasSubstr("should be one text"));
}

TEST(LabelEncoder, WhoseKeysAreNoTensorIsRefused) {
  const Inputs x{{"x", {{2}, {1, 7}, DType::kI64}}};
  const std::string attributes = attribute("keys_tensor", "type: TENSOR") + integers("values_int64s", {2});
  EXPECT_THAT(error_of("LabelEncoder", attributes, x),
              HasSubstr("its attribute keys_tensor holds no tensor"));
}

TEST(LinearClassifier, OfOneScoreSaysBothClasses) {
  const Inputs x{{"x", {{3, 2}, {1, 2, -1, 0.5, 0.25, -2}}}};
  const auto y = run("LinearClassifier",
                     floats("coefficients", {0.5, 0.25}) + floats("intercepts", {-0.125}) +
                         integers("classlabels_ints", {7, 9}) + text("post_transform", "LOGISTIC"),
                     x, "label scores");
  Values scores, labels;
  for (size_t row = 0; row < 3; ++row) {
    const Values& v = x[0].second.values;
    const double s = v[row * 2] * 0.5 + v[row * 2 + 1] * 0.25 - 0.125;
    scores.push_back(1 / (1 + std::exp(s)));
    scores.push_back(1 / (1 + std::exp(-s)));
    labels.push_back(s > 0 ? 9 : 7);
  }
  expect_near(y[0], labels, 0);
  expect_near(y[1], scores, 1e-6);
}

TEST(LinearClassifier, OfOneLabelSaysWhetherTheScoreIsPositive) {
  const Inputs x{{"x", {{3, 1}, {2, -1, 0}}}};
  const auto y = run("LinearClassifier", floats("coefficients", {0.5}) + integers("classlabels_ints", {1}), x,
                     "label scores");
  expect_near(y[0], {1, 0, 0}, 0);
  expect_near(y[1], {1, -0.5, 0}, 0);
}

TEST(Binarizer, ComparesIntegersWithFractions) {
  const Inputs x{{"x", {{3}, {-1, 0, 1}, DType::kI64}}};
  const auto above = [&](const char* threshold) {
    return run("Binarizer", attribute("threshold", fmt::format("type: FLOAT f: {}", threshold)), x)[0];
  };
  expect_near(above("-0.5"), {0, 1, 1}, 0);
  expect_near(above("0.5"), {0, 0, 1}, 0);
  expect_near(above("-1"), {0, 1, 1}, 0);
}

// The least and the largest i32 are -2^31 and 2^31 - 1.
TEST(Binarizer, ComparesIntegersWithThresholdsBeyondThem) {
  constexpr double kLeast = -0x1p31, kMost = 0x1p31 - 1;
  const Inputs x{{"x", {{4}, {kLeast, -1, 1, kMost}, DType::kI32}}};
  const std::pair<const char*, Values> cases[] = {
      {"-4294967296", {1, 1, 1, 1}}, {"-inf", {1, 1, 1, 1}},       {"-2147483648", {0, 1, 1, 1}},
      {"2147483648", {0, 0, 0, 0}},  {"4294967296", {0, 0, 0, 0}}, {"inf", {0, 0, 0, 0}},
      {"nan", {0, 0, 0, 0}},
  };
  for (const auto& [threshold, expected] : cases) {
    SCOPED_TRACE(threshold);
    const std::string attributes = attribute("threshold", fmt::format("type: FLOAT f: {}", threshold));
    expect_near(run("Binarizer", attributes, x)[0], expected, 0);
  }
}

TEST(Normalizer, LeavesRowsOfZerosAsTheyAre) {
  const Inputs x{{"x", {{2, 2}, {3, -4, 0, 0}}}};
  expect_near(run("Normalizer", text("norm", "L2"), x)[0], {0.6, -0.8, 0, 0}, 1e-6);
  expect_near(run("Normalizer", text("norm", "L1"), x)[0], {3.0 / 7, -4.0 / 7, 0, 0}, 1e-6);
  expect_near(run("Normalizer", text("norm", "MAX"), x)[0], {1, -4.0 / 3, 0, 0}, 1e-6);
}

TEST(Imputer, FillsWhatIsMissing) {
  const Inputs x{{"x", {{2, 2}, {1, std::nan(""), std::nan(""), 4}}}};
  expect_near(
      run("Imputer",
          floats("imputed_value_floats", {7, 8}) + attribute("replaced_value_float", "type: FLOAT f: nan"),
          x)[0],
      {1, 8, 7, 4}, 0);
}

TEST(Imputer, FillsIntegersOf64Bits) {
  OneNode imputer("ai.onnx.ml", "Imputer", 16);
  imputer.input<int64_t>(DType::kI64, {2, 2}, {kWide, kWide, kWide - 1, 4});
  imputer.with("replaced_value_int64", kWide).with_list("imputed_value_int64s", {kWide + 2, kWide + 4});
  EXPECT_THAT(imputer.run<int64_t>(DType::kI64), ElementsAre(kWide + 2, kWide + 4, kWide - 1, 4));
}

TEST(FeatureVectorizer, CutsAndFillsItsInputs) {
  const Inputs x{{"a", {{2, 2}, {1, 2, 3, 4}}}, {"b", {{2, 1}, {5, 6}}}};
  expect_near(run("FeatureVectorizer", integers("inputdimensions", {1, 3}), x)[0], {1, 5, 0, 0, 3, 6, 0, 0},
              0);
}

TEST(FeatureVectorizer, TakesVectorsAsRows) {
  const Inputs x{{"a", {{3}, {1, 2, 3}}}, {"b", {{2}, {4, 5}}}};
  expect_near(run("FeatureVectorizer", integers("inputdimensions", {3, 2}), x)[0], {1, 2, 3, 4, 5}, 0);
}

TEST(OneHotEncoder, WarnsWhereACategoryThatItDoesNotListShouldBeAnError) {
  const Inputs x{{"x", {{3}, {5, 7, 6}, DType::kI64}}};
  const auto warnings_of = [&](const std::string& attributes) {
    const std::string encoder =
        node("OneHotEncoder", "x", "y", kDomain + integers("cats_int64s", {5, 6}) + attributes);
    std::vector<std::string> warnings;
    ImportOptions options;
    options.warn = [&](const std::string& warning) { warnings.push_back(warning); };
    import_onnx_bytes(parse(encoder, x, "y", kOpsets).SerializeAsString(), ".", options);
    return warnings;
  };
  EXPECT_THAT(warnings_of(integer("zeros", 0)),
              ElementsAre(HasSubstr("(OneHotEncoder): an element that is none of its categories")));
  EXPECT_THAT(warnings_of(integer("zeros", 1)), ElementsAre());
  EXPECT_THAT(warnings_of(""), ElementsAre());
  expect_near(run("OneHotEncoder", integers("cats_int64s", {5, 6}) + integer("zeros", 0), x)[0],
              {1, 0, 0, 0, 0, 1}, 0);
}

// --- maps

TEST(ZipMap, IsTheMatrixOfWhatItsMapsHold) {
  const Inputs x{{"x", {{2, 3}, {1, 2, 3, 4, 5, 6}}}};
  expect_near(run("ZipMap", integers("classlabels_int64s", {7, 8, 9}), x)[0], {1, 2, 3, 4, 5, 6}, 0);
  EXPECT_THROW(run("ZipMap", integers("classlabels_int64s", {7, 8}), x), Error);
}

TEST(ZipMap, OpenColumnsAreAsManyAsItsLabels) {
  const Graph graph = imported_graph(
      open_input("x", "N C") + node("ZipMap", "x", "y", kDomain + integers("classlabels_int64s", {7, 8})),
      "y");
  ASSERT_EQ(graph.main.constraints.size(), 1U);
  const auto& [left, right, origin] = graph.main.constraints.front();
  for (const int64_t columns : {1, 2, 3}) {
    const std::map<std::string, int64_t> sizes{{"C", columns}};
    EXPECT_EQ(left.evaluate(sizes) == right.evaluate(sizes), columns == 2) << columns;
  }
}

}  // namespace
}  // namespace gantry
