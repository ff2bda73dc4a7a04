#include "host/codegen/find_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "host/machine/cpu_family.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string user_error_of(const std::string& name) {
  try {
    find_target(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  ADD_FAILURE() << name << " was accepted";
  return "";
}

TEST(Target, EveryKnownOneIsFoundByItsName) {
  std::set<std::string> names;
  for (const Target& target : known_targets()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name;
    const Target found = find_target(target.name);
    EXPECT_EQ(found.name, target.name);
    EXPECT_EQ(found.features, target.features);
    EXPECT_FALSE(target.description.empty());
    EXPECT_FALSE(target.features.empty());
  }
  EXPECT_THAT(names, Contains("x86-64-v2"));
  EXPECT_THAT(names, Contains("aarch64+dotprod"));
}

// Arm's Technical Reference Manual of the Neoverse V2 core: FEAT_DotProd, FEAT_BF16, FEAT_I8MM and FEAT_SVE2, a
// first-level data cache of 64 KiB.
TEST(Target, NeoverseV2IsListedWithWhatItHas) {
  const std::vector<Target> known = known_targets();
  EXPECT_EQ(std::ranges::count(known, "neoverse-v2", &Target::name), 1);
  const Target target = find_target("neoverse-v2");
  for (const char* feature : {"neon", "fullfp16", "dotprod", "bf16", "i8mm", "sve2"})
    EXPECT_THAT(target.features, Contains(feature));
  EXPECT_EQ(target.machine.vector_bytes, 16);
  EXPECT_EQ(target.machine.l1_bytes, 64 << 10);
}

struct ListedCpu {
  const char* name;
  std::vector<std::string> has, lacks;
  int vector_bytes, fma_per_cycle, l1_kib, l2_kib;
};

// Caches of one core, or its share of a cluster's, and units for multiply-adds as wide as vectors, by their
// vendors.
TEST(Target, CpusAreListedWithWhatTheyHave) {
  const std::vector<Target> known = known_targets();
  for (const ListedCpu& cpu : std::vector<ListedCpu>{
           {"graniterapids", {"avx512fp16", "avx512bf16", "amx-bf16", "amx-fp16"}, {}, 64, 2, 48, 2048},
           {"sapphirerapids", {"amx-bf16"}, {"amx-fp16"}, 64, 2, 48, 2048},
           {"tigerlake", {"avx512vnni"}, {"avx512bf16"}, 64, 1, 48, 1280},
           {"rocketlake", {"avx512vnni"}, {"avx512bf16"}, 64, 1, 48, 512},
           {"icelake-server", {"avx512vnni"}, {"avx512bf16"}, 64, 2, 48, 1280},
           {"gracemont", {"avx2", "fma", "avxvnni"}, {"avx512f"}, 32, 1, 32, 512},
           {"sierraforest", {"avx2", "fma", "avxvnni"}, {"avx512f"}, 32, 1, 32, 1024},
           {"znver1", {"avx2", "fma"}, {"avxvnni"}, 32, 1, 32, 512},
           {"znver2", {"avx2", "fma"}, {"avxvnni"}, 32, 2, 32, 512},
           {"znver4", {"avx512bf16"}, {"avx512fp16"}, 64, 1, 32, 1024},
           {"cortex-a57", {"neon"}, {"dotprod"}, 16, 1, 32, 512},
           {"cortex-a510", {"dotprod", "fullfp16", "bf16", "i8mm"}, {}, 16, 1, 32, 256},
           {"cortex-a710", {"dotprod", "fullfp16", "bf16", "i8mm"}, {}, 16, 2, 64, 512},
           {"ampere1", {"dotprod", "fullfp16", "bf16", "i8mm"}, {"sve"}, 16, 2, 64, 2048},
           {"oryon-1", {"dotprod", "bf16", "i8mm"}, {"sve"}, 16, 4, 96, 3072},
           {"apple-m1", {"dotprod", "fullfp16"}, {"bf16"}, 16, 4, 128, 4096},
           {"apple-m2", {"dotprod", "fullfp16", "bf16", "i8mm"}, {"sve"}, 16, 4, 128, 4096}}) {
    SCOPED_TRACE(cpu.name);
    EXPECT_EQ(std::ranges::count(known, cpu.name, &Target::name), 1);
    const Target target = find_target(cpu.name);
    for (const std::string& feature : cpu.has) EXPECT_THAT(target.features, Contains(feature));
    for (const std::string& feature : cpu.lacks) EXPECT_THAT(target.features, Not(Contains(feature)));
    EXPECT_EQ(target.machine.vector_bytes, cpu.vector_bytes);
    EXPECT_EQ(target.machine.fma_per_cycle, cpu.fma_per_cycle);
    EXPECT_EQ(target.machine.l1_bytes, cpu.l1_kib << 10);
    EXPECT_EQ(target.machine.l2_bytes, cpu.l2_kib << 10);
  }
}

// Names that begin like another's are not its own.
TEST(Target, CpusThatAreNotListedHaveTheCachesOfTheirOwnKind) {
  for (const char* cpu :
       {"cortex-a75", "cortex-a77", "cortex-a78ae", "cortex-a78c", "cortex-a715", "cortex-a720"}) {
    EXPECT_EQ(find_target(cpu).machine.l1_bytes, 64 << 10) << cpu;
    EXPECT_EQ(find_target(cpu).machine.l2_bytes, 512 << 10) << cpu;
  }
  for (const char* cpu : {"cortex-x4", "neoverse-n3", "neoverse-v3"}) {
    EXPECT_EQ(find_target(cpu).machine.l1_bytes, 64 << 10) << cpu;
    EXPECT_EQ(find_target(cpu).machine.l2_bytes, 1024 << 10) << cpu;
  }
  EXPECT_EQ(find_target("ampere1a").machine.l2_bytes, 2048 << 10);
}

// These have two units for vectors of 256 bits.
TEST(Target, CpusThatComputeWideVectorsInHalvesDoNotSoWithNarrowOnes) {
  for (const char* cpu : {"znver4", "tigerlake"}) {
    const Target narrow = find_target(std::string(cpu) + "-avx512f");
    EXPECT_EQ(narrow.machine.vector_bytes, 32) << cpu;
    EXPECT_EQ(narrow.machine.fma_per_cycle, 2) << cpu;
  }
}

TEST(Target, FeaturesGrowWithTheLevelAndSoDoesTheRank) {
  const Target v2 = find_target("x86-64-v2"), v3 = find_target("x86-64-v3"), v4 = find_target("x86-64-v4");
  EXPECT_THAT(v2.features, Not(Contains("avx")));
  EXPECT_THAT(v3.features, Contains("fma"));
  EXPECT_THAT(v4.features, Contains("avx512vl"));
  EXPECT_LT(v2.rank, v3.rank);
  EXPECT_LT(v3.rank, v4.rank);
  EXPECT_EQ(v2.machine.vector_bytes, 16);
  EXPECT_EQ(v3.machine.vector_bytes, 32);
  EXPECT_EQ(v4.machine.vector_bytes, 64);
  EXPECT_LT(find_target("aarch64").rank, find_target("aarch64+dotprod").rank);
}

TEST(Target, SuffixesAddAndRemoveFeaturesWithWhatDependsOnThem) {
  const Target added = find_target("x86-64-v3+avx512vnni");
  EXPECT_THAT(added.features, Contains("avx512f"));
  const Target removed = find_target("sapphirerapids-avx512f");
  EXPECT_THAT(removed.features, Not(Contains("avx512bf16")));
  EXPECT_THAT(removed.features, Contains("avx2"));
  EXPECT_THAT(find_target("cortex-a72+fp16").features, Contains("fullfp16"));
  const Target both = find_target("aarch64+dotprod+i8mm");
  EXPECT_EQ(find_target(both.name).features, both.features);
}

TEST(Target, SuffixesStateTheCachesOfACore) {
  const Target usual = find_target("cortex-a76"), stated = find_target("cortex-a76+l2=256K+l1=32K");
  EXPECT_EQ(stated.machine.l1_bytes, 32 << 10);
  EXPECT_EQ(stated.machine.l2_bytes, 256 << 10);
  EXPECT_EQ(stated.features, usual.features);
  EXPECT_EQ(stated.rank, usual.rank);
  EXPECT_EQ(stated.name, "cortex-a76+l1=32K+l2=256K");
  EXPECT_EQ(find_target(stated.name).machine.l2_bytes, 256 << 10);
  EXPECT_EQ(find_target("cortex-a76+l1=64K").name, "cortex-a76") << "it has that anyway";
  EXPECT_EQ(find_target("cortex-a76+l2=2048K").name, "cortex-a76+l2=2M");
  const Target both = find_target("aarch64+l2=1M+dotprod");
  EXPECT_EQ(both.name, "aarch64+dotprod+l2=1M");
  EXPECT_THAT(both.features, Contains("dotprod"));
  EXPECT_EQ(both.machine.l2_bytes, 1 << 20);
  EXPECT_EQ(find_target("cuda:sm_87/cortex-a78+l2=256K").host->machine.l2_bytes, 256 << 10);
}

TEST(Target, SizesThatNoCacheHasAreErrors) {
  for (const char* size : {"", "K", "12", "32k", "-32K", "1.5M", "32KK", "4K", "2M", "99999999999999999999K"})
    EXPECT_THAT(user_error_of(std::string("x86-64-v3+l1=") + size), HasSubstr("8K to 1M")) << size;
  EXPECT_THAT(user_error_of("x86-64-v3+l2=9223372036854775807M"), HasSubstr("64K to 1024M"));
  EXPECT_THAT(user_error_of("x86-64-v3+l1=512K+l2=256K"), HasSubstr("smaller than its first"));
  EXPECT_THAT(user_error_of("x86-64-v3+l2=1M+l2=2M"), HasSubstr("twice"));
  EXPECT_THAT(user_error_of("x86-64-v3-l2=1M"), HasSubstr("l2=1M"));
}

TEST(Target, AnUnknownNameIsAnErrorWithTheNearestNames) {
  EXPECT_THAT(user_error_of("znver33"), HasSubstr("znver3"));
  EXPECT_THAT(user_error_of("cortex-a57x"), HasSubstr("cortex-a57"));
  EXPECT_THAT(user_error_of("x86-64-v4+warp"), HasSubstr("warp"));
  EXPECT_THAT(user_error_of(""), HasSubstr("empty"));
  for (const char* too_old : {"core2", "k8", "x86-64"})
    EXPECT_THAT(user_error_of(too_old), HasSubstr("SSE4.2")) << too_old;
  EXPECT_THAT(user_error_of("x86-64-v5"), AllOf(HasSubstr("x86-64-v4"), Not(HasSubstr("'x86-64'"))));
  user_error_of("+");
  user_error_of("native+");
  user_error_of("aarch64-neon");
}

TEST(Target, NamesOfOtherCpusThatLlvmKnowsAreAccepted) {
  EXPECT_THAT(find_target("cooperlake").features, Contains("avx512bf16"));
  EXPECT_THAT(find_target("cortex-a57").features, Contains("neon"));
}

TEST(TargetOfBoard, UsesNothingThatTheBoardDoesNotReport) {
  std::vector<std::string> reported = find_target("sapphirerapids").features;
  std::erase(reported, "avx512fp16");
  std::erase(reported, "amx-int8");
  reported.push_back("made-up");
  const Target target = target_of_board("x86_64", "sapphirerapids", reported);
  EXPECT_THAT(target.features, Not(Contains("avx512fp16")));
  EXPECT_THAT(target.features, Not(Contains("made-up")));
  EXPECT_THAT(target.name, HasSubstr("sapphirerapids"));
  EXPECT_EQ(find_target(target.name).features, target.features);
}

TEST(TargetOfBoard, WithAnUnknownCpuTakesTheBestLevel) {
  EXPECT_EQ(target_of_board("x86_64", "", find_target("x86-64-v3").features).name, "x86-64-v3");
  EXPECT_EQ(target_of_board("x86_64", "no-such-cpu", find_target("x86-64-v4").features).machine.vector_bytes,
            64);
  EXPECT_EQ(target_of_board("aarch64", "", {"fp-armv8", "neon"}).name, "aarch64");
  EXPECT_THROW(target_of_board("riscv64", "", {}), Error);
  EXPECT_THROW(target_of_board("x86_64", "", {}), Error);
}

TEST(TargetOfBoard, WithAnUnknownCpuIsNotTakenForANarrowOne) {
  const auto taken = [](const char* architecture, const char* like) {
    return target_of_board(architecture, "", find_target(like).features).name;
  };
  EXPECT_EQ(taken("aarch64", "cortex-a510"), "neoverse-v2");
  EXPECT_EQ(taken("aarch64", "cortex-a57"), "aarch64");
  EXPECT_EQ(taken("x86_64", "gracemont"), "alderlake");
  EXPECT_EQ(taken("x86_64", "tigerlake"), "cascadelake");
}

TEST(TargetOfBoard, LeavesOutFeaturesWhoseNeedsAreMissing) {
  std::vector<std::string> reported = find_target("x86-64-v2").features;
  reported.push_back("avx512f");
  EXPECT_EQ(target_of_board("x86_64", "", reported).name, "x86-64-v2");
}

TEST(TargetOfBoard, WithoutTileRegistersHasNoneOfTheirInstructions) {
  std::vector<std::string> reported = find_target("sapphirerapids+amx-fp16").features;
  EXPECT_THAT(reported, Contains("amx-fp16"));
  std::erase(reported, "amx-tile");
  const Target target = target_of_board("x86_64", "sapphirerapids", reported);
  for (const char* tile : {"amx-tile", "amx-bf16", "amx-int8", "amx-fp16"})
    EXPECT_THAT(target.features, Not(Contains(tile)));
  EXPECT_THAT(target.features, Contains("avx512fp16"));
}

TEST(GpuTarget, NamesTheArchitectureAndTheCpuBesideIt) {
  const Target plain = find_target("cuda");
  EXPECT_EQ(plain.name, "cuda:sm_80");
  EXPECT_EQ(plain.device, DeviceKind::kGpu);
  EXPECT_EQ(plain.family, nullptr);
  ASSERT_NE(plain.host, nullptr);
  EXPECT_EQ(plain.host->name, "x86-64-v2");
  EXPECT_EQ(plain.features, plain.host->features);
  const Target orin = find_target("cuda:sm_87");
  EXPECT_EQ(orin.name, "cuda:sm_87");
  EXPECT_EQ(orin.host->family, find_family("aarch64"));
  const Target server = find_target("cuda:sm_90a/skylake-avx512");
  EXPECT_EQ(server.name, "cuda:sm_90a/skylake-avx512");
  EXPECT_EQ(server.gpu_arch, "sm_90a");
  EXPECT_EQ(server.gpu.compute_capability, 90);
  EXPECT_GT(server.rank, find_target("cuda:sm_90").rank);
  EXPECT_GT(plain.rank, find_target("sapphirerapids").rank);
}

TEST(GpuTarget, EmulatedIsACpuTargetThatABoardNeverPrefers) {
  const Target emulated = find_target("cuda-emulated:sm_75/x86-64-v3+checks");
  EXPECT_EQ(emulated.name, "cuda-emulated:sm_75/x86-64-v3+checks");
  EXPECT_EQ(emulated.device, DeviceKind::kEmulatedGpu);
  EXPECT_TRUE(emulated.gpu_checks);
  EXPECT_EQ(emulated.family, find_family("x86_64"));
  EXPECT_EQ(emulated.features, find_target("x86-64-v3").features);
  EXPECT_EQ(emulated.gpu.compute_capability, 75);
  EXPECT_LT(emulated.rank, find_target("x86-64-v2").rank);
  EXPECT_EQ(find_target("cuda-emulated").features, find_target("native").features);
  EXPECT_FALSE(find_target("cuda-emulated").gpu_checks);
}

TEST(GpuTarget, WrongNamesAreRefusedWithWhatIsNear) {
  EXPECT_THAT(user_error_of("cuda:sm_91"), HasSubstr("'cuda:sm_90'"));
  EXPECT_THAT(user_error_of("cuda-emulatd"), HasSubstr("'cuda-emulated'"));
  EXPECT_THAT(user_error_of("cda:sm_80"), HasSubstr("'cuda:sm_80'"));
  EXPECT_THAT(user_error_of("cuda:"), HasSubstr("cuda[:sm_NN]"));
  EXPECT_THAT(user_error_of("cuda:sm_80/"), HasSubstr("no CPU"));
  EXPECT_THAT(user_error_of("cuda:sm_80/cuda"), HasSubstr("is no CPU"));
  EXPECT_THAT(user_error_of("cuda:sm_80/skylak"), HasSubstr("'skylake'"));
  EXPECT_THAT(user_error_of("cuda+checks"), HasSubstr("cuda-emulated+checks"));
}

TEST(GpuTarget, RefusesPrecisionsThatTheProcessorLacks) {
  EXPECT_EQ(with_precision(find_target("cuda:sm_80"), Precision::kTf32).precision, Precision::kTf32);
  EXPECT_EQ(with_precision(find_target("cuda:sm_75"), Precision::kFp16).precision, Precision::kFp16);
  EXPECT_EQ(with_precision(find_target("x86-64-v3"), Precision::kFp32).precision, Precision::kFp32);
  EXPECT_THROW(with_precision(find_target("cuda:sm_75"), Precision::kTf32), Error);
  EXPECT_THROW(with_precision(find_target("cuda:sm_75"), Precision::kBf16), Error);
  EXPECT_THROW(with_precision(find_target("cuda:sm_70"), Precision::kFp16), Error);
  EXPECT_THROW(with_precision(find_target("x86-64-v3"), Precision::kBf16), Error);
  for (const char* cpu : {"sapphirerapids", "cortex-a55", "neoverse-n1", "aarch64+fp16"}) {
    const Target half = with_precision(find_target(cpu), Precision::kFp16);
    EXPECT_EQ(half.precision, Precision::kFp16) << cpu;
    EXPECT_TRUE(half.machine.half_products) << cpu;
    EXPECT_FALSE(with_precision(half, Precision::kAuto).machine.half_products) << cpu;
  }
  for (const char* cpu : {"x86-64-v4", "icelake-server", "aarch64", "cortex-a72"})
    EXPECT_THROW(with_precision(find_target(cpu), Precision::kFp16), Error) << cpu;
  EXPECT_FALSE(with_precision(find_target("cuda:sm_75"), Precision::kFp16).machine.half_products);
  EXPECT_EQ(find_precision("bf16"), Precision::kBf16);
  EXPECT_THROW(find_precision("fp8"), Error);
}

}  // namespace
}  // namespace gantry
