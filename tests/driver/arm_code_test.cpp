#include <gtest/gtest.h>

#include <regex>

#include "host/driver/compile.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

int count(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator()));
}

/// Assembly of a strided 3x3 convolution of 32 channels.
std::string convolution_assembly(const std::string& target_name) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, 32, 16, 16), f32]) -> Tensor[(1, 32, 8, 8), f32] {\n"
      "  %a = nn.conv(%x, @w: Tensor[(32, 32, 3, 3), f32], channels=32, kernel=[3, 3], strides=[2, 2], "
      "dilations=[1, 1], padding=(1, 1, 1, 1))\n"
      "  return %a\n}\n",
      op_set());
  CompileOptions options;
  const Target target = find_target(target_name);
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

}  // namespace
}  // namespace gantry
