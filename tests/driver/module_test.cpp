#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

Graph small_network() {
  return parse_graph(
      "fn @main(%x: Tensor[(1, 3, 8, 8), f32]) -> Tensor[(1, 8, 8, 8), f32] {\n"
      "  %a = nn.conv(%x, @w: Tensor[(8, 3, 3, 3), f32], channels=8, kernel=[3, 3], strides=[1, 1], "
      "dilations=[1, 1], padding=(1, 1, 1, 1))\n"
      "  %b = add(%a, @offset: Tensor[(1, 8, 8, 8), f32])\n"
      "  %c = nn.relu(%b)\n  return %c\n}\n",
      op_set());
}

std::vector<std::byte> compiled(const std::vector<std::string>& targets, int opt_level = 3) {
  CompileOptions options;
  for (const std::string& target : targets) options.targets.push_back(find_target(target));
  options.opt_level = opt_level;
  ModuleFile module = compile_graph(small_network(), options);
  return serialize_module(module);
}

TEST(Module, IsTheSameForTheSameModel) {
  EXPECT_EQ(compiled({"x86-64-v3"}), compiled({"x86-64-v3"}));
}

TEST(Module, IsTheSameWithKernelsThatWereCompiledBefore) {
  std::string folder = (std::filesystem::temp_directory_path() / "gantry-module-test-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::vector<std::byte> expected = compiled({"x86-64-v3", "aarch64"});
  for (const bool warm : {false, true}) {
    CompileOptions options;
    options.targets = {find_target("x86-64-v3"), find_target("aarch64")};
    options.cache = std::make_shared<KernelCache>(folder);
    ModuleFile module = compile_graph(small_network(), options);
    EXPECT_EQ(serialize_module(module), expected);
    EXPECT_EQ(options.cache->hits() > 0, warm);
    EXPECT_EQ(options.cache->misses() > 0, !warm);
  }
  std::filesystem::remove_all(folder);
}

/// The message with which a graph is refused; empty: it is compiled.
std::string refusal_of(const std::string& text) {
  const Graph graph = parse_graph(text, op_set());
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  try {
    compile_graph(graph, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

/// Of a graph of one relu whose tensors have so many dimensions.
std::string refusal_of_rank(int rank) {
  std::string type = "Tensor[(2";
  for (int i = 1; i < rank; ++i) type += ", 1";
  type += "), f32]";
  return refusal_of(fmt::format("fn @main(%x: {0}) -> {0} {{\n  %y = nn.relu(%x)\n  return %y\n}}\n", type));
}

TEST(Module, RefusesInputsOfMoreDimensionsThanRuntimesTake) {
  EXPECT_EQ(refusal_of_rank(16), "");
  EXPECT_THAT(refusal_of_rank(17),
              ::testing::HasSubstr("'x' has 17 dimensions: inputs and outputs have at most 16"));
}

TEST(Module, RefusesSizesWhoseExpressionsRuntimesDoNotTake) {
  const auto refusal_of_depth = [](int depth) {
    std::string size = "H";
    for (int i = 0; i < depth; ++i) size = fmt::format("mod(H, {}+1)", size);
    return refusal_of(
        fmt::format("fn @main(%x: Tensor[(H), f32]) -> Tensor[({0}), f32] {{\n"
                    "  %y = broadcast_to(const(f32, [], [1]), shape=({0}))\n  return %y\n}}\n",
                    size));
  };
  EXPECT_EQ(refusal_of_depth(4), "");
  EXPECT_THAT(refusal_of_depth(70), ::testing::AllOf(::testing::HasSubstr("computes of H is too long"),
                                                     ::testing::HasSubstr("--dim")));
}

TEST(Module, NamesKernelsByTheirOpsAndAlgorithms) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  const ModuleFile module = compile_graph(small_network(), options);
  std::vector<std::string> names, symbols;
  for (const auto& kernel : module.manifest.variants[0]->kernels) {
    names.push_back(kernel->name);
    symbols.push_back(kernel->symbol);
  }
  EXPECT_THAT(names, testing::Contains(testing::StartsWith("nn.conv[")));
  EXPECT_THAT(symbols, testing::Contains(testing::HasSubstr("conv_add_relu_1")));
}

TEST(Module, HoldsAVariantForEveryTarget) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v2"), find_target("aarch64")};
  ModuleFile module = compile_graph(small_network(), options);
  ASSERT_EQ(module.manifest.variants.size(), 2u);
  EXPECT_EQ(module.manifest.variants[0]->target, "x86-64-v2");
  EXPECT_EQ(module.manifest.variants[1]->architecture, module_format::Architecture::AArch64);
}

TEST(Module, SharesConstantsThatTargetsHaveInCommon) {
  // The added constant is the same for both; the packed weights need not be.
  CompileOptions options;
  options.targets = {find_target("x86-64-v3"), find_target("x86-64-v4")};
  ModuleFile module = compile_graph(small_network(), options);
  auto segments_of = [&](size_t variant) {
    std::vector<uint32_t> segments;
    for (const auto& constant : module.manifest.variants[variant]->constants)
      segments.push_back(constant.segment());
    return segments;
  };
  EXPECT_THAT(segments_of(1), testing::Contains(segments_of(0).front()));
}

// Every weight under two names: constants of a text without values are zeros, so that those of one shape are
// equal.
Graph network_with_ties() {
  return parse_graph(
      "fn @main(%x: Tensor[(1, 64, 8, 8), f32], %i: Tensor[(4), i64]) -> (Tensor[(1, 64, 8, 8), f32], "
      "Tensor[(4, 48), f32], Tensor[(4, 48), f32]) {\n"
      "  %a = nn.conv(%x, @first: Tensor[(64, 64, 3, 3), f32], channels=64, kernel=[3, 3], strides=[1, 1], "
      "dilations=[1, 1], padding=(1, 1, 1, 1))\n"
      "  %b = nn.conv(%a, @second: Tensor[(64, 64, 3, 3), f32], channels=64, kernel=[3, 3], strides=[1, 1], "
      "dilations=[1, 1], padding=(1, 1, 1, 1))\n"
      "  %c = gather(@table: Tensor[(512, 48), f32], %i, axis=0)\n"
      "  %d = gather(@same: Tensor[(512, 48), f32], %i, axis=0)\n  return %b, %c, %d\n}\n",
      op_set());
}

TEST(Module, StoresAndListsConstantsOfEqualBytesOnce) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3"), find_target("haswell"), find_target("aarch64")};
  const ModuleFile module = compile_graph(network_with_ties(), options);
  std::set<std::string> stored;
  for (size_t i = 0; i < module.segments.size(); ++i) {
    if (module.segment_kinds[i] != module_format::SegmentKind::Weights) continue;
    for (const SegmentPiece& piece : module.segments[i].pieces) {
      const auto* bytes = reinterpret_cast<const char*>(piece.bytes.data());
      EXPECT_TRUE(stored.emplace(bytes, piece.bytes.size()).second)
          << piece.bytes.size() << " bytes are stored twice";
    }
  }
  for (const auto& variant : module.manifest.variants) {
    EXPECT_EQ(variant->constants.size(), 2u) << variant->target;
    std::set<std::pair<uint32_t, uint64_t>> places;
    for (const auto& constant : variant->constants) {
      EXPECT_TRUE(places.insert({constant.segment(), constant.offset()}).second) << variant->target;
    }
  }
}

TEST(Module, StoresCodeThatTargetsHaveInCommonOnce) {
  // Names of one target do not change its code.
  CompileOptions options;
  Target renamed = find_target("x86-64-v3");
  renamed.name = "another name";
  options.targets = {find_target("x86-64-v3"), renamed};
  const ModuleFile module = compile_graph(small_network(), options);
  ASSERT_EQ(module.manifest.variants.size(), 2u);
  EXPECT_EQ(module.manifest.variants[0]->code_segment, module.manifest.variants[1]->code_segment);
  EXPECT_EQ(module.segments.size(), 2u);
}

TEST(Module, FusesTheWholeNetworkIntoOneKernelBetweenLayoutChanges) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  LoweredProgram program = lower_program(small_network(), options.targets[0], options);
  std::vector<std::string> anchors;
  for (const LoopKernel& kernel : program.kernels) anchors.push_back(kernel.name);
  EXPECT_THAT(anchors, testing::Contains(testing::HasSubstr("conv_add_relu_1")));
}

