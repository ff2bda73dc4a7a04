#include "host/codegen/cpu_codegen.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "host/codegen/gpu_codegen.h"
#include "host/machine/gpu_family.h"

namespace gantry {
namespace {

TEST(Codegen, IsThereForEachFamily) {
  ASSERT_EQ(cpu_codegens().size(), cpu_families().size());
  for (const CpuFamily* family : cpu_families()) EXPECT_EQ(codegen_of(*family).family, family);
  ASSERT_EQ(gpu_codegens().size(), gpu_families().size());
  for (const GpuFamily* family : gpu_families()) {
    Target target;
    target.gpu_family = family;
    EXPECT_EQ(gpu_codegen_of(target).family, family);
  }
}

TEST(Codegen, EachInstructionThatMultipliesTilesIsWritten) {
  for (const CpuFamily* family : cpu_families()) {
    const auto written = codegen_of(*family).tile_emitters;
    EXPECT_EQ(written.size(), family->tile_instructions.size()) << family->name;
    for (const TileInstruction* instruction : family->tile_instructions)
      EXPECT_EQ(std::ranges::count(written, instruction, &TileEmitter::instruction), 1)
          << instruction->geometry->name;
  }
}

}  // namespace
}  // namespace gantry
