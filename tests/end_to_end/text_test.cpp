// Text of graphs at every stage of the pipeline: what is compiled from it computes the same.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "host/codegen/find_target.h"
#include "host/driver/pipeline.h"
#include "host/graph/structural_equal.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/passes/pass.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"
#include "tests/support/memory_weights.h"

namespace gantry::end_to_end {
namespace {

const OpTable& ops() {
  static const FusedOpTable table(op_set());
  return table;
}

/// Convolutions of most kinds, normalisation, pooling, a residual, movement, products, softmax, attention.
constexpr const char* kNetwork = R"(
fn @main(%x: Tensor[(1, 8, 12, 12), f32], %t: Tensor[(1, 16, 32), f32]) -> (Tensor[(1, 10), f32], Tensor[(1, 16, 32), f32]) {
  %c1 = nn.conv(%x, @w1: Tensor[(16, 8, 3, 3), f32], channels=16, kernel=[3, 3], padding=(1, 1, 1, 1))  // Conv_1
  %b1 = nn.batch_norm(%c1, @scale: Tensor[(16), f32] from "g", @bias: Tensor[(16), f32] from "b", @mean: Tensor[(16), f32] from "m", @var: Tensor[(16), f32] from "v")  // Norm_1
  %r1 = nn.relu(%b1)  // Relu_1
  %c2 = nn.conv(%r1, @w2: Tensor[(16, 1, 3, 3), f32], channels=16, kernel=[3, 3], padding=(1, 1, 1, 1), groups=16)  // Depthwise_2
  %a2 = add(%c2, @b2: Tensor[(16, 1, 1), f32])
  %s2 = add(%a2, %r1)  // Residual_2
  %p2 = nn.max_pool(%s2, kernel=[2, 2], strides=[2, 2])  // Pool_2
  %c3 = nn.conv(%p2, @w3: Tensor[(32, 16, 1, 1), f32], channels=32, kernel=[1, 1])  // Conv_3
  %r3 = sigmoid(%c3)
  %p3 = mean(%r3, axes=[2, 3], keepdims=false)  // Mean_3
  %d4 = nn.dense(%p3, @w4: Tensor[(32, 10), f32], units=10)  // Gemm_4
  %s4 = nn.softmax(%d4, axis=1)
  %q = nn.dense(%t, @wq: Tensor[(32, 32), f32], units=32)
  %k = nn.dense(%t, @wk: Tensor[(32, 32), f32], units=32)
  %v = nn.dense(%t, @wv: Tensor[(32, 32), f32], units=32)
  %kt = transpose(%k, axes=[0, 2, 1])
  %qk = matmul(%q, %kt)
  %sc = multiply(%qk, const(f32, [], [0.125]))
  %sm = nn.softmax(%sc, axis=2)
  %at = matmul(%sm, %v)
  return %s4 as "class", %at as "attention"
}
)";

constexpr const char* kHalfNetwork = R"(
fn @main(%x: Tensor[(4, 32), f16]) -> Tensor[(4, 16), f16] {
  %0 = exp(%x)
  %1 = nn.dense(%0, @w: Tensor[(32, 16), f16], units=16)
  %2 = reshape(%1, shape=(2, 2, 16))
  %3 = nn.relu(%2)
  %4 = reshape(%3, shape=(4, 16))
  %5 = tanh(%4)
  return %5 as "y"
}
)";

/// Weights that only depend on their type and name.
class SeededWeights : public WeightSource {
 public:
  void open(const std::string&) override {}
  ConstantPtr find(const std::string& entry, const TensorType& type) override {
    const std::vector<int64_t> shape = *constant_shape(type.shape);
    ConstantPtr values = testing::random_tensor(DType::kF32, shape, std::hash<std::string>()(entry));
    std::byte* bytes = nullptr;
    auto data = allocate_constant(type, &bytes);
    for (size_t i = 0; i < values->size / sizeof(float); ++i) {
      float value = values->as<float>()[i];
      if (entry == "v") value = 1 + value * value;  // a variance
      if (type.dtype == DType::kF32) {
        reinterpret_cast<float*>(bytes)[i] = value;
      } else {  // multiples of 1/8, exact in f16
        constexpr uint16_t kEighths[] = {0x0000, 0x3000, 0x3400, 0xb000, 0xb400};
        reinterpret_cast<uint16_t*>(bytes)[i] = kEighths[static_cast<size_t>(std::abs(value) * 1000) % 5];
      }
    }
    return data;
  }
};

Graph network(const char* text) {
  SeededWeights weights;
  return parse_program(text, ops(), graph_pass_names(), {"the network", &weights, {}});
}

std::vector<ConstantPtr> inputs_of(const Graph& graph) {
  SeededWeights values;
  std::vector<ConstantPtr> inputs;
  for (const Value* parameter : graph.main.parameters) inputs.push_back(values.find(parameter->name, parameter->type));
  return inputs;
}

std::vector<ConstantPtr> run(const Graph& graph, const std::string& target, int opt_level) {
  testing::LocalModel model(testing::compile_to_bytes(graph, {.target = target, .opt_level = opt_level}), 2,
                            testing::device_for(target));
  return model.run(inputs_of(graph));
}

/// Largest difference of the outputs, by their largest values.
double difference(const std::vector<ConstantPtr>& actual, const std::vector<ConstantPtr>& expected) {
  if (actual[0]->type.dtype == DType::kF32) return worst_error(actual, expected);
  const auto as_float = [](const ConstantData& half) {
    std::vector<double> values;
    for (size_t i = 0; i < half.size / 2; ++i) {
      const uint16_t bits = half.as<uint16_t>()[i];
      const double fraction = bits & 0x3ff, exponent = bits >> 10 & 31;
      const double magnitude = exponent == 0 ? fraction * std::exp2(-24) : (1 + fraction / 1024) * std::exp2(exponent - 15);
      values.push_back((bits & 0x8000) != 0 ? -magnitude : magnitude);
    }
    return values;
  };
  const std::vector<double> a = as_float(*actual[0]), b = as_float(*expected[0]);
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}

