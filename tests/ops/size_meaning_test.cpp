#include "host/ops/size_meaning.h"

#include <gtest/gtest.h>

#include "host/ops/op.h"

namespace gantry {
namespace {

using Meanings = std::map<std::string, SizeMeaning>;

Meanings meanings(const std::string& text) {
  return size_meanings(parse_graph(text, op_set()).main);
}

TEST(SizeMeaning, FollowsTheName) {
  const Meanings all = meanings(
      "fn @main(%a: Tensor[(batch_size, pastSequence_len, 64), f32], %b: Tensor[(image_height, numSamples), "
      "f32]) "
      "-> Tensor[(batch_size, pastSequence_len, 64), f32] {\n  %0 = nn.relu(%a)\n  return %0\n}\n");
  EXPECT_EQ(all, (Meanings{{"batch_size", SizeMeaning::kBatch},
                           {"pastSequence_len", SizeMeaning::kLength},
                           {"image_height", SizeMeaning::kHeight},
                           {"numSamples", SizeMeaning::kSamples}}));
}

TEST(SizeMeaning, OfAnUnnamedDimensionFollowsTheOpsThatItReaches) {
  // Pixels in the order of TensorFlow, and a size that only a pooling of half of it sees.
  const Meanings all = meanings(
      "fn @main(%x: Tensor[(x_d0, x_d1, x_d2, 32), f32]) -> Tensor[(x_d0, 32, floordiv(x_d1-2, 2)+1, "
      "floordiv(x_d2-2, 2)+1), f32] {\n  %0 = transpose(%x, axes=[0, 3, 1, 2])\n  %1 = nn.max_pool(%0, "
      "kernel=[2, "
      "2], strides=[2, 2], dilations=[1, 1], padding=(0, 0, 0, 0))\n  return %1\n}\n");
  EXPECT_EQ(all, (Meanings{{"x_d0", SizeMeaning::kBatch},
                           {"x_d1", SizeMeaning::kHeight},
                           {"x_d2", SizeMeaning::kWidth}}));
}

TEST(SizeMeaning, ElseFollowsThePlace) {
  const Meanings all = meanings(
      "fn @main(%ids: Tensor[(ids_d0, ids_d1), i64], %x: Tensor[(x_d0, 3, x_d2, x_d3), f32]) -> "
      "Tensor[(ids_d0, "
      "ids_d1), i64] {\n  %0 = negative(%ids)\n  return %0\n}\n");
  EXPECT_EQ(all, (Meanings{{"ids_d0", SizeMeaning::kBatch},
                           {"ids_d1", SizeMeaning::kLength},
                           {"x_d0", SizeMeaning::kBatch},
                           {"x_d2", SizeMeaning::kHeight},
                           {"x_d3", SizeMeaning::kWidth}}));
}

TEST(SizeMeaning, IsNotReadFromTheNameOfAnInput) {
  const Meanings all = meanings(
      "fn @main(%height: Tensor[(height_d0, height_d1), f32]) -> Tensor[(height_d0, height_d1), f32] {\n  %0 "
      "= "
      "nn.relu(%height)\n  return %0\n}\n");
  EXPECT_EQ(all.at("height_d1"), SizeMeaning::kLength);
}

}  // namespace
}  // namespace gantry
