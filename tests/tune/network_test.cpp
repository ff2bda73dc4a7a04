// What there is to tune in small networks, and programs by other decisions.
#include "host/tune/network.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "host/codegen/find_target.h"
#include "host/driver/decision_file.h"
#include "host/graph/text.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/support/mapped_file.h"
#include "host/support/output_file.h"
#include "host/support/temporary.h"
#include "host/tune/model_build.h"
#include "host/tune/search.h"
#include "module_generated.h"
#include "tests/support/parallel_network.h"
#include "tests/support/small_weights.h"

namespace gantry::tune {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;

/// Two equal convolutions with a relu behind each, one of another size, and a product.
Graph network() {
  constexpr const char* kConv =
      "channels=16, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], padding=(1, 1, 1, 1)";
  std::string text = "fn @main(%x: Tensor[(1, 16, 12, 12), f32]) -> Tensor[(1, 10), f32] {\n";
  text += fmt::format("  %a = nn.conv(%x, @w1: Tensor[(16, 16, 3, 3), f32], {})  // first\n", kConv);
  text += "  %b = nn.relu(%a)  // relu1\n";
  text += fmt::format("  %c = nn.conv(%b, @w2: Tensor[(16, 16, 3, 3), f32], {})  // second\n", kConv);
  text += "  %d = nn.relu(%c)  // relu2\n";
  text += "  %e = reshape(%d, shape=(1, 2304))  // flat\n";
  text += "  %y = nn.dense(%e, @w3: Tensor[(2304, 10), f32], units=10)  // fc\n  return %y\n}\n";
  return parse_graph(text, op_set(),
                     {{"w1", testing::small_weights({16, 16, 3, 3})},
                      {"w2", testing::small_weights({16, 16, 3, 3})},
                      {"w3", testing::small_weights({2304, 10})}});
}

/// A product of the sum of operands whose numbers of rows have two names.
Graph open_network() {
  return parse_graph(
      "fn @main(%a: Tensor[(N, 64), f32], %b: Tensor[(M, 64), f32]) -> Tensor[(broadcast(M, N), 32), f32] {\n"
      "  %0 = broadcast_to(%a, shape=(broadcast(M, N), 64), open=[0])  // rows\n"
      "  %1 = broadcast_to(%b, shape=(broadcast(M, N), 64), open=[0])  // others\n"
      "  %2 = add(%0, %1)  // sum\n"
      "  %3 = nn.dense(%2, @w: Tensor[(64, 32), f32], units=32)  // fc\n  return %3\n}\n",
      op_set(), {{"w", testing::small_weights({64, 32})}});
}

/// A product, beside which sizes depend on data.
Graph late_network() {
  return parse_graph(
      "fn @main(%x: Tensor[(8, 64), f32], %mask: Tensor[(4), f32]) -> (Tensor[(8, 32), f32], Tensor[(1, n), "
      "i64]) {\n"
      "  %0 = nn.dense(%x, @w: Tensor[(64, 32), f32], units=32)  // fc\n"
      "  %1 = cast(%mask, to=i64)\n"
      "  %2 = sum(%1, axes=[0], keepdims=false)\n"
      "  %3 = bind_dims(%2, symbols=(n))\n"
      "  %4 = nonzero_positions(%mask, extents=(n))\n  return %0, %4\n}\n",
      op_set(), {{"w", testing::small_weights({64, 32})}});
}

CompileOptions options_for(const char* target = "x86-64-v3") {
  CompileOptions options;
  options.targets = {find_target(target)};
  return options;
}

Choices untuned(const Network& network) {
  return network.untuned_choices();
}

TEST(Network, OfAGpuWhoseCpuRunsAllOfItIsTunedByWhatThatCpuDoes) {
  Network tuned(late_network(), options_for("cuda:sm_86/x86-64-v3"));
  const Network of_cpu(late_network(), options_for());
  ASSERT_THAT(tuned.tasks(), SizeIs(1));
  ASSERT_THAT(of_cpu.tasks(), SizeIs(1));
  EXPECT_EQ(tuned.tasks()[0].space.proposed, of_cpu.tasks()[0].space.proposed);
  EXPECT_EQ(tuned.target().name, "x86-64-v3");  // as records have it
  EXPECT_EQ(tuned.target_name(), "cuda:sm_86/x86-64-v3");
  for (const Look& look : tuned.look_at(0, tuned.tasks()[0].space.proposed))
    EXPECT_FALSE(look.misfit) << look.misfit.value_or("");
}

TEST(Network, NodesOfEqualWorkAreOneTask) {
  const Network tuned(network(), options_for());
  ASSERT_THAT(tuned.tasks(), SizeIs(2));
  EXPECT_THAT(tuned.tasks()[0].nodes, ElementsAre("first", "second"));
  EXPECT_THAT(tuned.tasks()[1].nodes, ElementsAre("fc"));
  EXPECT_EQ(tuned.tasks()[0].work.size(), 64U);
  // Conversions of images in front of a node and behind it are its own, too.
  EXPECT_THAT(tuned.untuned().steps[0], SizeIs(::testing::Ge(2)));
  EXPECT_THAT(tuned.untuned().steps[1], SizeIs(1));
}

TEST(Network, StepsOfOneNameAreThoseOfTheirOp) {
  // As a recurrent layer becomes products and a recurrence.
  const std::string text =
      "fn @main(%x: Tensor[(1, 16, 12, 12), f32]) -> Tensor[(1, 10), f32] {\n"
      "  %a = nn.conv(%x, @w1: Tensor[(16, 16, 3, 3), f32], channels=16, kernel=[3, 3], padding=(1, 1, 1, 1))  // layer\n"
      "  %b = reshape(%a, shape=(1, 2304))  // flat\n"
      "  %y = nn.dense(%b, @w3: Tensor[(2304, 10), f32], units=10)  // layer\n  return %y\n}\n";
  const Graph graph = parse_graph(
      text, op_set(), {{"w1", testing::small_weights({16, 16, 3, 3})}, {"w3", testing::small_weights({2304, 10})}});
  const Network tuned(clone_graph(graph), options_for());
  ASSERT_THAT(tuned.tasks(), SizeIs(2));
  EXPECT_THAT(tuned.tasks()[0].kernel, ::testing::StartsWith("nn.conv"));
  EXPECT_THAT(tuned.tasks()[1].kernel, ::testing::StartsWith("nn.dense"));
  const auto& steps = tuned.untuned().steps;
  ASSERT_THAT(steps[1], SizeIs(1)) << "the product's own";
  EXPECT_THAT(steps[0], ::testing::Not(Contains(steps[1][0])));
  EXPECT_EQ(tuned.build(untuned(tuned)).steps, steps);
}

TEST(Network, TheUntunedChoicesGiveTheUntunedModule) {
  const Network tuned(network(), options_for());
  BuiltNetwork again = tuned.build(untuned(tuned));
  ModuleFile own = compile_graph(network(), options_for());
  EXPECT_EQ(serialize_module(again.module), serialize_module(own));
  EXPECT_EQ(again.steps, tuned.untuned().steps);
}

TEST(Network, OneOfSeveralProgramsIsTunedAndAllAreBuilt) {
  for (const size_t program : {size_t{0}, size_t{1}}) {
    SCOPED_TRACE(program);
    const Network tuned(open_network(), options_for(), program);
    ASSERT_THAT(tuned.tasks(), SizeIs(1));
    EXPECT_THAT(tuned.tasks()[0].nodes, ElementsAre("fc"));
    BuiltNetwork built = tuned.build(untuned(tuned));
    EXPECT_EQ(built.steps, tuned.untuned().steps);
    ASSERT_EQ(built.module.manifest.variants.size(), 2U);
    const module_format::VariantT& variant = *built.module.manifest.variants[program];
    std::vector<std::string> kernels;
    for (const size_t step : built.steps[0]) {
      const auto* call = variant.steps.at(step)->action.AsCallKernel();
      ASSERT_NE(call, nullptr);
      kernels.push_back(variant.kernels[call->kernel]->name);
    }
    EXPECT_THAT(kernels, Contains(::testing::HasSubstr("nn.dense")));
    // What is given back gives the same.
    CompileOptions options = options_for();
    options.decisions = std::make_shared<const DecisionFile>(
        DecisionFile::parse(tuned.decisions_text(untuned(tuned)), "a test"));
    ModuleFile again = compile_graph(open_network(), options);
    EXPECT_EQ(serialize_module(built.module), serialize_module(again));
  }
  EXPECT_THROW(Network(open_network(), options_for(), 2), Error);
}

TEST(Network, SpacesHaveTheFormsThatTheTargetHas) {
  const Network tuned(network(), options_for());
  std::set<std::string> forms;
  for (const FormKnobs& form : tuned.tasks()[0].space.forms) forms.insert(form.form);
  EXPECT_THAT(forms, ::testing::IsSupersetOf({"direct", "winograd2", "winograd4"}));
  EXPECT_THAT(tuned.tasks()[0].space.proposed, Contains(tuned.tasks()[0].untuned));
}

TEST(Network, WhatASearchProposesBuildsUnlessItIsScreenedOut) {
  Network tuned(network(), options_for());
  for (size_t task = 0; task < tuned.tasks().size(); ++task) {
    const Task& one = tuned.tasks()[task];
    Search search(one.space, one.untuned, 3);
    const std::vector<Decision> pool = search.pool(6);
    ASSERT_FALSE(pool.empty());
    const std::vector<Look> looks = tuned.look_at(task, pool);
    for (size_t i = 0; i < pool.size(); ++i) {
      SCOPED_TRACE(to_string(pool[i]));
      Choices choices = untuned(tuned);
      choices[task] = pool[i];
      if (looks[i].misfit) {
        EXPECT_THROW(tuned.build(choices), Error) << *looks[i].misfit;
        continue;
      }
      const BuiltNetwork built = tuned.build(choices);
      EXPECT_FALSE(built.steps[task].empty());
      EXPECT_GT(looks[i].predicted.value_or(1), 0);
      EXPECT_EQ(looks[i].features.size(), looks[0].features.size());
    }
  }
}

/// Whoever looks at them for longer: of 24 candidates for each kernel.
TEST(Network, WhatASearchProposesFitsItsKernel) {
  for (const char* target : {"x86-64-v3", "x86-64-v4", "cortex-a76"}) {
    Network tuned(network(), options_for(target));
    for (size_t task = 0; task < tuned.tasks().size(); ++task) {
      const Task& one = tuned.tasks()[task];
      Search search(one.space, one.untuned, 5);
      for (int round = 0; round < 2; ++round) {
        const std::vector<Decision> pool = search.pool(12);
        const std::vector<Look> looks = tuned.look_at(task, pool);
        for (size_t i = 0; i < pool.size(); ++i) {
          EXPECT_FALSE(looks[i].misfit) << target << " " << to_string(pool[i]) << ": " << *looks[i].misfit;
          search.tell(pool[i], 1 + 0.01 * static_cast<double>(i));
        }
      }
      EXPECT_GT(search.tried(), 3U) << target << " " << one.op;
    }
  }
}

TEST(Network, AKnobThatFitsNoKernelIsAMisfit) {
  Network tuned(network(), options_for());
  const std::vector<Look> looks = tuned.look_at(0, {{"direct", {{"block", 64}, {"rows", 14}}}});
  EXPECT_TRUE(looks[0].misfit);
}

TEST(Network, ProductsOfTheSameDataMayBeCombined) {
  EXPECT_FALSE(Network(network(), options_for()).may_combine());
  const Network tuned(test::parallel_network(), options_for());
  EXPECT_TRUE(tuned.may_combine());
  EXPECT_FALSE(tuned.untuned_choices().combined);
  Choices choices = untuned(tuned);
  choices.combined = true;
  BuiltNetwork combined = tuned.build(choices);
  ModuleFile separate = compile_graph(test::parallel_network(), options_for());
  EXPECT_NE(serialize_module(combined.module), serialize_module(separate));
  // What is given back gives the same, and is where the next run begins.
  CompileOptions options = options_for();
  options.decisions =
      std::make_shared<const DecisionFile>(DecisionFile::parse(tuned.decisions_text(choices), "a test"));
  ModuleFile again = compile_graph(test::parallel_network(), options);
  EXPECT_EQ(serialize_module(combined.module), serialize_module(again));
  const Network next(test::parallel_network(), options);
  EXPECT_TRUE(next.untuned_choices().combined);
  EXPECT_FALSE(next.may_combine());
}

TEST(Network, WhatFollowsAProductMayBeKeptApart) {
  const Network tuned(network(), options_for());
  ASSERT_THAT(tuned.tasks()[0].fusions, SizeIs(1)) << "relu behind both convolutions";
  const OtherFusion& fusion = tuned.tasks()[0].fusions[0];
  EXPECT_EQ(fusion.what, "nn.relu apart from nn.conv");
  ASSERT_THAT(fusion.apart, SizeIs(2));
  EXPECT_THAT(fusion.apart[0].edge.maker.origin, ElementsAre("first"));
  EXPECT_THAT(fusion.apart[0].edge.reader.origin, ElementsAre("relu1"));
  EXPECT_EQ(fusion.apart[0].maker, tuned.tasks()[0].numbers[0]);
  EXPECT_THAT(tuned.tasks()[1].fusions, ::testing::IsEmpty()) << "nothing follows the dense layer";
  Choices choices = untuned(tuned);
  for (const NumberedSeparation& one : fusion.apart) choices.apart.push_back(one.edge);
  BuiltNetwork apart = tuned.build(choices);
  EXPECT_GT(apart.steps[0].size(), tuned.untuned().steps[0].size())
      << "the time of relu's own kernels counts";
  // What is given back gives the same, and is where the next run begins.
  CompileOptions options = options_for();
  options.decisions =
      std::make_shared<const DecisionFile>(DecisionFile::parse(tuned.decisions_text(choices), "a test"));
  ModuleFile again = compile_graph(network(), options);
  EXPECT_EQ(serialize_module(apart.module), serialize_module(again));
  EXPECT_EQ(Network(network(), options).untuned_choices(), choices);
}

TEST(Network, ItsDigestsAreOfEachQuestionAndNotOfWeights) {
  const Network tuned(network(), options_for());
  std::set<std::string> digests;
  for (const NetworkQuestion question : network_questions()) digests.insert(tuned.digest(question));
  EXPECT_THAT(digests, SizeIs(3));
  EXPECT_EQ(Network(network(), options_for()).digest(NetworkQuestion::kLayouts),
            tuned.digest(NetworkQuestion::kLayouts));
  EXPECT_NE(Network(test::parallel_network(), options_for()).digest(NetworkQuestion::kLayouts),
            tuned.digest(NetworkQuestion::kLayouts));
}

TEST(Network, WhatItIsGivenIsNotWhatTheCompilerTakes) {
  EXPECT_FALSE(Network(network(), options_for()).has_given_decisions());
  Graph with_one = network();
  with_one.main.nodes()[0]->decision = Decision{"direct", {{"block", 8}}};
  const Network of_text(std::move(with_one), options_for());
  EXPECT_TRUE(of_text.has_given_decisions());
  EXPECT_EQ(of_text.tasks()[0].untuned, (Decision{"direct", {{"block", 8}}}));
  CompileOptions options = options_for();
  options.decisions = std::make_shared<const DecisionFile>(
      DecisionFile::parse("nn.conv {form=direct, block=8}  // first\n", "a test"));
  EXPECT_TRUE(Network(network(), options).has_given_decisions());
}

TEST(Network, ItsTextGivesTheDecisionsBack) {
  const Network tuned(network(), options_for());
  Choices choices = untuned(tuned);
  choices[0] = {"direct", {{"block", 8}}};
  CompileOptions options = options_for();
  options.decisions =
      std::make_shared<const DecisionFile>(DecisionFile::parse(tuned.decisions_text(choices), "a test"));
  std::vector<NodeDecision> decided;
  options.observer.decisions = &decided;
  compile_graph(network(), options);
  ASSERT_THAT(decided, SizeIs(3));
  EXPECT_EQ(decided[0].decision, choices[0]);
  EXPECT_EQ(decided[1].decision, choices[0]);
}

/// The file of a packed model as the two that it is of.
void split(const std::filesystem::path& packed, uint64_t text_size, const std::filesystem::path& folder) {
  const MappedFile file(packed);
  write_file(folder / kPackedText, {file.data(), text_size});
  if (file.size() > text_size)
    write_file(folder / kPackedWeights, {file.data() + text_size, file.size() - text_size});
}

TEST(ModelBuild, APackedModelGivesTheSamePrograms) {
  const TemporaryFolder folder("test");
  const Network tuned(network(), options_for());
  const PackedModel packed = tuned.pack(folder.path() / "packed");
  split(folder.path() / "packed", packed.text_size, folder.path());
  const UnpackedModel model = unpack_model(packed.options, folder.path());
  EXPECT_FALSE(model.use_cache);
  Choices changed = untuned(tuned);
  changed[0] = {"direct", {{"block", 8}}};
  for (const Choices& choices : {untuned(tuned), changed}) {
    ModelBuild there = build_model(model.graph, model.options, tuned.decisions_text(choices), model.program);
    BuiltNetwork here = tuned.build(choices);
    EXPECT_EQ(serialize_module(there.module), serialize_module(here.module));
    EXPECT_EQ(tuned.steps_of(parse_step_text(step_text(there.step_origins), there.step_origins.size())),
              here.steps);
  }
}

TEST(ModelBuild, APackedModelSaysWhichProgramIsTuned) {
  const TemporaryFolder folder("test");
  const Network tuned(open_network(), options_for(), 1);
  const PackedModel packed = tuned.pack(folder.path() / "packed");
  split(folder.path() / "packed", packed.text_size, folder.path());
  const UnpackedModel model = unpack_model(packed.options, folder.path());
  EXPECT_EQ(model.program, 1U);
  const std::string decisions = tuned.decisions_text(untuned(tuned));
  ModelBuild there = build_model(model.graph, model.options, decisions, model.program);
  BuiltNetwork here = tuned.build(untuned(tuned));
  EXPECT_EQ(serialize_module(there.module), serialize_module(here.module));
  EXPECT_EQ(tuned.steps_of(there.step_origins), here.steps);
  EXPECT_THROW(build_model(model.graph, model.options, decisions, 2), Error);
}

TEST(ModelBuild, WhatStepsComputeGoesThroughText) {
  const std::vector<std::vector<std::string>> steps = {{"a", "b/c"}, {}, {"odd, \"one\"", " \n"}, {}};
  EXPECT_EQ(parse_step_text(step_text(steps), 4), steps);
  EXPECT_TRUE(parse_step_text("", 0).empty());
  EXPECT_THROW(parse_step_text(step_text(steps), 3), Error);
  EXPECT_THROW(parse_step_text("a\nb", 9), Error);
}

TEST(ModelBuild, OptionsThatAreNoneAreRefused) {
  const TemporaryFolder folder("test");
  const Network tuned(network(), options_for());
  const PackedModel packed = tuned.pack(folder.path() / "packed");
  split(folder.path() / "packed", packed.text_size, folder.path());
  const auto changed = [&](const char* from, const char* to) {
    std::string options = packed.options;
    const size_t at = options.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return options.replace(at, std::string(from).size(), to);
  };
  EXPECT_NO_THROW(unpack_model(packed.options, folder.path()));
  for (const std::string& options :
       {std::string(), std::string("[]"), std::string("{"), changed("x86-64-v3", "pdp-11"),
        changed("\"opt_level\":3", "\"opt_level\":4"), changed("\"opt_level\":3", "\"opt_level\":\"3\""),
        changed("\"program\":0", "\"program\":-1"), changed("speed", "spite"), changed("auto", "vague"),
        changed("\"cache\"", "\"cash\"")})
    EXPECT_THROW(unpack_model(options, folder.path()), Error) << options;
}

TEST(ModelBuild, ATextThatIsNoneIsRefused) {
  const TemporaryFolder folder("test");
  const Network tuned(network(), options_for());
  const PackedModel packed = tuned.pack(folder.path() / "packed");
  EXPECT_THROW(unpack_model(packed.options, folder.path()), Error) << "there is no text";
  write_file(folder.path() / kPackedText, "fn @main(");
  EXPECT_THROW(unpack_model(packed.options, folder.path()), Error);
}

}  // namespace
}  // namespace gantry::tune
