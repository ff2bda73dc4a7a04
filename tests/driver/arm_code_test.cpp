#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

int count(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator()));
}

/// Assembly of a strided 3x3 convolution; channels enough to fill vectors.
std::string convolution_assembly(const std::string& target_name, Precision precision = Precision::kFp32) {
  const int channels = precision == Precision::kFp16 ? 128 : 32;
  const Graph graph = parse_graph(
      fmt::format("fn @main(%x: Tensor[(1, {0}, 32, 32), f32]) -> Tensor[(1, {0}, 16, 16), f32] {{\n"
                  "  %a = nn.conv(%x, @w: Tensor[({0}, {0}, 3, 3), f32], channels={0}, kernel=[3, 3], "
                  "strides=[2, 2], dilations=[1, 1], padding=(1, 1, 1, 1))\n"
                  "  return %a\n}}\n",
                  channels),
      op_set());
  CompileOptions options;
  options.precision = precision;
  const Target target = with_precision(find_target(target_name), precision);
  std::string text;
  for (const LoopKernel& kernel : lower_program(graph, target, options).kernels)
    text += emit_assembly(kernel, target);
  return text;
}

TEST(ArmCode, ConvolutionsMultiplyByLanesOfRegistersThatWereLoadedWhole) {
  for (const char* target : {"cortex-a53", "cortex-a76", "neoverse-v1", "aarch64"}) {
    const std::string text = convolution_assembly(target);
    const int products = count(text, "\tfmla\tv[0-9]+\\.4s, v[0-9]+\\.4s, v[0-9]+\\.s\\[[0-3]\\]");
    EXPECT_GT(products, 16) << target;
    // Were scalars loaded one by one, all products would be by lane 0.
    for (const char* lane : {"0", "1", "2", "3"})
      EXPECT_GE(count(text, std::string("\tfmla\t.*\\.s\\[") + lane + "\\]"), products / 8) << target;
    EXPECT_LT(count(text, "\tldu?r\ts"), products / 4) << target;
  }
}

TEST(ArmCode, HalfPrecisionMultipliesEightLanesByLanesOfRegisters) {
  for (const char* target : {"cortex-a55", "cortex-a76", "neoverse-v1", "aarch64+fp16"}) {
    const std::string text = convolution_assembly(target, Precision::kFp16);
    const int products = count(text, "\tfmla\tv[0-9]+\\.8h, v[0-9]+\\.8h, v[0-9]+\\.h\\[[0-7]\\]");
    EXPECT_GT(products, 32) << target;
    for (const char* lane : {"0", "3", "7"})
      EXPECT_GE(count(text, std::string("\tfmla\t.*\\.h\\[") + lane + "\\]"), products / 16) << target;
    EXPECT_GT(count(text, "\tfcvtl2?\t"), 0) << target;
    EXPECT_LT(count(text, "\tldr\th"), products / 4) << target;
  }
}

TEST(X86Code, HalfPrecisionMultipliesWholeRegisters) {
  const std::string text = convolution_assembly("sapphirerapids", Precision::kFp16);
  const int products = count(text, "\tvfmadd[0-9]+ph\t.*%zmm");
  EXPECT_GT(products, 8);
  EXPECT_GT(count(text, "\tvcvtph2psx\t.*%zmm"), 0);
  EXPECT_GT(count(text, "\tvcvtps2phx\t"), 0);
  // Nothing is widened between two products.
  EXPECT_EQ(count(text, "\tvfmadd[0-9]+ps\t"), 0);
}

}  // namespace
}  // namespace gantry
