// Products of quantised matrices against their definitions in doubles.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "host/support/error.h"
#include "tests/onnx/quantized.h"

namespace gantry {
namespace {

using namespace quantized;  // NOLINT

TEST(Products, GemmHasAScaleForEachColumnAndABiasInItsUnits) {
  const Bytes a = random_bytes<uint8_t>(3 * 4, 5);
  const SignedBytes b = random_bytes<int8_t>(2 * 4, 6, -128, 127);
  for (const bool quantised : {false, true}) {
    OneNode node(kMicrosoft, "QGemm", 13);
    parameters(node.input(DType::kU8, {3, 4}, a), 0.1F, 100);
    node.input(DType::kI8, {2, 4}, b).input<float>(DType::kF32, {2}, {0.2F, 0.3F});
    node.input<int8_t>(DType::kI8, {2}, {5, -6}).input<int32_t>(DType::kI32, {2}, {1000, -2000});
    if (quantised) parameters(node, 20, 128);
    node.with("transB", int64_t{1}).with("alpha", 0.5);
    std::vector<double> expected;
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 2; ++j) {
        double sum = j == 0 ? 1000 : -2000;
        for (size_t k = 0; k < 4; ++k) sum += (a[i * 4 + k] - 100) * (b[j * 4 + k] - (j == 0 ? 5 : -6));
        const double y = 0.5 * 0.1 * (j == 0 ? 0.2 : 0.3) * sum;
        expected.push_back(quantised ? to_byte(y / 20, 128) : y);
      }
    }
    if (quantised)
      expect_steps(node.run<uint8_t>(DType::kU8), expected);
    else
      expect_near(node.run<float>(DType::kF32), expected);
  }
}

TEST(Products, ToFloatsAndOfDataThatAreQuantisedOnTheWay) {
  const SignedBytes b = random_bytes<int8_t>(4 * 3, 7, -128, 127);
  const Bytes a = random_bytes<uint8_t>(2 * 4, 8);
  std::vector<double> expected;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 4; ++k) sum += (a[i * 4 + k] - 128) * (b[k * 3 + j] - 1);
      expected.push_back(sum * 0.1 * (0.1 * static_cast<double>(j + 1)) + static_cast<double>(j));
    }
  }
  const Floats scales{0.1F, 0.2F, 0.3F}, bias{0, 1, 2};
  OneNode node(kMicrosoft, "MatMulIntegerToFloat", 13);
  node.input(DType::kU8, {2, 4}, a).input(DType::kI8, {4, 3}, b).input<float>(DType::kF32, {}, {0.1F});
  node.input(DType::kF32, {3}, scales)
      .input<uint8_t>(DType::kU8, {}, {128})
      .input<int8_t>(DType::kI8, {3}, {1, 1, 1});
  expect_near(node.input(DType::kF32, {3}, bias).run<float>(DType::kF32), expected);

  // Data from -25.5 to 0 in steps of 0.1 are what they were before.
  Floats x{-25.5F, 0};
  for (size_t k = 0; k < 6; ++k) x.push_back(-0.1F * static_cast<float>(k * 10));
  OneNode dynamic(kMicrosoft, "DynamicQuantizeMatMul", 13);
  dynamic.input(DType::kF32, {2, 4}, x).input(DType::kI8, {4, 3}, b).input(DType::kF32, {3}, scales);
  const Floats y =
      dynamic.input<int8_t>(DType::kI8, {3}, {1, 1, 1}).input(DType::kF32, {3}, bias).run<float>(DType::kF32);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = static_cast<double>(bias[j]);
      for (size_t k = 0; k < 4; ++k)
        sum += static_cast<double>(x[i * 4 + k]) * (b[k * 3 + j] - 1) * static_cast<double>(scales[j]);
      EXPECT_NEAR(static_cast<double>(y[i * 3 + j]), sum, 1e-3) << i << " " << j;
    }
  }
}

