#include "host/cli/program_of_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "device_runtime/src/module_reader.h"
#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/ops/op.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::cli {
namespace {

using module_format::Device;
using runtime::testing::ModuleBuilder;
using testing::ElementsAre;
using testing::IsEmpty;
using Kind = ProgramValue::Kind;
using Shapes = std::vector<std::vector<int64_t>>;

ProgramFacts facts_of(ModuleBuilder builder, const Shapes& shapes) {
  const std::vector<std::byte> bytes = builder.write_manifest();
  const auto& manifest = *module_format::GetManifest(bytes.data());
  return program_of_module(manifest, *manifest.variants()->Get(0), shapes);
}

ProgramFacts facts_of(const Graph& graph, const std::string& target, const Shapes& shapes) {
  CompileOptions options;
  options.targets = {find_target(target)};
  ModuleFile module = compile_graph(graph, options);
  const auto contents =
      runtime::ModuleContents::from_bytes(runtime::testing::share(serialize_module(module)));
  const auto& manifest = contents.value().manifest();
  return program_of_module(manifest, *manifest.variants()->Get(0), shapes);
}

/// Two branches that are added, and an output that is needed again.
Graph branches(const std::string& size) {
  return parse_graph("fn @main(%x: Tensor[(" + size + ", 64), f32]) -> (Tensor[(" + size +
                         ", 64), f32], Tensor[(" + size +
                         ", 64), f32]) {\n"
                         "  %a = nn.softmax(%x, axis=1)\n"
                         "  %b = nn.softmax(%a, axis=0)\n"
                         "  %c = nn.softmax(%b, axis=1)\n"
                         "  %d = add(%a, %c)\n"
                         "  %e = nn.softmax(%d, axis=0)\n"
                         "  %f = nn.softmax(%e, axis=1)\n"
                         "  return %e, %f\n}\n",
                     op_set());
}

/// What steps and values must agree in, derived from the lists of reads and writes alone.
void expect_sound(const ProgramFacts& program) {
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> used;
  std::map<uint32_t, int> writers;
  for (uint32_t i = 0; i < program.steps.size(); ++i) {
    const ProgramStep& step = program.steps[i];
    for (const uint32_t id : step.writes) {
      EXPECT_EQ(++writers[id], 1) << "value " << id << " has two writers";
      EXPECT_FALSE(used.contains(id)) << "value " << id << " is used before it is written";
      const Kind kind = program.values.at(id).kind;
      EXPECT_TRUE(kind == Kind::kOutput || kind == Kind::kWorkspace) << "step " << i << " writes " << id;
    }
    for (const auto* list : {&step.reads, &step.writes}) {
      for (const uint32_t id : *list) used.try_emplace(id, i, i).first->second.second = i;
    }
    for (const uint32_t id : step.reads) {
      const Kind kind = program.values.at(id).kind;
      EXPECT_TRUE(kind == Kind::kInput || kind == Kind::kConstant || writers[id] == 1)
          << "step " << i << " reads " << id << ", which nobody wrote";
    }
  }
  std::vector<std::pair<uint32_t, const ProgramValue*>> placed;
  for (uint32_t id = 0; id < program.values.size(); ++id) {
    const ProgramValue& value = program.values[id];
    EXPECT_FALSE(value.name.empty());
    if (value.kind != Kind::kWorkspace) {
      EXPECT_FALSE(value.offset || value.first_step || value.last_step) << value.name;
      continue;
    }
    ASSERT_TRUE(value.first_step && value.last_step) << value.name;
    EXPECT_EQ(std::pair(*value.first_step, *value.last_step), used.at(id)) << value.name;
    placed.emplace_back(id, &value);
  }
  // The bound and the places by brute force: every step with every value.
  uint64_t most = 0;
  for (uint32_t step = 0; step < program.steps.size(); ++step) {
    uint64_t sum = 0;
    std::map<uint64_t, uint64_t> taken;  // begin, end
    for (const auto& [id, value] : placed) {
      if (used[id].first > step || used[id].second < step) continue;
      sum += (*value->bytes + 63) / 64 * 64;
      EXPECT_TRUE(taken.emplace(*value->offset, *value->offset + *value->bytes).second) << value->name;
      EXPECT_LE(*value->offset + *value->bytes, *program.workspace.bytes) << value->name;
    }
    uint64_t end = 0;
    for (const auto& [from, to] : taken) {
      EXPECT_GE(from, end) << "two values at byte " << from << " at step " << step;
      end = to;
    }
    most = std::max(most, sum);
  }
  EXPECT_EQ(program.workspace.bound, most);
  EXPECT_LE(most, *program.workspace.bytes);
}

TEST(ProgramOfModule, EvaluatesWhatDependsOnTheShapesThatRan) {
  const ProgramFacts program = facts_of(runtime::testing::symbolic_module(), {{7, 4}});
  ASSERT_EQ(program.values.size(), 3u);
  EXPECT_EQ(program.values[0].type, "f32[7,4]");
  EXPECT_EQ(program.values[2].bytes, 7u * 4 * 4);
  EXPECT_EQ(program.workspace.bytes, 7u * 4 * 4);
  EXPECT_EQ(program.workspace.bound, 128u) << "112 bytes in a place of a multiple of 64";
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_THAT(program.steps[0].reads, ElementsAre(0));
  EXPECT_THAT(program.steps[0].writes, ElementsAre(2));
  EXPECT_THAT(program.steps[1].reads, ElementsAre(2));
  EXPECT_THAT(program.steps[1].writes, ElementsAre(1));
  EXPECT_THAT(program.steps[1].nodes, ElementsAre("Mul_1", "Mul_2"));
  EXPECT_EQ(program.values[2].first_step, 0u);
  EXPECT_EQ(program.values[2].last_step, 1u);
  EXPECT_EQ(program.values[2].name, "add_one #0");
}

TEST(ProgramOfModule, LeavesOutWhatDependsOnShapesThatAreNotKnown) {
  const ProgramFacts program = facts_of(runtime::testing::symbolic_module(), {});
  EXPECT_EQ(program.values.at(0).type, "f32[N,4]");
  EXPECT_EQ(program.values.at(2).bytes, std::nullopt);
  EXPECT_EQ(program.values.at(2).offset, 0u) << "does not depend on N";
  EXPECT_EQ(program.workspace.bytes, std::nullopt);
  EXPECT_EQ(program.workspace.bound, std::nullopt);
  EXPECT_EQ(facts_of(runtime::testing::symbolic_module(), {{-1, 4}}).workspace.bytes, std::nullopt);
}

TEST(ProgramOfModule, TellsCopiesFromKernels) {
  ModuleBuilder builder = runtime::testing::static_module();
  builder.add_output("again", {builder.constant(2), builder.constant(3)});
  const uint32_t again = builder.output_buffer(1, builder.constant(24));
  builder.copy(1, again);
  const ProgramFacts program = facts_of(std::move(builder), {});
  EXPECT_EQ(program.steps.at(1).name, "copy");
  EXPECT_EQ(program.steps[1].symbol, "");
  EXPECT_THAT(program.steps[1].nodes, IsEmpty());
  EXPECT_THAT(program.steps[1].reads, ElementsAre(1));
  EXPECT_THAT(program.steps[1].writes, ElementsAre(again));
  EXPECT_EQ(program.steps[1].bytes, 48u) << "read and written";
}

TEST(ProgramOfModule, AgreesWithItsStepsOnWhatLivesWhen) {
  for (const char* target : {"x86-64-v3", "aarch64", "cuda-emulated:sm_80/x86-64-v3"}) {
    SCOPED_TRACE(target);
    const ProgramFacts program = facts_of(branches("16"), target, {{16, 64}});
    expect_sound(program);
    EXPECT_GT(*program.workspace.bound, 0u);
    EXPECT_EQ(program.target, target);
    EXPECT_EQ(program.gpu_workspace.has_value(), false) << "an emulated GPU has no memory of its own";
    expect_sound(facts_of(branches("N"), target, {{33, 64}}));
  }
}

TEST(ProgramOfModule, KeepsTheMemoriesOfAGpuApart) {
  const ProgramFacts program = facts_of(branches("16"), "cuda:sm_80/x86-64-v3", {{16, 64}});
  ASSERT_TRUE(program.gpu_workspace);
  EXPECT_EQ(program.workspace.bytes, 0u);
  EXPECT_EQ(program.workspace.bound, 0u);
  EXPECT_GT(*program.gpu_workspace->bound, 0u);
  EXPECT_LE(*program.gpu_workspace->bound, *program.gpu_workspace->bytes);
  for (const ProgramValue& value : program.values) EXPECT_TRUE(value.on_gpu) << value.name;
}

TEST(ProgramOfModule, IsFoundByTargetAndDevice) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3"), find_target("aarch64")};
  ModuleFile module = compile_graph(branches("16"), options);
  const auto contents =
      runtime::ModuleContents::from_bytes(runtime::testing::share(serialize_module(module)));
  const auto& manifest = contents.value().manifest();
  EXPECT_EQ(find_variant(manifest, "aarch64", Device::Cpu, {}), manifest.variants()->Get(1));
  EXPECT_EQ(find_variant(manifest, "aarch64", Device::Cuda, {}), nullptr);
  EXPECT_EQ(find_variant(manifest, "x86-64-v4", Device::Cpu, {}), nullptr);
}