/// Compiles the text of every stage of the target's pipeline at both ends of --opt, and runs it.
void expect_every_stage_to_compile_on(const char* text, const std::string& target_name, double tolerance) {
  const Graph graph = network(text);
  const std::vector<ConstantPtr> expected = run(graph, "native", 0);
  Graph changing = clone_graph(graph);
  CompileOptions options;
  std::vector<std::pair<std::string, testing::ProgramText>> stages;
  options.observer.graph_pass = [&](const std::string& pass, const Graph& after) {
    testing::ProgramText stage(after, ops());
    Graph plain = clone_graph(after);
    plain.passes.clear();
    const std::string shown = print(plain, ops());
    if (stages.empty() || print(stages.back().second.parse(ops()), ops()) != shown) stages.emplace_back(pass, std::move(stage));
  };
  run_graph_passes(changing, find_target(target_name), options);
  ASSERT_GE(stages.size(), 5u);
  for (const auto& [pass, stage] : stages) {
    const Graph read = stage.parse(ops());
    for (const int level : {0, 3}) {
      EXPECT_LT(difference(run(read, target_name, level), expected), tolerance)
          << "after " << pass << ", compiled on with --opt " << level << " for " << target_name;
    }
  }
}

TEST(TextOfStages, CompilesOnForThisMachine) {
  expect_every_stage_to_compile_on(kNetwork, "native", kTolerance);
}
TEST(TextOfStages, CompilesOnForTheEmulatedGpu) {
  expect_every_stage_to_compile_on(kNetwork, testing::gpu_test_target(), kTolerance);
}
TEST(TextOfStages, OfAHalfPrecisionModelCompilesOn) {
  expect_every_stage_to_compile_on(kHalfNetwork, "native", 2e-3);
}
TEST(TextOfStages, MadeForAGpuRunsOnACpuAlone) {
  Graph graph = network(kNetwork);
  const std::vector<ConstantPtr> expected = run(graph, "native", 0);
  run_graph_passes(graph, find_target(testing::gpu_test_target()), {});
  const Graph read = testing::ProgramText(graph, ops()).parse(ops());
  EXPECT_LT(difference(run(read, "native", 3), expected), kTolerance);
}

TEST(TextOfStages, EveryPassLeavesWhatItHasDone) {
  for (const char* target_name : {"native", "sapphirerapids", "cortex-a72", "cuda-emulated:sm_80"}) {
    Graph graph = network(kNetwork);
    const Target target = find_target(target_name);
    CompileOptions options;
    options.verify = true;
    PassContext context = make_pass_context(target, options);
    for (const PipelineStep& step : pipeline()) {
      for (int time = 0; time < 2; ++time) run_pass(*step.pass, std::string(step.pass->name), graph, context, options);
    }
    Graph once = network(kNetwork);
    run_graph_passes(once, target, options);
    EXPECT_EQ(graph.main.nodes().size(), once.main.nodes().size()) << target_name;
    const Graph final = clone_graph(once);
    run_graph_passes(once, target, options);
    const auto difference = structural_difference(once, final, ops());
    EXPECT_FALSE(difference) << "the whole pipeline again, for " << target_name << ": " << difference->str();
  }
}

TEST(TextOfStages, MadeForTileRegistersIsRefusedByOthersByName) {
  constexpr const char* kWide = R"(
fn @main(%x: Tensor[(256, 512), f32]) -> Tensor[(256, 512), f32] {
  %0 = nn.dense(%x, @w: Tensor[(512, 512), f32], units=512)  // Gemm_0
  return %0 as "y"
}
)";
  Graph graph = network(kWide);
  run_graph_passes(graph, with_precision(find_target("sapphirerapids"), Precision::kAuto), {});
  const Graph read = testing::ProgramText(graph, ops()).parse(ops());
  try {
    testing::compile_to_bytes(read, {.target = "x86-64-v3"});
    FAIL() << "it compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("node Gemm_0 (nn.dense) is to be computed by amx, which x86-64-v3 has not"));
  }
  testing::compile_to_bytes(read, {.target = "sapphirerapids"});
}

// Rules find units by the elements of a product: text that names one which is not the target's first is not
// taken, with what the target computes by and a name of it that takes the text.
TEST(TextOfStages, MadeForAUnitThatTheTargetHasBehindABetterOneIsRefusedWithTheTargetThatTakesIt) {
  Graph graph = network(R"(
fn @main(%x: Tensor[(256, 512), f32]) -> Tensor[(256, 512), f32] {
  %0 = nn.dense(%x, @w: Tensor[(512, 512), f32], units=512)  // Gemm_0
  return %0 as "y"
}
)");
  run_graph_passes(graph, with_precision(find_target("znver5"), Precision::kBf16), {});
  const Graph read = testing::ProgramText(graph, ops()).parse(ops());
  const auto compiled = [&](const char* target) {
    return testing::compile_to_bytes(read, {.target = target, .precision = "bf16"});
  };
  try {
    compiled("sapphirerapids");
    FAIL() << "it compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(
        error.what(),
        ::testing::HasSubstr("node Gemm_0 (nn.dense) is to be computed by vdpbf16ps, but sapphirerapids, "
                             "which has that too, multiplies bf16 by amx alone: compile it for "
                             "sapphirerapids-amx-bf16, or"));
  }
  EXPECT_FALSE(compiled("sapphirerapids-amx-bf16").empty());
}

}  // namespace
}  // namespace gantry::end_to_end
