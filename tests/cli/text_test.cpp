#include "host/cli/text.h"

#include <gtest/gtest.h>

#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

TEST(Text, RoughFiguresHaveNoExponent) {
  EXPECT_EQ(rough_text(0.1234), "0.12");
  EXPECT_EQ(rough_text(4.25), "4.2");
  EXPECT_EQ(rough_text(99.4), "99");
  EXPECT_EQ(rough_text(99.6), "100");
  EXPECT_EQ(rough_text(431.2), "431");
}

TEST(Text, DurationsCarryAFittingUnit) {
  EXPECT_EQ(duration_text(1234), "1.234 s");
  EXPECT_EQ(duration_text(20.7), "20.70 ms");
  EXPECT_EQ(duration_text(0.5), "500.0 us");
  EXPECT_EQ(duration_text(0.0005), "500.0 ns");
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(rough_duration_text(98.4), "98 s");
  EXPECT_EQ(rough_duration_text(299), "4 min");
}

TEST(Text, CountsHaveTheirPlural) {
  EXPECT_EQ(counted(0, "record"), "0 records");
  EXPECT_EQ(counted(1, "record"), "1 record");
  EXPECT_EQ(counted(1, "process", "processes"), "1 process");
  EXPECT_EQ(counted(2, "process", "processes"), "2 processes");
}

TEST(Text, BytesCarryBinaryUnits) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(46.0 * 1024 * 1024), "46.0 MiB");
}

TEST(Text, TableAlignsColumnsAndCutsTheLast) {
  Table table({{"n", Table::Align::kRight}, {"name", Table::Align::kLeft}});
  table.row({"1", "short"});
  table.row({"100", "a name that is far too long"});
  EXPECT_EQ(table.str(), "  n  name\n  1  short\n100  a name that is far too long\n");
  EXPECT_EQ(table.str(0, 20), "  n  name\n  1  short\n100  a name that is…\n");
}

TEST(Text, ShortenCountsCodePoints) {
  EXPECT_EQ(shorten("größer", 6), "größer");
  EXPECT_EQ(shorten("größer", 5), "größ…");
}

TEST(Text, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(display_width("größer"), 6u);
  EXPECT_EQ(display_width("画像"), 4u);
  EXPECT_EQ(display_width("e\u0301"), 1u) << "a letter and its accent";
  EXPECT_EQ(shorten("画像入力", 8), "画像入力");
  EXPECT_EQ(shorten("画像入力", 6), "画像…");
  Table table({{"name", Table::Align::kLeft}, {"n", Table::Align::kRight}});
  table.row({"画像", "1"});
  table.row({"ab", "2"});
  EXPECT_EQ(table.str(), "name  n\n画像  1\nab    2\n");
}

TEST(Text, TablesGiveUpTextBeforeFigures) {
  Table table(
      {{"name", Table::Align::kLeft}, {"time", Table::Align::kRight}, {"nodes", Table::Align::kLeft}});
  table.row({"a_kernel_of_some_length", "1234567", "Conv_0, Relu_1, Add_2"});
  const std::string text = table.str(2, 36);
  EXPECT_EQ(text, "  name                time  nodes\n  a_kernel_of_so…  1234567  Conv_0,…\n");
}

TEST(Text, WrappedLinesBreakAtSpaces) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("a-word-too-long so", 5), (std::vector<std::string>{"a-word-too-long", "so"}));
  EXPECT_EQ(wrap("one two", 0), std::vector<std::string>{"one two"});
}

TEST(Text, ControlCharactersBecomeVisible) {
  EXPECT_EQ(visible_line("a\x1b[31mb\n\tc\x7f"), R"(a\u001b[31mb\n\tc\u007f)");
  EXPECT_EQ(visible_line("\u009b31m \u202e"), R"(\u009b31m \u202e)") << "C1 and bidirectional controls";
  EXPECT_EQ(visible_line("gr\xff\xc0\x80ö"), R"(gr\xff\xc0\x80ö)") << "what is no UTF-8";
  EXPECT_EQ(visible_line("größer 画像 🙂"), "größer 画像 🙂");
}

TEST(Suggest, SwappedMissingAndExtraLettersAreNear) {
  const std::vector<std::string> names = {"compile", "compare", "run", "bench"};
  EXPECT_EQ(nearest_names("comiple", names), std::vector<std::string>{"compile"});
  EXPECT_EQ(nearest_names("benhc", names), std::vector<std::string>{"bench"});
  EXPECT_EQ(did_you_mean("rnu", names), "; did you mean 'run'?");
  EXPECT_EQ(did_you_mean("xyzzy", names), "");
}

TEST(Suggest, TheEndOfANameIsNear) {
  EXPECT_EQ(did_you_mean("sm_90", {"cuda:sm_80", "cuda:sm_90", "znver4"}), "; did you mean 'cuda:sm_90'?");
}

TEST(Suggest, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

}  // namespace
}  // namespace gantry::cli