/// Rows of K elements of `bits` as MatMulNBits packs them.
Bytes packed(const Bytes& elements, int64_t rows, int64_t depth, int64_t padded, int64_t bits) {
  Bytes bytes(static_cast<size_t>(rows * padded * bits / 8));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t bit = (r * padded + k) * bits;
      bytes[static_cast<size_t>(bit / 8)] |=
          static_cast<uint8_t>(elements[static_cast<size_t>(r * depth + k)] << (bit % 8));
    }
  }
  return bytes;
}

/// MatMulNBits of blocks of 16 elements, with a g_idx of that many entries (0: none) that is in no order.
void expect_few_bits(int64_t bits, bool with_zero_points, int64_t indices) {
  constexpr int64_t kRows = 3, kDepth = 40, kBlock = 16, kBlocks = 3;
  const auto block_of = [&](int64_t k) { return indices == 0 ? k / kBlock : (k * 5 + 1) % kBlocks; };
  const Bytes b = random_bytes<uint8_t>(kRows * kDepth, 9, 0, (1 << bits) - 1);
  const Bytes zeros = random_bytes<uint8_t>(kRows * kBlocks, 10, 0, (1 << bits) - 1);
  Floats x, scales;
  for (int i = 0; i < 2 * kDepth; ++i) x.push_back(std::sin(static_cast<float>(i)));
  for (int i = 0; i < kRows * kBlocks; ++i) scales.push_back(0.1F + 0.01F * static_cast<float>(i));
  OneNode node(kMicrosoft, "MatMulNBits", 21);
  node.input(DType::kF32, {2, kDepth}, x);
  node.input(DType::kU8, {kRows, kBlocks, kBlock * bits / 8},
             packed(b, kRows, kDepth, kBlock * kBlocks, bits));
  node.input(DType::kF32, {kRows * kBlocks}, scales);
  const int64_t zero_bytes = (kBlocks * bits + 7) / 8;
  if (with_zero_points)
    node.input(DType::kU8, {kRows * zero_bytes}, packed(zeros, kRows, kBlocks, zero_bytes * 8 / bits, bits));
  else
    node.absent();
  std::vector<int32_t> blocks(static_cast<size_t>(indices));
  for (int64_t k = 0; k < std::min(indices, kDepth); ++k)
    blocks[static_cast<size_t>(k)] = static_cast<int32_t>(block_of(k));
  if (indices != 0) node.input(DType::kI32, {indices}, blocks);
  node.with("K", kDepth).with("N", kRows).with("bits", bits).with("block_size", kBlock);
  std::vector<double> expected;
  for (int64_t m = 0; m < 2; ++m) {
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        const auto group = static_cast<size_t>(r * kBlocks + block_of(k));
        const double zero = with_zero_points ? zeros[group] : 1 << (bits - 1);
        sum += static_cast<double>(x[static_cast<size_t>(m * kDepth + k)]) *
               static_cast<double>(scales[group]) * (b[static_cast<size_t>(r * kDepth + k)] - zero);
      }
      expected.push_back(sum);
    }
  }
  expect_near(node.run<float>(DType::kF32), expected);
}

TEST(Products, OfFewBitsHaveAScaleAndAZeroPointABlock) {
  for (const int64_t bits : {2, 4, 8}) {
    for (const bool with_zero_points : {false, true}) expect_few_bits(bits, with_zero_points, 0);
  }
}

// K is 40, in three blocks of 16.
TEST(Products, OfFewBitsHaveTheBlocksOfGidxWhichMayBePadded) {
  for (const int64_t indices : {40, 48}) {
    for (const bool with_zero_points : {false, true}) expect_few_bits(4, with_zero_points, indices);
  }
}

