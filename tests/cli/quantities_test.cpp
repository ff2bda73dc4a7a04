#include "host/cli/quantities.h"

#include <gtest/gtest.h>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

TEST(Quantities, SharesAreNumbersOrPercents) {
  EXPECT_DOUBLE_EQ(parse_share("1%", "--x"), 0.01);
  EXPECT_DOUBLE_EQ(parse_share("0.5%", "--x"), 0.005);
  EXPECT_DOUBLE_EQ(parse_share("0.02", "--x"), 0.02);
  for (const char* bad : {"", "%", "0", "-1%", "100%", "1 %", "1%%", "nan", "inf", "1s"}) {
    EXPECT_THROW(parse_share(bad, "--x"), Error) << bad;
  }
}

TEST(Quantities, DurationsHaveUnits) {
  EXPECT_DOUBLE_EQ(parse_duration("30", "--x"), 30);
  EXPECT_DOUBLE_EQ(parse_duration("30s", "--x"), 30);
  EXPECT_DOUBLE_EQ(parse_duration("500ms", "--x"), 0.5);
  EXPECT_DOUBLE_EQ(parse_duration("2min", "--x"), 120);
  EXPECT_DOUBLE_EQ(parse_duration("1h", "--x"), 3600);
  for (const char* bad : {"", "s", "0s", "-3s", "3 s", "3days", "nan", "1e9"}) {
    EXPECT_THROW(parse_duration(bad, "--x"), Error) << bad;
  }
}

}  // namespace
}  // namespace gantry::cli
