// Patterns of RE2's syntax. What is expected is what RE2 of 2025-11-05 gives, asked through its Python
// binding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device_runtime/builtins/pattern.h"

namespace gantry::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  std::string_view pattern;
  std::string_view text;
  bool expected;
};

void expect_all(std::initializer_list<Case> cases) {
  for (const Case& each : cases) {
    const auto compiled = Pattern::compile(each.pattern);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_EQ(compiled.value().matches(each.text), each.expected) << each.pattern << " and " << each.text;
  }
}

std::string refusal(std::string_view pattern) {
  const auto compiled = Pattern::compile(pattern);
  EXPECT_FALSE(compiled.ok()) << pattern;
  EXPECT_EQ(compiled.status().code(), GANTRY_INVALID_ARGUMENT);
  return compiled.status().message();
}

TEST(TextPatterns, AreRe2s) {
  expect_all({{R"(www\.[\w.-]+\.\bcom\b)", "www.google.com", true},
              {R"(www\.[\w.-]+\.\bcom\b)", "www.bbc.co.uk", false},
              {R"((\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$))", "account@gmail.com", true},
              {R"((\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$))", "account@hotmail.com", false},
              {".", "é", true},
              {".", "\n", false},
              {R"(\Qa.c\E)", "a.c", true},
              {R"(\Qa.c\E)", "abc", false},
              {R"(\Qab\E+)", "abb", true},
              {R"(\Qa\)", "a\\", true},
              {R"(\Aab\z)", "ab", true},
              {"^ab$", "ab\n", false},
              {"(?P<n>a)(?<m>b)(?:c)", "abc", true},
              {"日本+", "日本本", true},
              {"", "", true},
              {"a||b", "", true},
              {"(a*)+b", "aab", true},
              {"(|a)*", "aa", true},
              {"((a|b)*|c)*d", "abcd", true}});
}

TEST(TextPatterns, RepeatAsOftenAsTheySay) {
  expect_all({{"a{2,3}", "aaaa", false},
              {"a{2,3}", "aaa", true},
              {"a{2,}", "a", false},
              {"a{2,}?", "aaa", true},
              {"xa{0}y", "xy", true},
              {"(ab|c){2}", "abc", true},
              {"(a{10}){100}", std::string(1000, 'a'), true},
              {"a{1000}", std::string(999, 'a'), false},
              {"a{,3}", "a{,3}", true},
              {"a{01}", "a{01}", true},
              {"a{", "a{", true},
              {"a(?i)*", "aaa", true}});
  for (const char* pattern : {"a{1001}", "a{1001,}", "(a{100}){11}", "((a{1000}){1000}){1000}"})
    EXPECT_THAT(refusal(pattern), HasSubstr("1000 times"));
  for (const char* pattern : {"a++", "a**", "a{2}{3}", "a+??"})
    EXPECT_THAT(refusal(pattern), HasSubstr("repeated again"));
  for (const char* pattern : {"*a", "(*a)", "a|*", "(?i)*", "{1}"})
    EXPECT_THAT(refusal(pattern), HasSubstr("nothing is there to be repeated"));
  refusal("a{2,1}");
}

TEST(TextPatterns, ClassesAreRe2s) {
  expect_all({{"[^a]", "é", true},
              {"[^a]", "\n", true},
              {"[]a]+", "]a", true},
              {"[^]a]", "]", false},
              {"[a-]+", "a-", true},
              {R"([\w-.]+)", "a-.b", true},
              {R"([\w-z]+)", "`", false},
              {R"([[-a]+)", "]^_", true},
              {R"([a\-z]+)", "-", true},
              {R"([[:alpha:]-z]+)", "b-z", true},
              {R"([[:alpha:]]+)", "aé", false},
              {R"([^[:alpha:]]+)", "é1", true},
              {R"([[:^alpha:]]+)", "é1", true},
              {R"([^[:^alpha:]]+)", "ab", true},
              {R"([^\D]+)", "12", true},
              {R"([\d\D])", "\n", true},
              {R"([[:space:]])", "\v", true},
              {R"(\s)", "\v", false},
              {R"(\S+)", "añ", true},
              {R"([^\s]+)", "a b", false},
              {"[[:alpha]", ":", true},
              {R"([^\x00-\x{10FFFF}])", "a", false}});
  for (const char* pattern : {"[a", "[]", "[z-a]", R"([a-\d])", "[[:letter:]]", R"([\b])", R"([\Qa\E])"})
    refusal(pattern);
}

