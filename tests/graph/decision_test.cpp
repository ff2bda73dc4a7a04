#include "host/graph/decision.h"

#include <gtest/gtest.h>

#include <string>

#include "host/support/error.h"

namespace gantry {
namespace {

TEST(Decision, IsReadAsItIsWritten) {
  Decision decision{"winograd4", {}};
  decision.set("block", 32);
  decision.set("half", 0);
  decision.set("merged_groups", 1, 1);
  decision.set("offset", -3);
  EXPECT_EQ(to_string(decision), "{form=winograd4, block=32, offset=-3}");
  EXPECT_EQ(parse_decision(to_string(decision)), decision);
  EXPECT_EQ(parse_decision("  { form = winograd4 ,block=32,  offset=-3}\r"), decision);
  decision.place = "m.gir:7";
  EXPECT_EQ(parse_decision(to_string(decision)), decision) << "where it stands is no part of it";
  EXPECT_EQ(decision.knob("block"), 32);
  EXPECT_EQ(decision.knob("half"), 0);
  EXPECT_EQ(decision.knob("merged_groups", 1), 1);
  EXPECT_EQ(parse_decision("{form=plain}"), (Decision{"plain", {}}));
}

TEST(Decision, WhatIsNoneIsRefused) {
  for (const std::string text :
       {"", "{", "}", "{}", "form=direct", "{direct}", "{form=}", "{block=1}", "{block=1, form=direct}",
        "{form=direct, form=gemm}", "{form=direct, block}", "{form=direct, block=}", "{form=direct, block=x}",
        "{form=direct, block=1x}", "{form=direct, block=99999999999999999999}", "{form=direct, block=1, block=1}",
        "{form=di rect}", "{form=Direct}", "{form=direct, a-b=1}", "{form=direct} x"}) {
    EXPECT_THROW(parse_decision(text), Error) << text;
  }
}

}  // namespace
}  // namespace gantry
