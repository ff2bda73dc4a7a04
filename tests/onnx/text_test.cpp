// Ops on strings that ONNX's own tests have not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OneNode;
using Texts = std::vector<std::string>;

Texts texts(const OneNode& node, size_t result = 0) {
  return strings_of(*node.results().at(result));
}

TEST(Texts, AreMatchedAsAWhole) {
  OneNode node("", "RegexFullMatch", 20);
  node.texts({3}, {"www.google.com", "www.facebook.com", "www.bbc.co.uk"})
      .with("pattern", R"(www\.[\w.-]+\.\bcom\b)");
  EXPECT_THAT(node.run<uint8_t>(DType::kBool), ElementsAre(1, 1, 0));
}

TEST(Texts, AreMatchedByFlags) {
  OneNode node("", "RegexFullMatch", 20);
  node.texts({4}, {"abc", "ABC", "abc\nÜber", "abc\nüberx"}).with("pattern", "(?i)abc(?:(?m:$)(?s:.)über)?");
  EXPECT_THAT(node.run<uint8_t>(DType::kBool), ElementsAre(1, 1, 1, 0));
}

TEST(Texts, PatternsThatAreNotKnownAreRefusedWhenTheModelIsRead) {
  OneNode node("", "RegexFullMatch", 20);
  node.texts({1}, {"a"}).with("pattern", R"(\pN)");
  try {
    node.results();
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("node (RegexFullMatch)"));
    EXPECT_THAT(error.what(), HasSubstr("Unicode"));
  }
}

TEST(Texts, AreMovedAsNumbersAre) {
  OneNode transpose("", "Transpose", 13);
  transpose.texts({2, 2}, {"a", "b", "c", "d"});
  EXPECT_THAT(texts(transpose), ElementsAre("a", "c", "b", "d"));
  OneNode concat("", "Concat", 13);
  concat.texts({1}, {"x"}).texts({2}, {"y", "x"}).with("axis", int64_t{0});
  EXPECT_THAT(texts(concat), ElementsAre("x", "y", "x"));
  OneNode gather("", "Gather", 13);
  gather.texts({3}, {"x", "y", "z"}).input<int64_t>(DType::kI64, {2}, {2, -3});
  EXPECT_THAT(texts(gather), ElementsAre("z", "x"));
  OneNode where("", "Where", 16);
  where.input<uint8_t>(DType::kBool, {2}, {1, 0}).texts({2}, {"a", "b"}).texts({1}, {"c"});
  EXPECT_THAT(texts(where), ElementsAre("a", "c"));
}

TEST(Texts, AreOutputsThatNothingComputes) {
  OneNode constant("", "Constant", 13);
  constant.with_texts("value_strings", {"a", "", "\xc3\xa4"});
  EXPECT_THAT(texts(constant), ElementsAre("a", "", "\xc3\xa4"));
  OneNode given("", "OptionalGetElement", 18);
  given.texts({2}, {"x", "y"});
  EXPECT_THAT(texts(given), ElementsAre("x", "y"));
}

TEST(Texts, AreNoNumbers) {
  OneNode add("", "Add", 14);
  add.texts({1}, {"a"}).texts({1}, {"b"});
  EXPECT_THROW(add.results(), Error);
}

TEST(Texts, CastsOfNarrowNumbersGoThroughWiderOnes) {
  OneNode to_bytes("", "Cast", 13);
  to_bytes.texts({3}, {"7", " -8", "127"}).with("to", int64_t{3});
  EXPECT_THAT(to_bytes.run<int8_t>(DType::kI8), ElementsAre(7, -8, 127));
  OneNode from_floats("", "Cast", 13);
  from_floats.input<float>(DType::kF32, {2}, {0.5f, 2}).with("to", int64_t{8});
  EXPECT_THAT(texts(from_floats), ElementsAre("0.5", "2.0"));
}

TEST(Texts, CategoriesMapBothWays) {
  const auto mapper = [] {
    OneNode node("ai.onnx.ml", "CategoryMapper", 16);
    node.with_texts("cats_strings", {"cat", "dog"}).with_list("cats_int64s", {5, 9});
    return node;
  };
  OneNode to_numbers = mapper();
  to_numbers.texts({3}, {"dog", "cow", "cat"}).with("default_int64", int64_t{-2});
  EXPECT_THAT(to_numbers.run<int64_t>(DType::kI64), ElementsAre(9, -2, 5));
  OneNode to_texts = mapper();
  to_texts.input<int64_t>(DType::kI64, {3}, {9, 5, 1}).with("default_string", "?");
  EXPECT_THAT(texts(to_texts), ElementsAre("dog", "cat", "?"));
}

TEST(Texts, LabelsOfTheFirstEncoderAreTheirPlaces) {
  OneNode node("ai.onnx.ml", "LabelEncoder", 16);
  node.texts({3}, {"b", "z", "a"}).with_texts("classes_strings", {"a", "b"});
  EXPECT_THAT(node.run<int64_t>(DType::kI64), ElementsAre(1, -1, 0));
}

TEST(Texts, CategoriesAreOneHot) {
  OneNode node("ai.onnx.ml", "OneHotEncoder", 16);
  node.texts({3}, {"b", "z", "a"}).with_texts("cats_strings", {"a", "b"});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(0, 1, 0, 0, 1, 0));
}