TEST(ProgramOfModule, TheFirstSpecializedProgramThatFitsIsSaidToRun) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3"), find_target("aarch64")};
  options.specializations = {{{"N", 16}}, {{"N", 1}}};
  ModuleFile module = compile_graph(branches("N"), options);
  const auto contents =
      runtime::ModuleContents::from_bytes(runtime::testing::share(serialize_module(module)));
  const auto& manifest = contents.value().manifest();
  for (const auto& [size, sizes, place, text] :
       std::vector<std::tuple<int64_t, std::string, size_t, std::string>>{
           {16, "N=16", 4, "for N=16 alone"}, {1, "N=1", 5, "for N=1 alone"}, {7, "", 3, "for all sizes"}}) {
    const ProgramChoice choice = choose_program(manifest, "aarch64", Device::Cpu, {{size, 64}});
    EXPECT_EQ(choice.sizes, sizes);
    EXPECT_EQ(choice.specialized, 2u);
    EXPECT_EQ(choice.variant, place);
    EXPECT_EQ(program_text(choice), text);
  }
  EXPECT_EQ(choose_program(manifest, "aarch64", Device::Cpu, {}).sizes, "") << "sizes are not known";
  EXPECT_EQ(choose_program(manifest, "x86-64-v4", Device::Cpu, {{1, 64}}).specialized, 0u);
  EXPECT_EQ(program_text({}), "");
}

TEST(ProgramJson, SaysNullWhereNothingIsKnown) {
  const auto json = program_json(facts_of(runtime::testing::symbolic_module(), {}));
  EXPECT_TRUE(json["workspace_bytes"].is_null());
  EXPECT_TRUE(json["gpu_workspace_bytes"].is_null());
  EXPECT_EQ(json["values"][0]["kind"], "input");
  EXPECT_TRUE(json["values"][0]["offset"].is_null());
  EXPECT_EQ(json["values"][2]["kind"], "workspace");
  EXPECT_TRUE(json["values"][2]["type"].is_null());
  EXPECT_EQ(json["steps"][0]["symbol"], "add_one");
  EXPECT_EQ(json["steps"][1]["step"], 1);
}

}  // namespace
}  // namespace gantry::cli
