// Networks from a real exporter: GANTRY_MODELS names a folder with NAME.onnx, NAME.in.npy and NAME.out.npy,
// an input and the exporting framework's own output for it. Every model of the folder is tried.
//   GANTRY_MODELS_BOARD=1   also on an emulated AArch64 board, which takes minutes
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"
#include "tests/support/tile_registers.h"

namespace gantry::end_to_end {
namespace {

namespace fs = std::filesystem;

std::set<fs::path> exported_models() {
  std::set<fs::path> models;
  const char* folder = std::getenv("GANTRY_MODELS");
  if (folder == nullptr) return models;
  for (const auto& entry : fs::directory_iterator(folder)) {
    fs::path path = entry.path();
    if (path.extension() == ".onnx" && fs::exists(path.replace_extension(".out.npy")))
      models.insert(entry.path());
  }
  return models;
}

void expect_exported_outputs(const Runner& run) {
  const std::set<fs::path> models = exported_models();
  if (models.empty()) GTEST_SKIP() << "GANTRY_MODELS names no folder with exported networks";
  for (fs::path path : models) {
    SCOPED_TRACE(path.stem().string());
    try {
      const Graph graph = import_onnx(path);
      const ConstantPtr input = read_npy_tensor(path.replace_extension(".in.npy"));
      const ConstantPtr expected = read_npy_tensor(path.replace_extension("").replace_extension(".out.npy"));
      std::vector<ConstantPtr> outputs = run(graph, {input});
      outputs.resize(1);  // the exporter kept the first
      EXPECT_LE(worst_error(outputs, {expected}), kTolerance);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Exported, GiveTheExportersOutputs) {
  expect_exported_outputs(run_here());
}

TEST(Exported, GiveTheExportersOutputsForTheOldestX86) {
#if defined(__x86_64__)
  expect_exported_outputs(run_here("x86-64-v2"));
#else
  GTEST_SKIP() << "not an x86-64 machine";
#endif
}

TEST(Exported, GiveTheExportersOutputsOnTileRegisters) {
  const std::string target = testing::target_with_tile_registers();
  if (target.empty())
    GTEST_SKIP() << "neither tile registers (amx-bf16) nor AVX512-BF16, beside which they are emulated";
  expect_exported_outputs(run_here(target));
}

TEST(Exported, GiveTheExportersOutputsOnAnEmulatedBoard) {
  if (!std::getenv("GANTRY_MODELS_BOARD")) GTEST_SKIP() << "GANTRY_MODELS_BOARD is not set";
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  expect_exported_outputs(run_on_emulated_board());
}

}  // namespace
}  // namespace gantry::end_to_end