TEST(Module, KernelsAreNamedByTheirOpsAndANumber) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, 4, 8), f32]) -> Tensor[(1, 4, 8), f32] {\n"
      "  %a = nn.softmax(%x, axis=2)  // S_0\n  %b = exp(%a)  // E_1\n"
      "  %c = nn.softmax(%b, axis=1)  // S_2\n  %d = nn.softmax(%c, axis=2)  // S_3\n  return %d\n}\n",
      op_set());
  CompileOptions options;
  options.opt_level = 1;  // without fusion
  const LoweredProgram program = lower_program(graph, find_target("x86-64-v3"), options);
  std::vector<std::string> names;
  for (const KernelStep& step : program.steps) names.push_back(program.kernels[step.kernel].name);
  EXPECT_THAT(names, testing::ElementsAre("softmax_1", "exp_1", "softmax_2", "softmax_1"));
  for (size_t i = 0; i < program.steps.size(); ++i) EXPECT_EQ(program.steps[i].step, i);
}

TEST(Module, KernelsOfManyOpsHaveShortNames) {
  std::string nodes = "  %v0 = nn.relu(%x)\n";
  for (int i = 1; i < 30; ++i) {
    nodes += fmt::format("  %v{} = {}(%v{})\n", i, i % 2 ? "exp" : "tanh", i - 1);
  }
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(8), f32]) -> Tensor[(8), f32] {\n" + nodes + "  return %v29\n}\n", op_set());
  const LoweredProgram program = lower_program(graph, find_target("x86-64-v3"), {});
  for (const LoopKernel& kernel : program.kernels) {
    EXPECT_LE(kernel.name.size(), 48u);
    EXPECT_THAT(kernel.name, testing::MatchesRegex("[a-z_0-9]*_1"));
  }
}

