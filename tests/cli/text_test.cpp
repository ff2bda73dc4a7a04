#include "host/cli/text.h"

#include <gtest/gtest.h>

#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

TEST(Text, DurationsCarryAFittingUnit) {
  EXPECT_EQ(duration_text(1234), "1.234 s");
  EXPECT_EQ(duration_text(20.7), "20.70 ms");
  EXPECT_EQ(duration_text(0.5), "500.0 us");
  EXPECT_EQ(duration_text(0.0005), "500.0 ns");
  EXPECT_EQ(duration_text(0), "0 ns");
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

TEST(Suggest, SwappedMissingAndExtraLettersAreNear) {
  const std::vector<std::string> names = {"compile", "compare", "run", "bench"};
  EXPECT_EQ(nearest_names("comiple", names), std::vector<std::string>{"compile"});
  EXPECT_EQ(nearest_names("benhc", names), std::vector<std::string>{"bench"});
  EXPECT_EQ(did_you_mean("rnu", names), "; did you mean 'run'?");
  EXPECT_EQ(did_you_mean("xyzzy", names), "");
}

TEST(Suggest, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

}  // namespace
}  // namespace gantry::cli
