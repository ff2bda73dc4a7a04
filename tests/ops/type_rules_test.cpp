// What type rules refuse of graph text, which somebody may have written to do harm.
#include <gtest/gtest.h>

#include "host/graph/text.h"
#include "host/ops/op.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

std::string refused(const std::string& text) {
  return testing::message_of([&] { parse_graph(text, op_set()); });
}

void expect_in(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(TypeRules, LinearAttentionWithoutHeadsOfKeysIsRefused) {
  expect_in(refused("fn @main(%q: Tensor[(1, 2, 4, 3), f32], %k: Tensor[(1, 2, 0, 3), f32], "
                    "%v: Tensor[(1, 2, 0, 5), f32], %s: Tensor[(1, 0, 3, 5), f32]) -> "
                    "Tensor[(1, 2, 4, 5), f32] {\n"
                    "  %0, %1 = nn.linear_attention(%q, %k, %v, %s)\n  return %0\n}\n"),
            "there are no heads of keys");
}

// Times the columns of a tile, 2^62 is 0.
TEST(TypeRules, WeightsForTileUnitsHaveAsManyTilesAsTheUnitTakesAtOnce) {
  for (const char* tiles : {"4611686018427387904", "9223372036854775807", "3", "0", "-1"}) {
    expect_in(refused(fmt::format("fn @main(%w: Tensor[(64, 64), f32]) -> Tensor[(1), bf16] {{\n"
                                  "  %0 = nn.tile_weight(%w, dense=true, column_tiles={})\n  return %0\n}}\n",
                                  tiles)),
              "column_tiles 1 to 2");
  }
}

TEST(TypeRules, FormsOfConvolutionsHaveNoNegativeCounts) {
  for (const char* form : {"weight_block=-2", "algorithm=winograd4, tile_parts=-1"}) {
    expect_in(
        refused(fmt::format("fn @main(%x: Tensor[(1, 8, 8, 4), f32], %w: Tensor[(36, 4, 6), f32]) -> "
                            "Tensor[(1, 6, 6, 6), f32] {{\n"
                            "  %0 = nn.conv(%x, %w, channels=6, kernel=[3, 3]) by ({}, channels_last=true)\n"
                            "  return %0\n}}\n",
                            form)),
        "must not be negative");
  }
}

TEST(TypeRules, FormsOfConvolutionsSayNothingThatCannotBe) {
  const auto error = [](const char* form, const char* groups = "1", const char* weight = "8, 8") {
    return refused(
        fmt::format("fn @main(%x: Tensor[(1, 8, 8, 8), f32], %w: Tensor[({2}, 3, 3), f32]) -> "
                    "Tensor[(1, 8, 6, 6), f32] {{\n"
                    "  %0 = nn.conv(%x, %w, channels=8, kernel=[3, 3], groups={1}) by ({0})\n"
                    "  return %0\n}}\n",
                    form, groups, weight));
  };
  expect_in(error("merged_groups=5"),
            "merged_groups divides the 8 output channels of a group, which 5 does not");
  expect_in(error("merged_groups=4", "4", "8, 2"), "merged_groups divides the 2 output channels of a group");
  expect_in(error("tile_unit=vdpbf16ps"), "tile_unit is for tile registers, with tile_parts");
  expect_in(error("tile_fold_width=true"), "tile_fold_width is for the algorithm tiles");
  expect_in(
      refused("fn @main(%x: Tensor[(1, 6, 8, 8), f32], %w: Tensor[(8, 6, 3, 3), f32]) -> "
              "Tensor[(1, 8, 6, 6), f32] {\n"
              "  %0 = nn.conv(%x, %w, channels=8, kernel=[3, 3]) by (merged_groups=4)\n  return %0\n}\n"),
      "merged_groups divides the 6 input channels of a group, which 4 does not");
}

std::string refused_attention(const char* keys, const char* depth, const char* width, const char* form) {
  return refused(
      fmt::format("fn @main(%q: Tensor[(1, 8, 4), f32], %k: Tensor[(1, 8, 4), f32], "
                  "%v: Tensor[(1, 8, 4), f32]) -> Tensor[(1, 8, 4), f32] {{\n"
                  "  %0 = nn.attention(%q, %k, %v, batch=(1), queries=8, keys={}, depth={}, width={}, "
                  "scale=1, query=(0, 32, 4), key=(0, 32, 4), value=(0, 32, 4), result=(0, 32, 4), "
                  "shape=(1, 8, 4)) by ({})\n  return %0\n}}\n",
                  keys, depth, width, form));
}

TEST(TypeRules, AttentionHasKeysAndBlocksThatFitTheStack) {
  const char* const usual = "lanes=16, registers=32";
  expect_in(refused_attention("0", "4", "4", usual), "there are no keys");
  for (const char* features : {"0", "-4", "257", "9223372036854775807"}) {
    expect_in(refused_attention("8", features, "4", usual), "1 to 256");
    expect_in(refused_attention("8", "4", features, usual), "1 to 256");
  }
  for (const char* form : {"lanes=0, registers=32", "lanes=12, registers=32", "lanes=32, registers=32",
                           "lanes=4611686018427387904, registers=32", "lanes=16, registers=7"})
    expect_in(refused_attention("8", "4", "4", form), "lanes in");
}

TEST(TypeRules, WhatNoNumberHoldsIsAUserError) {
  const char* const nodes[] = {
      "nn.dense(%x, %x, units=9223372036854775807, tile_parts=1)",
      "nn.conv(%x, %x, channels=9223372036854775807, kernel=[9223372036854775807], channels_last=true, "
      "algorithm=tiles, tile_parts=1, tile_fold_width=true)",
      "nn.conv(%x, %x, channels=4, kernel=[1], merged_groups=0)",
      "strided_slice(%x, begin=(0, 0, 0), end=(1, 1, 1), strides=[1, 1, -9223372036854775808])",
      "nn.depth_to_space(%i, block=4294967296)",
      "nn.space_to_depth(%i, block=9223372036854775807)",
  };
  for (const char* node : nodes) {
    refused(fmt::format(
        "fn @main(%x: Tensor[(4, 4, 4), f32], %i: Tensor[(1, 4, 4, 4), f32]) -> Tensor[(1), f32] {{\n"
        "  %0 = {}\n  return %0\n}}\n",
        node));
  }
}

}  // namespace
}  // namespace gantry