TEST(Module, KernelsSayForWhichOpTheyAre) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  const ModuleFile module = compile_graph(small_network(), options);
  std::vector<std::string> ops;
  for (const auto& kernel : module.manifest.variants[0]->kernels) ops.push_back(kernel->op);
  EXPECT_THAT(ops, testing::Contains("nn.conv"));
}

TEST(Module, LoopNestsSayOfWhichOpAndNodeTheyAre) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, 4, 8), f32]) -> Tensor[(1, 4, 8), f32] {\n"
      "  %a = nn.softmax(%x, axis=2)  // Softmax_7\n  return %a\n}\n",
      op_set());
  const LoweredProgram program = lower_program(graph, find_target("x86-64-v3"), {});
  const std::string text = to_annotated_string(program.kernels.at(0));
  EXPECT_THAT(text, testing::HasSubstr("// nn.softmax of Softmax_7"));
  EXPECT_THAT(to_string(program.kernels[0]), testing::Not(testing::HasSubstr("Softmax_7")));
}

TEST(Module, ItsPassesAreDocumented) {
  std::ifstream file(GANTRY_DOCS "/cli.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::string table;
  for (const PassInfo& pass : all_passes())
    table += fmt::format("| {} | `{}` | {} |\n", pass.opt_level, pass.name, pass.purpose);
  EXPECT_THAT(page, testing::HasSubstr("| --- | --- | --- |\n" + table + "\n"));
}

TEST(Module, ListsItsPassesByLevel) {
  EXPECT_THAT(pass_names(0), testing::ElementsAre("legalize_floats", "simplify_inference", "dead_code",
                                                  "split_wide_concatenations", "fuse_ops", "place_devices"));
  EXPECT_THAT(pass_names(3), testing::Contains("alter_layout"));
  EXPECT_GT(pass_names(3).size(), pass_names(1).size());
}

}  // namespace
}  // namespace gantry
