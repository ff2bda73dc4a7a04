#include "host/cli/compiled_program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "device_runtime/src/module_reader.h"
#include "host/cli/program_of_module.h"
#include "host/codegen/find_target.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Kind = ProgramValue::Kind;

/// Three times the same block of a convolution, then a view and a product. `batch` may be a symbol.
Graph network(const std::string& batch) {
  const std::string image = "Tensor[(" + batch + ", 32, 16, 16), f32]";
  std::string text = "fn @main(%v0: " + image + ") -> Tensor[(" + batch + ", 10), f32] {\n";
  for (const char* names : {"012", "234", "456"}) {
    text += fmt::format(
        "  %v{1} = nn.conv(%v{0}, @w{0}: Tensor[(32, 32, 3, 3), f32], channels=32, kernel=[3, 3], "
        "strides=[1, 1], dilations=[1, 1], padding=(1, 1, 1, 1))\n  %v{2} = nn.relu(%v{1})\n",
        names[0], names[1], names[2]);
  }
  text += "  %e = reshape(%v6, shape=(" + batch +
          ", 8192))\n  %f = nn.dense(%e, @u: Tensor[(8192, 10), f32], units=10)\n  return %f\n}\n";
  return parse_graph(text, op_set());
}

ProgramFacts compiled(const std::string& batch, const std::string& target, bool assembly = false) {
  CompileOptions options;
  options.targets = {find_target(target)};
  std::optional<CompiledProgram> program;
  options.observer.lowered = [&](LoweredProgram lowered, const Target& named) {
    program = without_weights(std::move(lowered), named);
  };
  ModuleFile module = compile_graph(network(batch), options);
  const auto contents =
      runtime::ModuleContents::from_bytes(runtime::testing::share(serialize_module(module)));
  const auto& manifest = contents.value().manifest();
  const auto& variant = *manifest.variants()->Get(0);
  ProgramFacts facts = program_of_module(manifest, variant, {{3, 32, 16, 16}});
  add_compiled(facts, variant, program.value(), assembly);
  return facts;
}

TEST(CompiledProgram, NamesAndTypesEveryValueThatIsNoScratch) {
  for (const char* batch : {"3", "N"}) {
    const ProgramFacts facts = compiled(batch, "x86-64-v3");
    for (const ProgramValue& value : facts.values) {
      if (value.name.starts_with("scratch of ")) continue;
      EXPECT_FALSE(value.type.empty()) << value.name;
      if (value.kind == Kind::kConstant) EXPECT_THAT(value.name, StartsWith("@"));
      if (value.kind == Kind::kWorkspace) {
        EXPECT_THAT(value.name, StartsWith("%"));
        EXPECT_THAT(value.type, StartsWith("f32[3,")) << "the sizes that ran";
        EXPECT_EQ(value.bytes, 4u * 3 * 16 * 16 * 32);
      }
    }
  }
}

TEST(CompiledProgram, ShowsViewsOfTheValuesWhoseBytesTheyAre) {
  const ProgramFacts facts = compiled("3", "aarch64");
  size_t views = 0;
  for (const ProgramValue& value : facts.values) {
    if (value.kind != Kind::kView) continue;
    ++views;
    ASSERT_TRUE(value.shows && *value.shows < facts.values.size());
    const ProgramValue& shown = facts.values[*value.shows];
    EXPECT_NE(shown.kind, Kind::kView);
    EXPECT_EQ(value.bytes, shown.bytes);
    EXPECT_NE(value.type, shown.type);
  }
  EXPECT_GE(views, 1u);
  for (const ProgramStep& step : facts.steps) {
    for (const auto* list : {&step.reads, &step.writes}) {
      for (const uint32_t id : *list) EXPECT_NE(facts.values.at(id).kind, Kind::kView) << step.symbol;
    }
  }
}

