// The light networks of ONNX's own backend tests, whose weights are constants of a value: the outputs are
// known for inputs with element i = i / count.
#include <gtest/gtest.h>

#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"
#include "tests/support/tile_registers.h"

namespace gantry::end_to_end {
namespace {

namespace fs = std::filesystem;

class Light : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = fs::weakly_canonical(GANTRY_SOURCE_DIR).parent_path() / "shared" / "onnx-1.22" / "light";
    if (!fs::exists(model())) GTEST_SKIP() << model() << " is not there";
  }
  fs::path model() const { return folder_ / (std::string("light_") + GetParam() + ".onnx"); }

  double error_of(const Runner& run) const {
    const Graph graph = import_onnx(model());
    std::vector<ConstantPtr> inputs;
    for (const Value* parameter : graph.main.parameters)
      inputs.push_back(testing::ramp(shape_of(*parameter)));
    const fs::path expected = folder_ / (std::string("light_") + GetParam() + "_output_0.pb");
    return worst_error(run(graph, inputs), {read_onnx_tensor(expected)});
  }

 private:
  fs::path folder_;
};

TEST_P(Light, GivesTheKnownOutput) {
  EXPECT_LE(error_of(run_here()), kTolerance);
}

TEST_P(Light, GivesTheKnownOutputOnTileRegisters) {
  const std::string target = testing::target_with_tile_registers();
  if (target.empty())
    GTEST_SKIP() << "neither tile registers (amx-bf16) nor AVX512-BF16, beside which they are emulated";
  EXPECT_LE(error_of(run_here(target)), kTolerance);
}

TEST_P(Light, GivesTheKnownOutputOnTheEmulatedGpu) {
  constexpr double kSumsInAnotherOrder = 1e-4;
  EXPECT_LE(error_of(run_here(testing::gpu_test_target())), kSumsInAnotherOrder);
}

TEST_P(Light, GivesTheKnownOutputOnAnEmulatedBoard) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  const std::string name = GetParam();
  if (name != "shufflenet" && name != "squeezenet")
    GTEST_SKIP() << "slow under emulation; the others cover it";
  EXPECT_LE(error_of(run_on_emulated_board()), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Networks, Light,
                         ::testing::Values("bvlc_alexnet", "densenet121", "resnet50", "shufflenet",
                                           "squeezenet"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace gantry::end_to_end
