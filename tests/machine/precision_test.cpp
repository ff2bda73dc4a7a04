#include "host/machine/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/machine/cpu_family.h"
#include "host/machine/target.h"
#include "host/support/error.h"

namespace gantry {
namespace {

Target cpu_with(std::vector<std::string> features) {
  Target target;
  target.name = "a CPU";
  target.family = find_family("x86_64");
  target.features = std::move(features);
  return target;
}

TEST(Precision, IsFoundByItsName) {
  for (const Precision precision : {Precision::kAuto, Precision::kFp32, Precision::kTf32, Precision::kBf16,
                                    Precision::kFp16, Precision::kFp32Split, Precision::kFp32Split3})
    EXPECT_EQ(find_precision(name_of(precision)), precision);
}

TEST(Precision, AnUnknownNameIsAnErrorWithTheNearestAndAll) {
  try {
    find_precision("bf61");
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("'bf16'"), ::testing::HasSubstr("fp32-split3")));
  }
}

TEST(Precision, AutoSplitsWhereTilesAreFast) {
  EXPECT_EQ(with_precision(cpu_with({"amx-tile", "amx-bf16"}), Precision::kAuto).precision,
            Precision::kFp32Split);
  EXPECT_EQ(with_precision(cpu_with({"avx512bf16"}), Precision::kAuto).precision, Precision::kFp32);
  EXPECT_EQ(with_precision(cpu_with({"avx2"}), Precision::kAuto).precision, Precision::kFp32);
}

TEST(Precision, NeedsTheInstructionsOfTheCpu) {
  EXPECT_EQ(with_precision(cpu_with({"avx512bf16"}), Precision::kBf16).precision, Precision::kBf16);
  EXPECT_THROW(with_precision(cpu_with({"avx2"}), Precision::kBf16), Error);
  EXPECT_THROW(with_precision(cpu_with({"avx512bf16"}), Precision::kTf32), Error);
  EXPECT_THROW(with_precision(cpu_with({"avx2"}), Precision::kFp16), Error);
  const Target half = with_precision(cpu_with({"avx512fp16"}), Precision::kFp16);
  EXPECT_TRUE(half.machine.half_products);
  EXPECT_FALSE(with_precision(half, Precision::kFp32).machine.half_products);
}

}  // namespace
}  // namespace gantry