TEST(TextPatterns, EscapesAreRe2s) {
  expect_all({{R"(\x{e9}+)", "éé", true},
              {R"(\x{10FFFF})", "\U0010ffff", true},
              {R"(\x41\101\0)", std::string_view("AA\0", 3), true},
              {R"(\a\f\t\n\r\v)", "\a\f\t\n\r\v", true},
              {R"(\.\-\_\ )", ".-_ ", true},
              {R"(\12)", "\n", true},
              {R"(a\b)", "a", true},
              {R"(a\bé)", "aé", true},
              {R"(é\b)", "é", false},
              {R"(\B)", "", true},
              {R"(a\Bb)", "ab", true}});
  for (const char* pattern : {R"(\1)", R"(\18)", R"(\8)", R"(\x1)", R"(\x{})", R"(\x{110000})", R"(\é)",
                              R"(\E)", R"(\Z)", R"(\G)", R"(\e)", R"(\cA)", "\\", "\xff"})
    refusal(pattern);
}

TEST(TextPatterns, FlagsHoldToTheEndOfTheGroupAround) {
  expect_all({{"(?i)abc", "aBC", true},
              {"(?i:a)b", "Ab", true},
              {"(?i:a)b", "AB", false},
              {"(a(?i)b)c", "aBc", true},
              {"(a(?i)b)c", "aBC", false},
              {"a(?i)b|c", "C", true},
              {"a(?i)b|c", "A", false},
              {"(?i)a(?-i)b", "Ab", true},
              {"(?i)a(?-i)b", "AB", false},
              {"(?i)(?-i:a)b", "aB", true},
              {"(?i)(?P<n>a)", "A", true},
              {"(?s).", "\n", true},
              {"(?s-i:.)(?i).", "\n\n", false},
              {"(?is-m:A.)", "a\n", true},
              {"(?s)(?-s).", "\n", false},
              {"(?U)a*b+?", "aab", true},
              {"(?)a", "a", true},
              {"(?mm-m:a$\n)", "a\n", false}});
  for (const char* pattern :
       {"(?a)", "(?x)a", "(?i-)a", "(?-)a", "(?--i)a", "(?i-s-m)a", "(?-:a)", "(?i", "(?i a)"})
    EXPECT_THAT(refusal(pattern), HasSubstr("i, m, s, U"));
}

TEST(TextPatterns, LinesEndAtNewlinesAlone) {
  expect_all({{"(?m)^a$\n^b$", "a\nb", true},
              {"^a$\n^b$", "a\nb", false},
              {"(?m)^a$\r^b$", "a\rb", false},
              {"(?m)a\n^$", "a\n", true},
              {"(?m)^$\n^$", "\n", true},
              {"(?m:a$)\n(?m)^b", "a\nb", true},
              {R"((?m)\Aa\z)", "a", true},
              {"(?m)a\n\\Ab", "a\nb", false},
              {"(?m)a\\z\nb", "a\nb", false}});
}

