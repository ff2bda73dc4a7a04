#include "host/machine/gpu_family.h"

#include <gtest/gtest.h>

#include "host/machine/cpu_family.h"
#include "host/support/error.h"

namespace gantry {
namespace {

const GpuFamily& family() {
  return *gpu_families().front();
}

Target cpu(const std::string& name) {
  Target target;
  target.name = name;
  target.family = find_family("x86_64");
  target.features = {"sse4.2"};
  target.rank = 200;
  return target;
}

TEST(GpuTargetName, IsTakenApart) {
  const GpuTargetName parts = family().parse("cuda-emulated:sm_75/x86-64-v3+checks");
  EXPECT_TRUE(parts.emulated);
  EXPECT_TRUE(parts.checks);
  EXPECT_EQ(parts.architecture, "sm_75");
  EXPECT_EQ(parts.cpu, "x86-64-v3");
}

TEST(GpuTargetName, StandsForAnArchitectureWhereItGivesNone) {
  const GpuTargetName parts = family().parse("cuda");
  EXPECT_FALSE(parts.emulated);
  EXPECT_EQ(parts.architecture, "sm_80");
  EXPECT_EQ(parts.cpu, "");
}

TEST(GpuTargetName, IsReadAsItIsWritten) {
  for (const char* name : {"cuda:sm_70", "cuda:sm_87/cortex-a78", "cuda-emulated:sm_90a/znver5+checks"})
    EXPECT_EQ(family().written(family().parse(name)), name);
}

// The driver compiles PTX for GPUs that came later.
TEST(GpuFamily, NewerGpusGetTheNewestKnownCode) {
  EXPECT_EQ(family().architecture(86), "sm_86");
  EXPECT_EQ(family().architecture(88), "sm_87");
  EXPECT_EQ(family().architecture(90), "sm_90") << "not sm_90a, whose code runs on nothing else";
  EXPECT_EQ(family().architecture(120), "sm_90");
  EXPECT_THROW(family().architecture(61), Error);
}

TEST(GpuTargetName, OfNoGpuIsAUserError) {
  for (const char* name : {"cuda:", "cuda:sm_91", "cuda:sm_80/", "cuda:sm_80/cuda", "cuda+checks", "cudo:sm_80"}) {
    try {
      family().parse(name);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser) << name;
    }
  }
}

// Modules of the Jetson line have Arm cores beside the GPU.
TEST(GpuTarget, StandsBesideTheUsualCpuUnlessOneIsNamed) {
  const GpuTargetName plain = family().parse("cuda:sm_80"), orin = family().parse("cuda:sm_87");
  EXPECT_EQ(family().usual_cpu(plain), "x86-64-v2");
  EXPECT_EQ(family().usual_cpu(orin), "cortex-a78");
  EXPECT_EQ(family().usual_cpu(family().parse("cuda-emulated")), "native");
  EXPECT_EQ(family().target(plain, cpu("x86-64-v2")).name, "cuda:sm_80");
  EXPECT_EQ(family().target(family().parse("cuda:sm_80/x86-64-v2"), cpu("x86-64-v2")).name, "cuda:sm_80");
  const Target named = family().target(family().parse("cuda:sm_80/znver5"), cpu("znver5"));
  EXPECT_EQ(named.name, "cuda:sm_80/znver5");
  EXPECT_EQ(named.device, DeviceKind::kGpu);
  EXPECT_EQ(named.family, nullptr);
  EXPECT_EQ(named.host->name, "znver5");
  EXPECT_EQ(named.gpu.compute_capability, 80);
}

TEST(GpuTarget, EmulatedIsOneOfItsCpu) {
  const Target target = family().target(family().parse("cuda-emulated:sm_75/znver5+checks"), cpu("znver5"));
  EXPECT_EQ(target.name, "cuda-emulated:sm_75/znver5+checks");
  EXPECT_EQ(target.device, DeviceKind::kEmulatedGpu);
  EXPECT_EQ(target.family, find_family("x86_64"));
  EXPECT_TRUE(target.gpu_checks);
  EXPECT_EQ(target.host, nullptr);
}

TEST(GpuFamily, ItsTargetsNamesAreThoseOfItsTargets) {
  for (const std::string& name : family().target_names()) {
    const GpuTargetName parts = family().parse(name);
    const std::string usual(family().usual_cpu(parts));
    EXPECT_EQ(family().target(parts, cpu(usual)).name, name);
  }
}

// Tensor cores: of f16 since compute capability 7.5 in the shapes used here, of bf16 and TF32 since 8.0 (PTX ISA,
// mma).
TEST(GpuFamily, LacksPrecisionsOfNewerGpus) {
  const auto lacks = [](int capability, Precision precision) {
    return !family().lacks({.compute_capability = capability}, precision).empty();
  };
  EXPECT_TRUE(lacks(72, Precision::kFp16));
  EXPECT_FALSE(lacks(75, Precision::kFp16));
  EXPECT_TRUE(lacks(75, Precision::kBf16));
  EXPECT_TRUE(lacks(75, Precision::kTf32));
  EXPECT_FALSE(lacks(80, Precision::kTf32));
}

}  // namespace
}  // namespace gantry