TEST(CompiledProgram, HoldsTheTextsOfEqualKernelsOnce) {
  for (const char* target : {"x86-64-v4", "cuda-emulated:sm_80/x86-64-v3"}) {
    const ProgramFacts facts = compiled("3", target);
    std::set<std::string> symbols;
    for (const ProgramStep& step : facts.steps) {
      EXPECT_THAT(step.graph, HasSubstr(step.op)) << step.symbol;
      EXPECT_EQ(step.assembly, "");
      if (symbols.insert(step.symbol).second) {
        EXPECT_THAT(step.loops, HasSubstr(step.symbol));
      } else {
        EXPECT_EQ(step.loops, "");
      }
    }
    EXPECT_LT(symbols.size(), facts.steps.size()) << "the first two convolutions are one kernel";
  }
}

TEST(CompiledProgram, HoldsCodeWhereItIsAskedFor) {
  const ProgramFacts facts = compiled("3", "x86-64-v3", /*assembly=*/true);
  EXPECT_THAT(facts.steps.at(0).assembly, HasSubstr(facts.steps[0].symbol));
}

TEST(CompiledProgram, TellsDecisionsAndWhatTheModelPredicts) {
  ProgramFacts facts = compiled("3", "x86-64-v4");
  size_t convolutions = 0;
  for (const ProgramStep& step : facts.steps) {
    if (step.op != "nn.conv" && step.op != "nn.dense") continue;
    ++convolutions;
    EXPECT_THAT(step.decision, HasSubstr("block ")) << step.symbol;
    ASSERT_TRUE(step.predicted_cycles) << step.symbol;
    EXPECT_GT(*step.predicted_cycles, 0);
    EXPECT_FALSE(step.predicted_ms) << "no clock is known";
    // What stands in brackets of the name is the form.
    const size_t open = step.name.find('[');
    if (open != std::string::npos)
      EXPECT_THAT(step.decision, StartsWith(step.name.substr(open + 1, step.name.find(']') - open - 1)));
  }
  EXPECT_EQ(convolutions, 4u);
  predict_times(facts, 2000, 4);
  for (const ProgramStep& step : facts.steps) {
    ASSERT_EQ(step.predicted_ms.has_value(), step.predicted_cycles.has_value());
    if (step.predicted_ms) EXPECT_DOUBLE_EQ(*step.predicted_ms, *step.predicted_cycles / 2e6 / 4);
  }
}

/// The sum of rows whose numbers have two names: one program for all sizes, one for equal ones.
TEST(CompiledProgram, IsOfThePlanOfItsPlaceAndNoOther) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  std::vector<CompiledProgram> programs;
  options.observer.lowered = [&](LoweredProgram lowered, const Target& named) {
    programs.push_back(without_weights(std::move(lowered), named));
  };
  ModuleFile module =
      compile_graph(parse_graph("fn @main(%a: Tensor[(N, 4), f32], %b: Tensor[(M, 4), f32]) -> "
                                "Tensor[(broadcast(M, N), 4), f32] {\n"
                                "  %0 = broadcast_to(%a, shape=(broadcast(M, N), 4), open=[0])\n"
                                "  %1 = broadcast_to(%b, shape=(broadcast(M, N), 4), open=[0])\n"
                                "  %2 = add(%0, %1)\n  return %2\n}\n",
                                op_set()),
                    options);
  const auto contents =
      runtime::ModuleContents::from_bytes(runtime::testing::share(serialize_module(module)));
  const auto& manifest = contents.value().manifest();
  ASSERT_EQ(programs.size(), 2u);
  ASSERT_EQ(manifest.variants()->size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    const auto& variant = *manifest.variants()->Get(i);
    ProgramFacts facts = program_of_module(manifest, variant, {{3, 4}, {3, 4}});
    try {
      add_compiled(facts, variant, programs[1 - i]);
      ADD_FAILURE() << "kernels of another plan were taken for its own";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
      EXPECT_THAT(error.what(), HasSubstr("of the plan does not call"));
    }
    facts = program_of_module(manifest, variant, {{3, 4}, {3, 4}});
    add_compiled(facts, variant, programs[i]);
    for (const ProgramStep& step : facts.steps) EXPECT_THAT(step.loops, HasSubstr(step.symbol));
  }
}

}  // namespace
}  // namespace gantry::cli