TEST(TextPatterns, LettersMatchTheirCasesWhereAsked) {
  expect_all({{"(?i)straße", "STRAẞE", true},
              {"(?i)straße", "STRASSE", false},
              {"(?i)жук", "ЖУК", true},
              {"(?i)σ", "ς", true},
              {"(?i)[α-ω]+", "ΣΩς", true},
              {"(?i)k", "\u212a", true},
              {"(?i)\u212a", "k", true},
              {"(?i)s", "ſ", true},
              {"(?i)ǆ", "ǅ", true},
              {"(?i)i", "ı", false},
              {"(?i)i", "İ", false},
              {"(?i)\ufb05", "\ufb06", true},
              {"(?i)[^k]", "K", false},
              {"(?i)[^k]", "\u212a", false},
              {"(?i)\\w", "\u212a", true},
              {"(?i)\\W", "\u212a", false},
              {"(?i)[^\\W]", "ſ", true},
              {"(?i)[[:lower:]]", "A", true},
              {"(?i)[[:^lower:]]", "A", false},
              {"(?i)\\Qab\\E", "AB", true},
              {"(?i)\\x41", "a", true},
              {"(?i)1_é", "1_É", true}});
}

TEST(TextPatterns, ThatAreNotKnownAreRefusedByName) {
  EXPECT_THAT(refusal(R"(\pN)"), HasSubstr("classes of Unicode"));
  EXPECT_THAT(refusal(R"([\P{Greek}])"), HasSubstr("classes of Unicode"));
  EXPECT_THAT(refusal(R"(\C)"), HasSubstr("single bytes"));
}

TEST(TextPatterns, ThatRe2RefusesAreRefused) {
  for (const char* pattern : {"(?=a)", "(?!a)", "(?<=a)", "(?<!a)"})
    EXPECT_THAT(refusal(pattern), HasSubstr("ahead or behind"));
  for (const char* pattern :
       {"(", "a)", "(?P=n)", "(?P<n", "(?P<>a)", "(?P<a b>a)", "(?#c)", "(?>a)", "(?|a)"})
    refusal(pattern);
}

TEST(TextPatterns, BytesThatAreNoUtf8MatchNothing) {
  expect_all({{"(?s).*", "a\xff", false}, {"[^a]", "\xff", false}});
}

TEST(TextPatterns, TakeLongTextsInTimeAndOnALittleStack) {
  expect_all({{"(a|b)*c?", std::string(3'000'000, 'a'), true},
              {"(a*)*b", std::string(1'000'000, 'a'), false},
              {"(((a{10}){10}){10}b?)*", std::string(1'000'000, 'a'), true}});
  std::string deep = std::string(900, '(') + "a";
  for (int i = 0; i < 900; ++i) deep += ")*";
  expect_all({{deep, "aaa", true}});
  EXPECT_THAT(refusal(std::string(2000, '(')), HasSubstr("nested too deep"));
  std::string wide;
  for (int i = 0; i < 50'000; ++i) wide += "a|";
  EXPECT_THAT(refusal(wide), HasSubstr("too large"));
}

TEST(TextPatterns, AreFoundFromLeftToRightAsLongAsTheyCanBe) {
  const auto found = [](std::string_view pattern, std::string_view text, size_t least = 1) {
    return Pattern::compile(pattern).value().find(text, least);
  };
  EXPECT_THAT(found("a|ab", "ababx"), ElementsAre("ab", "ab"));
  EXPECT_THAT(found("b|abc|ab", "abab"), ElementsAre("ab", "ab"));
  EXPECT_THAT(found("a+?", "aa ba"), ElementsAre("aa", "a"));
  EXPECT_THAT(found("(?U)[a-b]+", "aa ba"), ElementsAre("aa", "ba"));
  EXPECT_THAT(found("x*", "axxb"), ElementsAre("xx"));
  EXPECT_THAT(found("^\\w+", "ab c"), ElementsAre("ab"));
  EXPECT_THAT(found("(?m)^\\w+", "ab c\nde f"), ElementsAre("ab", "de"));
  EXPECT_THAT(found("(?i)é+", "aéÉb"), ElementsAre("éÉ"));
  EXPECT_THAT(found("[é-ü]+", "éa üü", 2), ElementsAre("üü"));
}

}  // namespace
}  // namespace gantry::runtime
