#include "host/targets/cuda/gpu_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "host/codegen/find_target.h"
#include "host/targets/cuda/gemm_model.h"

namespace gantry::cuda {
namespace {

const char* const kGpus[] = {"cuda:sm_75", "cuda:sm_80", "cuda:sm_90"};

TEST(GpuModel, NothingRunsThatDoesNotFit) {
  GpuModel gpu;
  EXPECT_EQ(resident_blocks({.threads = 128, .registers = 300}, gpu), 0);
  EXPECT_EQ(resident_blocks({.threads = 128, .shared_bytes = 49 << 10}, gpu), 0);
  EXPECT_TRUE(std::isinf(predicted_seconds({.threads = 128, .registers = 300}, gpu)));
}

TEST(GpuModel, ResidencyIsLimitedByTheScarcestResource) {
  GpuModel gpu;
  EXPECT_EQ(resident_blocks({.threads = 1024, .registers = 32}, gpu), 2);
  EXPECT_EQ(resident_blocks({.threads = 32, .registers = 32}, gpu), gpu.max_blocks);
  EXPECT_EQ(resident_blocks({.threads = 256, .registers = 128}, gpu), 2);
  EXPECT_EQ(resident_blocks({.threads = 64, .registers = 32, .shared_bytes = 40 << 10}, gpu), 4);
}

TEST(GpuModel, MovingMoreBytesTakesLonger) {
  GpuModel gpu;
  LaunchWork work{.blocks = 100000, .memory_bytes = 1e9};
  double seconds = predicted_seconds(work, gpu);
  EXPECT_GE(seconds, 1e9 / (gpu.memory_gb_per_second * 1e9));
  work.memory_bytes = 2e9;
  EXPECT_GT(predicted_seconds(work, gpu), 1.9 * seconds);
}

TEST(GemmModel, EveryTileFitsABlock) {
  for (const char* name : kGpus) {
    GpuModel gpu = find_target(name).gpu;
    auto space = gemm_tile_space({1, 512, 512, 512}, gpu);
    EXPECT_FALSE(space.empty());
    for (const GemmTile& tile : space) {
      EXPECT_LE(tile.shared_bytes(), 48 << 10) << tile.str();
      EXPECT_EQ(tile.threads() % 32, 0) << tile.str();
      EXPECT_LE(tile.threads(), 256) << tile.str();
      EXPECT_LE(gemm_launch({1, 512, 512, 512}, tile, gpu).registers, 255) << tile.str();
      EXPECT_GT(tile.lane_columns(), 0) << tile.str();
      EXPECT_EQ((tile.bn / tile.tn) % tile.lane_columns(), 0) << tile.str();
      EXPECT_EQ((tile.bm / tile.tm) % tile.lane_rows(), 0) << tile.str();
    }
  }
}

TEST(GemmModel, PredictsNoLessTimeThanTheArithmeticNeeds) {
  for (const char* name : kGpus) {
    GpuModel gpu = find_target(name).gpu;
    GemmWork work{1, 2048, 2048, 2048};
    double products = 2048.0 * 2048 * 2048;
    double least = products / (gpu.fp32_per_cycle * gpu.multiprocessors * gpu.clock_ghz * 1e9);
    double seconds = predicted_seconds(work, choose_gemm_tile(work, gpu), gpu);
    EXPECT_GE(seconds, least) << name;
    EXPECT_LE(seconds, 2 * least) << name;
  }
}

TEST(GemmModel, SplitsDeepProductsOfFewBlocksOnly) {
  GpuModel gpu = find_target("cuda:sm_80").gpu;
  EXPECT_GT(choose_gemm_tile({1, 49, 512, 4608}, gpu).split, 1);
  EXPECT_EQ(choose_gemm_tile({1, 12544, 256, 256}, gpu).split, 1);
}

TEST(GemmModel, LargeProductsGetLargeTiles) {
  GpuModel gpu = find_target("cuda:sm_80").gpu;
  GemmTile tile = choose_gemm_tile({1, 4096, 4096, 4096}, gpu);
  EXPECT_GE(tile.tm * tile.tn, 32);
  EXPECT_GE(tile.bm * tile.bn, 64 * 64);
}

}  // namespace
}  // namespace gantry::cuda
