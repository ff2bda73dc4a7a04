// Cases on the emulated GPU, and hand-made modules on the stand-in for a GPU's driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/benchmarks/gpu_programs.h"
#include "tests/cases/case_pack.h"

namespace gantry::gpu_bundle {
namespace {

using conformance::CasePack;
using conformance::PackedCase;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kEmulated = "cuda-emulated:sm_80/native";

Outcome run_case(const std::filesystem::path& pack, const std::string& name, const std::string& device,
                 const std::string& target) {
  return run({{program("gpu_case"), "run", pack.string(), name, device, target, program("gantry")},
              with_stand_in(),
              Seconds(120)});
}

class GpuCase : public ::testing::Test {
 protected:
  void SetUp() override {
    if (packed_cases().lacks_data()) GTEST_SKIP() << packed_cases().outcome.errors;
    ASSERT_TRUE(packed_cases().outcome.ok()) << packed_cases().outcome.why();
  }
  /// A pack of the one case, changed.
  std::filesystem::path changed(const std::string& name, const std::function<void(PackedCase&)>& change) {
    PackedCase c = CasePack::read(packed_cases().path).load(name);
    change(c);
    const std::filesystem::path path = folder_.path() / "changed.pack";
    std::ofstream(path, std::ios::binary) << conformance::write_pack({c});
    return path;
  }
  testing::TemporaryDirectory folder_;
};

TEST_F(GpuCase, ListedCasesPassOnTheEmulatedGpu) {
  size_t count = 0;
  const CasePack pack = CasePack::read(packed_cases().path);
  for (const CasePack::Entry& entry : pack.entries()) {
    if (entry.is_module) continue;
    ++count;
    const Outcome outcome = run_case(packed_cases().path, entry.name, "cuda-emulated", kEmulated);
    EXPECT_TRUE(outcome.ok()) << entry.name << ": " << outcome.output << outcome.why();
  }
  std::ifstream list(GANTRY_CASE_LIST);
  size_t listed = 0;
  for (std::string line; std::getline(list, line);) listed += !line.empty() && line[0] != '#';
  EXPECT_EQ(count, listed) << "every listed case has kernels for a GPU";
}

TEST_F(GpuCase, AWrongResultIsToldWithItsWorstElement) {
  const auto pack = changed("test_add_bcast", [](PackedCase& c) {
    std::byte* bytes = nullptr;
    const auto output = allocate_constant(c.outputs[0]->type, &bytes);
    std::memcpy(bytes, c.outputs[0]->bytes, output->size);
    reinterpret_cast<float*>(bytes)[7] += 0.5f;
    reinterpret_cast<float*>(bytes)[11] += 5000;
    c.outputs[0] = output;
  });
  const Outcome outcome = run_case(pack, "test_add_bcast", "cuda-emulated", kEmulated);
  EXPECT_EQ(outcome.code, 1);
  const Json said = last_object(outcome.output);
  ASSERT_TRUE(said.is_object()) << outcome.output << outcome.why();
  EXPECT_EQ(said["result"], "wrong");
  EXPECT_EQ(said["worst"]["output"], 0);
  EXPECT_TRUE(said["worst"]["index"] == 7 || said["worst"]["index"] == 11) << said;
  EXPECT_THAT(said["text"].get<std::string>(),
              AllOf(HasSubstr("first run, output 0: element"), HasSubstr("instead of")));
}

TEST_F(GpuCase, AModelThatIsNoneIsNotCompiled) {
  const auto pack = changed("test_add_bcast", [](PackedCase& c) { c.program = "no model"; });
  const Json said = last_object(run_case(pack, "test_add_bcast", "cuda-emulated", kEmulated).output);
  EXPECT_EQ(said.value("result", ""), "not compiled") << said;
}

TEST_F(GpuCase, ADriverThatRefusesCodeIsQuoted) {
  // The stand-in knows none of the compiler's kernels.
  const Json said =
      last_object(run_case(packed_cases().path, "test_add_bcast", "cuda", "cuda:sm_80/native").output);
  EXPECT_EQ(said.value("result", ""), "failed to load") << said;
  EXPECT_THAT(said.value("text", ""), HasSubstr("has no kernel"));
}

TEST_F(GpuCase, TheFirstKernelPassesOnTheDriver) {
  const Outcome outcome =
      run({{program("gpu_case"), "run", packed_cases().path.string(), "first_kernel", "cuda"},
           with_stand_in(),
           Seconds(60)});
  EXPECT_TRUE(outcome.ok()) << outcome.output << outcome.why();
}

TEST_F(GpuCase, AFaultOnABoardNamesItsKernelAndCostsOthersNothing) {
  testing::TemporaryDirectory cache;
  Server server(
      {{program("gantry-device"), "serve", "--listen", "127.0.0.1:0", "--cache", cache.path().string()},
       with_stand_in(),
       Seconds(120)},
      Seconds(20));
  ASSERT_NE(address_of(server), "") << server.errors();
  const Outcome outcome = run(
      {{program("gpu_case"), "fault", packed_cases().path.string(), address_of(server)}, {}, Seconds(60)});
  EXPECT_TRUE(outcome.ok()) << outcome.output << outcome.why();
  EXPECT_THAT(outcome.output, HasSubstr("kernel scale (step #1: test.scale; nodes Mul_1) failed on the GPU"));
}

TEST(GpuPeaks, AreMeasuredAndChecked) {
  const Outcome outcome = run({{program("gpu_peaks")}, with_stand_in(), Seconds(120)});
  ASSERT_TRUE(outcome.ok()) << outcome.output << outcome.why();
  const Json said = last_object(outcome.output);
  EXPECT_EQ(said["gpu"], "Fake GPU 0");
  for (const char* peak :
       {"bandwidth_gb_per_s", "fp32_gflop_per_s", "tf32_gflop_per_s", "fp16_gflop_per_s", "bf16_gflop_per_s"})
    EXPECT_GT(said["peaks"].value(peak, 0.0), 0) << peak;
}

TEST(GpuPeaks, SayWhyThereAreNone) {
  auto environment = with_stand_in();
  environment.push_back("FAKE_CUDA_DEVICES=0");
  const Outcome outcome = run({{program("gpu_peaks")}, environment, Seconds(60)});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("finds no GPU"));
}

}  // namespace
}  // namespace gantry::gpu_bundle
