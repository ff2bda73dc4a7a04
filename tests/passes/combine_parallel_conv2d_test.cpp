#include <fmt/format.h>

#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

std::string combined(const std::string& text) {
  return after(text, [](Graph& graph) {
    combine_parallel_conv2d(graph, fresh_context());
    fold_constant(graph, fresh_context());
    dead_code(graph, fresh_context());
  });
}

const std::string kPoint = "kernel=[1, 1], strides=[1, 1], dilations=[1, 1], padding=(0, 0, 0, 0), "
                           "channels_last=true, algorithm=gemm";

/// Two convolutions of %x, whose results are read by two others in form gemm.
std::string branches(const std::string& behind_first, const std::string& behind_second,
                     const std::string& second = kPoint) {
  return "fn @main(%x: Tensor[(N, 4, 4, 2), f32]) -> Tensor[(N, 4, 4, 1), f32] {\n"
         "  %a = nn.conv(%x, const(f32, [2, 1], [1, 2]), channels=1, " +
         kPoint + ")\n" + behind_first + "  %b = nn.conv(%x, const(f32, [2, 2], [3, 4, 5, 6]), channels=2, " +
         second + ")\n" + behind_second + "  %c = nn.conv(%p, const(f32, [1, 1], [7]), channels=1, " + kPoint +
         ")\n  %d = nn.conv(%q, const(f32, [2, 1], [8, 9]), channels=1, " + kPoint + ")\n  %y = subtract(%c, %d)\n  return %y\n}";
}
const std::string kFirst = "  %s = add(%a, const(f32, [1], [10]))\n  %p = nn.relu(%s)\n";
const std::string kSecond = "  %t = add(%b, const(f32, [2], [11, 12]))\n  %q = nn.relu(%t)\n";

/// Both as one convolution with these biases, cut in two.
std::string as_one(const std::string& biases) {
  return "fn @main(%x: Tensor[(N, 4, 4, 2), f32]) -> Tensor[(N, 4, 4, 1), f32] {\n"
         "  %a = nn.conv(%x, const(f32, [2, 3], [1, 3, 4, 2, 5, 6]), channels=3, " +
         kPoint + ")\n  %s = add(%a, const(f32, [3], [" + biases +
         "]))\n  %r = nn.relu(%s)\n"
         "  %p = strided_slice(%r, begin=(0, 0, 0, 0), end=(N, 4, 4, 1), strides=[1, 1, 1, 1])\n"
         "  %q = strided_slice(%r, begin=(0, 0, 0, 1), end=(N, 4, 4, 3), strides=[1, 1, 1, 1])\n"
         "  %c = nn.conv(%p, const(f32, [1, 1], [7]), channels=1, " +
         kPoint + ")\n  %d = nn.conv(%q, const(f32, [2, 1], [8, 9]), channels=1, " + kPoint +
         ")\n  %y = subtract(%c, %d)\n  return %y\n}";
}

TEST(CombineParallelConv2d, BranchesWithBiasAndActivationBecomeOne) {
  EXPECT_THAT(combined(branches(kFirst, kSecond)), IsGraph(as_one("10, 11, 12")));
}

TEST(CombineParallelConv2d, AWeightMadeOfConstantsIsMadeOnceHoweverOftenItsPartsAreRead) {
  const auto with = [](std::string text, const std::string& part, const std::string& other) {
    return text.replace(text.find(part), part.size(), other);
  };
  std::string weight = "  %w0 = add(const(f32, [2, 1], [0, 0]), const(f32, [2, 1], [0, 0]))\n";
  for (int i = 1; i < 64; ++i) weight += fmt::format("  %w{} = add(%w{}, %w{})\n", i, i - 1, i - 1);
  EXPECT_THAT(combined(with(branches(kFirst, kSecond), "  %a = nn.conv(%x, const(f32, [2, 1], [1, 2])",
                            weight + "  %a = nn.conv(%x, %w63")),
              IsGraph(with(as_one("10, 11, 12"), "[1, 3, 4, 2, 5, 6]", "[0, 3, 4, 0, 5, 6]")));
}

TEST(CombineParallelConv2d, ABranchWithoutABiasGetsOneOfZeros) {
  EXPECT_THAT(combined(branches("  %p = nn.relu(%a)\n", kSecond)), IsGraph(as_one("0, 11, 12")));
}

TEST(CombineParallelConv2d, BranchesOfOtherActivationsStayApart) {
  const std::string text = branches(kFirst, "  %t = add(%b, const(f32, [2], [11, 12]))\n  %q = sigmoid(%t)\n");
  EXPECT_THAT(combined(text), IsGraph(text));
}

TEST(CombineParallelConv2d, AResultThatWouldHaveToBeCopiedStaysApart) {
  std::string text = branches(kFirst, kSecond);
  const std::string reader = "%d = nn.conv(%q, const(f32, [2, 1], [8, 9]), channels=1, " + kPoint + ")";
  text.replace(text.find(reader), reader.size(), "%d = sum(%q, axes=[3], keepdims=true)");
  EXPECT_THAT(combined(text), IsGraph(text));
}

}  // namespace
}  // namespace gantry
