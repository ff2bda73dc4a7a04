// Attributes of custom ops as text.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "host/loops/custom_kernel.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

using testing::message_of;

TEST(CustomAttributes, TextRoundTrips) {
  const std::vector<CustomAttribute> attributes = {
      {"axis", std::vector<int64_t>{-1}, false},
      {"beta", std::vector<double>{2}, false},
      {"tiny", std::vector<double>{std::numeric_limits<double>::denorm_min()}, false},
      {"pads", std::vector<int64_t>{1, 2, std::numeric_limits<int64_t>::min()}, true},
      {"mode", std::vector<std::string>{"it's\n\\ü"}, false},
      {"names", std::vector<std::string>{"a", "b, c"}, true},
      {"no_integers", std::vector<int64_t>{}, true},
      {"no_floats", std::vector<double>{}, true},
      {"no_strings", std::vector<std::string>{}, true},
  };
  EXPECT_EQ(parse_custom_attributes(to_string(attributes)), attributes) << to_string(attributes);
  EXPECT_TRUE(parse_custom_attributes("").empty());
}

TEST(CustomAttributes, InfinityAndNanAreFloats) {
  const std::vector<CustomAttribute> attributes = {
      {"a",
       std::vector<double>{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()},
       true},
      {"b", std::vector<double>{std::nan("")}, false}};
  const std::vector<CustomAttribute> read = parse_custom_attributes(to_string(attributes));
  EXPECT_EQ(read[0], attributes[0]);
  EXPECT_TRUE(std::isnan(std::get<std::vector<double>>(read[1].values).at(0)));
}

TEST(CustomAttributes, WhatIsNoneIsRefusedWithItsPlace) {
  EXPECT_EQ(message_of([] { parse_custom_attributes("a=1 b=2"); }),
            "attributes 'a=1 b=2': at character 5: ',' was expected");
  EXPECT_EQ(message_of([] { parse_custom_attributes("a=[1, 'x']"); }),
            "attributes 'a=[1, 'x']': at character 10: the values of a list are of one kind");
  EXPECT_EQ(message_of([] { parse_custom_attributes("a='x"); }),
            "attributes 'a='x': at character 5: a string has no end");
  EXPECT_EQ(message_of([] { parse_custom_attributes("a=yes"); }),
            "attributes 'a=yes': at character 3: a number or a quoted string was expected");
}

}  // namespace
}  // namespace gantry