TEST(Products, OfFewBitsThatAreLaidOutForAKernelAreRefused) {
  for (const int64_t layout : {0, 1, 2}) {
    OneNode node(kMicrosoft, "MatMulNBits", 21);
    node.input(DType::kF32, {1, 16}, Floats(16, 1)).input(DType::kU8, {1, 1, 8}, Bytes(8, 0x99));
    node.input(DType::kF32, {1}, Floats{0.5F}).with("K", int64_t{16}).with("N", int64_t{1});
    node.with("bits", int64_t{4}).with("block_size", int64_t{16}).with("weight_prepacked", layout);
    if (layout == 0) {
      expect_near(node.run<float>(DType::kF32), {8});  // 16 times (9 - 8) * 0.5
      continue;
    }
    try {
      node.results();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(fmt::format("a weight_prepacked of {}", layout)));
    }
  }
}

/// 5 columns of 7 elements: an odd number, in blocks of 16 that end within a row.
TEST(Products, OfFp4AndNf4HaveALargestMagnitudeABlock) {
  constexpr int64_t kDepth = 7, kColumns = 5, kBlock = 16, kCount = kDepth * kColumns;
  const std::vector<double> fp4{0,   0.0625 / 12,  8. / 12,  1,  4. / 12,  0.5,  2. / 12,  0.25,
                                -0., -0.0625 / 12, -8. / 12, -1, -4. / 12, -0.5, -2. / 12, -0.25};
  // What ONNX Runtime multiplies the identity with.
  const std::vector<double> nf4{-1.0,
                                -0.6961928009986877,
                                -0.5250730514526367,
                                -0.39491748809814453,
                                -0.28444138169288635,
                                -0.18477343022823334,
                                -0.09105003625154495,
                                0,
                                0.07958029955625534,
                                0.16093020141124725,
                                0.24611230194568634,
                                0.33791524171829224,
                                0.44070982933044434,
                                0.5626170039176941,
                                0.7229568362236023,
                                1.0};
  const Bytes codes = random_bytes<uint8_t>(kCount, 13, 0, 15);
  Bytes bytes((kCount + 1) / 2);
  for (size_t i = 0; i < codes.size(); ++i)
    bytes[i / 2] |= static_cast<uint8_t>(codes[i] << (i % 2 == 0 ? 4 : 0));
  const Floats magnitudes{0.5F, 2, 1.25F};
  Floats x;
  for (int i = 0; i < 2 * kDepth; ++i) x.push_back(std::sin(static_cast<float>(i)));
  for (const int64_t kind : {0, 1}) {
    OneNode node(kMicrosoft, "MatMulBnb4", 21);
    node.input(DType::kF32, {2, kDepth}, x).input(DType::kU8, {(kCount + 1) / 2}, bytes);
    node.input(DType::kF32, {3}, magnitudes).with("K", kDepth).with("N", kColumns);
    node.with("block_size", kBlock).with("quant_type", kind);
    std::vector<double> expected;
    for (int64_t m = 0; m < 2; ++m) {
      for (int64_t c = 0; c < kColumns; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < kDepth; ++k) {
          const auto at = static_cast<size_t>(c * kDepth + k);
          sum += static_cast<double>(x[static_cast<size_t>(m * kDepth + k)]) *
                 (kind == 0 ? fp4 : nf4)[codes[at]] * static_cast<double>(magnitudes[at / kBlock]);
        }
        expected.push_back(sum);
      }
    }
    expect_near(node.run<float>(DType::kF32), expected);
  }
}

TEST(Products, OfOtherCodesThanFp4AndNf4AreRefused) {
  OneNode node(kMicrosoft, "MatMulBnb4", 21);
  node.input<float>(DType::kF32, {1, 2}, {1, 2}).input<uint8_t>(DType::kU8, {2}, {0, 0});
  node.input<float>(DType::kF32, {1}, {1}).with("K", int64_t{2}).with("N", int64_t{2});
  node.with("block_size", int64_t{16}).with("quant_type", int64_t{2});
  try {
    node.results();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("its quant_type is 2, neither 0 (FP4) nor 1 (NF4)"));
  }
}

}  // namespace
}  // namespace gantry