TEST(Texts, NGramsOfWordsAreCounted) {
  OneNode node("", "TfIdfVectorizer", 9);
  node.texts({6}, {"the", "cat", "the", "dog", "the", "cat"})
      .with("mode", "TF")
      .with("min_gram_length", int64_t{1})
      .with("max_gram_length", int64_t{2})
      .with("max_skip_count", int64_t{0})
      .with_list("ngram_counts", {0, 2})
      .with_list("ngram_indexes", {0, 1, 2, 3})
      .with_texts("pool_strings", {"cat", "cow", "the", "cat", "dog", "the"});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(2, 0, 2, 1));
}

OneNode tokenizer(const char* pattern, int64_t least = 1, int64_t mark = 0) {
  OneNode node("com.microsoft", "Tokenizer", 16);
  node.with("tokenexp", pattern).with("mincharnum", least).with("mark", mark).with("pad_value", "#");
  return node;
}

// What is expected of Tokenizer is what ONNX Runtime 1.32 gives.
TEST(Texts, AreDividedIntoTokens) {
  OneNode words = tokenizer("[a-zA-Z0-9_]+");
  words.texts({3, 1}, {"the quick, b fox", "d\xc3\x96g's a", ""});
  EXPECT_THAT(texts(words), ElementsAre("the", "quick", "b", "fox", "d", "g", "s", "a", "#", "#", "#", "#"));
  OneNode long_ones = tokenizer(R"(\w+)", 2, 1);
  long_ones.texts({2}, {"the quick, b fox", "d"});
  EXPECT_THAT(texts(long_ones),
              ElementsAre("\x02", "the", "quick", "fox", "\x03", "\x02", "\x03", "#", "#", "#"));
  OneNode characters("com.microsoft", "Tokenizer", 16);
  characters.texts({2}, {"\xc3\x96g", "\n"})
      .with_texts("separators", {""})
      .with("mincharnum", int64_t{1})
      .with("mark", int64_t{1})
      .with("pad_value", "<p>");
  EXPECT_THAT(texts(characters), ElementsAre("\x02", "\xc3\x96", "g", "\x03", "\x02", "\n", "\x03", "<p>"));
}

TEST(Texts, TokensAreAsLongAsTheyCanBe) {
  OneNode alternatives = tokenizer("a|ab");
  alternatives.texts({1}, {"ababx"});
  EXPECT_THAT(texts(alternatives), ElementsAre("ab", "ab"));
  OneNode bounded = tokenizer(R"(\b[a-z]+\b)", 3);
  bounded.texts({1}, {"ab abc abcde"});
  EXPECT_THAT(texts(bounded), ElementsAre("abc", "abcde"));
  OneNode first = tokenizer("^[a-z]+", 2);
  first.texts({1}, {"ab abc"});
  EXPECT_THAT(texts(first), ElementsAre("ab"));
}

TEST(Texts, MayHaveNoTokens) {
  for (const char* pattern : {R"(\w+)", "x*"}) {
    OneNode none = tokenizer(pattern, 1, 1);
    none.texts({2}, {"  ", ""});
    EXPECT_THAT(texts(none), ElementsAre()) << pattern;
  }
}

TEST(Texts, CharactersThatLookLikeRepetitionsAreNone) {
  OneNode escaped = tokenizer(R"(a\*?)");
  escaped.texts({1}, {"a*a?"});
  EXPECT_THAT(texts(escaped), ElementsAre("a*", "a"));
  OneNode one_of = tokenizer("a[*?]?");
  one_of.texts({1}, {"a*a?"});
  EXPECT_THAT(texts(one_of), ElementsAre("a*", "a?"));
}

TEST(Texts, TokensAreNoShorterWherePatternsPreferThat) {
  for (const char* pattern : {"a+?", "(?U)a+", "a??a*?"}) {
    OneNode lazy = tokenizer(pattern);
    lazy.texts({1}, {"aaa ba"});
    EXPECT_THAT(texts(lazy), ElementsAre("aaa", "a")) << pattern;
  }
}

TEST(Texts, TokensAreFoundByFlags) {
  OneNode cases = tokenizer("(?i)ab");
  cases.texts({1}, {"abcAb"});
  EXPECT_THAT(texts(cases), ElementsAre("ab", "Ab"));
  OneNode lines = tokenizer(R"((?m)^\w+)");
  lines.texts({1}, {"ab c\nde f"});
  EXPECT_THAT(texts(lines), ElementsAre("ab", "de"));
}

TEST(Texts, OfOpenRowsOnlyOneIsNormalised) {
  constexpr int kString = 8;
  const Graph graph = model_text::imported_graph(
      model_text::open_input("x", "N 3", kString) + model_text::node("StringNormalizer", "x", "y"), "y");
  const auto takes = [&](int64_t rows) {
    const std::map<std::string, int64_t> sizes{{"N", rows}};
    return std::ranges::all_of(graph.main.constraints, [&](const DimConstraint& c) {
      return c.left.evaluate(sizes) == c.right.evaluate(sizes);
    });
  };
  EXPECT_TRUE(takes(1));
  EXPECT_FALSE(takes(2));
}

TEST(Texts, SeparatorsOfTokensAreRefused) {
  OneNode divided("com.microsoft", "Tokenizer", 16);
  divided.texts({1}, {"a b"}).with_texts("separators", {" "});
  EXPECT_THROW(divided.results(), Error);
}

}  // namespace
}  // namespace gantry
