#include "host/machine/cpu_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/machine/cpu_family.h"

namespace gantry {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;

TEST(CpuFeatures, AddingOneAddsAllThatItNeeds) {
  // FEAT_FP16 needs floating point; SVE needs FEAT_FP16 (Arm Architecture Reference Manual for A-profile, A2).
  EXPECT_THAT(add_feature(*find_family("aarch64"), {}, "sve2"),
              ElementsAre("fp-armv8", "fullfp16", "sve", "sve2"));
}

TEST(CpuFeatures, RemovingOneRemovesAllThatNeedIt) {
  const CpuFamily& family = *find_family("x86_64");
  const std::vector<std::string> all(family.features.begin(), family.features.end());
  const std::vector<std::string> left = remove_feature(family, all, "avx512f");
  EXPECT_THAT(left, AllOf(Contains("avx2"), Contains("fma"), Contains("amx-bf16")));
  for (const std::string& feature : left) EXPECT_FALSE(feature.starts_with("avx512")) << feature;
}

TEST(CpuFeatures, TheOrderIsTheFamilys) {
  const CpuFamily& family = *find_family("aarch64");
  EXPECT_EQ(add_feature(family, add_feature(family, {}, "bf16"), "rdm"),
            add_feature(family, add_feature(family, {}, "rdm"), "bf16"));
}

TEST(CpuFamilies, WhatFeaturesNeedAreFeatures) {
  for (const CpuFamily* family : cpu_families()) {
    for (const FeatureNeed& need : family->needs) {
      EXPECT_THAT(family->features, Contains(need.feature)) << family->name;
      EXPECT_THAT(family->features, Contains(need.needs)) << family->name;
    }
    for (const FeatureAlias& alias : family->aliases)
      EXPECT_THAT(family->features, Contains(alias.feature)) << family->name;
    EXPECT_THAT(family->features, Contains(family->least)) << family->name;
  }
}

TEST(CpuFamilies, AreFoundByTheNamesThatBoardsReport) {
  for (const CpuFamily* family : cpu_families()) EXPECT_EQ(find_family(family->name), family);
  EXPECT_EQ(find_family("riscv64"), nullptr);
}

// Registers of AVX-512: 32 of 64 bytes (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1,
// 15.1); of NEON: 32 of 16 bytes (Arm Architecture Reference Manual for A-profile, B1.2).
TEST(MachineModel, HasTheRegistersOfTheInstructionSet) {
  const MachineModel x86 = find_family("x86_64")->machine("", {"avx2", "fma", "avx512f"});
  EXPECT_EQ(x86.vector_bytes, 64);
  EXPECT_EQ(x86.vector_registers, 32);
  const MachineModel arm = find_family("aarch64")->machine("", {"neon"});
  EXPECT_EQ(arm.vector_bytes, 16);
  EXPECT_EQ(arm.vector_registers, 32);
}

}  // namespace
}  // namespace gantry
