// Google Benchmark over single kernels: each case is a one-node network, compiled for this machine and run
// through the runtime on one thread. The counter is the op's GFLOP/s.
//
//   build/bin/kernel_benchmarks --benchmark_filter=conv
#include <benchmark/benchmark.h>

#include <random>

#include "gantry/runtime.h"
#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/norm.h"
#include "host/ops/op.h"
#include "host/ops/pool.h"

namespace gantry {
namespace {

ConstantPtr random_constant(const Shape& shape) {
  std::byte* bytes = nullptr;
  auto constant = allocate_constant({DType::kF32, shape}, &bytes);
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> values(-1, 1);
  auto* data = reinterpret_cast<float*>(bytes);
  for (int64_t i = 0; i < element_count(shape).value(); ++i) data[i] = values(engine);
  return constant;
}

// A graph of one node over one or more random inputs.
Graph one_node(const std::string& op, std::shared_ptr<Attrs> attrs, const std::vector<Shape>& inputs,
               const std::vector<Shape>& weights) {
  Graph graph{"benchmark", Function()};
  std::vector<Value*> values;
  for (const Shape& shape : inputs) values.push_back(graph.main.add_parameter("x", {DType::kF32, shape}));
  for (const Shape& shape : weights) values.push_back(graph.main.add_constant("w", random_constant(shape)));
  Node* node = infer_and_add(graph.main, *op_set().find(op), std::move(attrs), values, {op});
  graph.main.outputs = {node->result()};
  graph.main.output_names = {"y"};
  return graph;
}

double flops_of_graph(const Graph& graph) {
  const Node& node = *graph.main.nodes().front();
  return double(op_def(node).flops ? op_def(node).flops(node).value()
                               : element_count(node.result()->type.shape).value());
}

void run_kernel(benchmark::State& state, const Graph& graph) {
  CompileOptions options;
  options.targets = {find_target("native")};
  ModuleFile file = compile_graph(graph, options);
  std::vector<std::byte> bytes = serialize_module(file);
  GantryModule* module = nullptr;
  GantrySession* session = nullptr;
  GantrySessionOptions session_options{};
  session_options.struct_size = sizeof session_options;
  session_options.threads = 1;
  if (gantry_module_load_memory(bytes.data(), bytes.size(), &module) != GANTRY_OK ||
      gantry_session_create(module, &session_options, &session) != GANTRY_OK) {
    state.SkipWithError(gantry_last_error());
    return;
  }
  std::vector<ConstantPtr> inputs;
  for (size_t i = 0; i < graph.main.parameters.size(); ++i) {
    const Shape& shape = graph.main.parameters[i]->type.shape;
    inputs.push_back(random_constant(shape));
    auto extents = constant_shape(shape).value();
    DLTensor tensor{};
    tensor.data = const_cast<std::byte*>(inputs.back()->bytes);
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(extents.size());
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = extents.data();
    if (gantry_set_input(session, static_cast<int32_t>(i), &tensor, 1) != GANTRY_OK) {
      state.SkipWithError(gantry_last_error());
      return;
    }
  }
  for (auto _ : state) gantry_run(session);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops_of_graph(graph) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  gantry_session_release(session);
  gantry_module_release(module);
}

struct ConvCase {
  const char* name;
  int64_t channels_in, channels_out, size, kernel, stride, groups;
};

// Layers of ResNet, MobileNet, ResNeXt and VGG; the layout conversions at both ends are part of the figure.
constexpr ConvCase kConvs[] = {
    {"first_7x7", 3, 64, 224, 7, 2, 1},
    {"conv3x3_64_56", 64, 64, 56, 3, 1, 1},
    {"conv3x3_128_28", 128, 128, 28, 3, 1, 1},
    {"conv3x3_256_14", 256, 256, 14, 3, 1, 1},
    {"conv3x3_512_7", 512, 512, 7, 3, 1, 1},
    {"conv1x1_64_256_56", 64, 256, 56, 1, 1, 1},
    {"conv1x1_1024_14", 1024, 256, 14, 1, 1, 1},
    {"conv3x3_stride2", 128, 128, 56, 3, 2, 1},
    {"depthwise3x3_144_56", 144, 144, 56, 3, 1, 144},
    {"depthwise5x5_672_14", 672, 672, 14, 5, 1, 672},
    {"grouped3x3_128_32g", 128, 128, 56, 3, 1, 32},
    {"vgg3x3_256_56", 256, 256, 56, 3, 1, 1},
};

void bench_conv(benchmark::State& state, const ConvCase& c) {
  auto attrs = std::make_shared<ConvAttrs>();
  attrs->channels = c.channels_out;
  attrs->kernel = {c.kernel, c.kernel};
  attrs->strides = {c.stride, c.stride};
  attrs->dilations = {1, 1};
  attrs->padding.assign(4, Dim(c.kernel / 2));
  attrs->groups = c.groups;
  run_kernel(state, one_node("nn.conv", attrs, {{1, c.channels_in, c.size, c.size}},
                             {{c.channels_out, c.channels_in / c.groups, c.kernel, c.kernel}}));
}

void bench_dense(benchmark::State& state) {
  auto attrs = std::make_shared<DenseAttrs>();
  attrs->units = state.range(2);
  run_kernel(state, one_node("nn.dense", attrs, {{state.range(0), state.range(1)}},
                             {{state.range(1), state.range(2)}}));
}

void bench_matmul(benchmark::State& state) {
  run_kernel(state, one_node("matmul", std::make_shared<MatmulAttrs>(), {{12, 128, 64}, {12, 64, 128}}, {}));
}

void bench_softmax(benchmark::State& state) {
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->axis = 2;
  run_kernel(state, one_node("nn.softmax", attrs, {{12, 128, 128}}, {}));
}

void bench_layer_norm(benchmark::State& state) {
  auto attrs = std::make_shared<LayerNormAttrs>();
  attrs->axis = 1;
  run_kernel(state, one_node("nn.layer_norm", attrs, {{128, 768}}, {{768}, {768}}));
}

void bench_unary(benchmark::State& state, const std::string& op) {
  run_kernel(state,
             one_node(op, nullptr, {{32, 3072}}, {}));  // fits the second-level cache
}

void bench_max_pool(benchmark::State& state) {
  auto attrs = std::make_shared<PoolAttrs>();
  attrs->kernel = {3, 3};
  attrs->strides = {2, 2};
  attrs->dilations = {1, 1};
  attrs->padding.assign(4, Dim(1));
  run_kernel(state, one_node("nn.max_pool", attrs, {{1, 64, 112, 112}}, {}));
}

void register_cases() {
  for (const ConvCase& c : kConvs) {
    benchmark::RegisterBenchmark((std::string("conv/") + c.name).c_str(), bench_conv, c)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RegisterBenchmark("dense", bench_dense)
      ->Args({1, 2048, 1000})
      ->Args({128, 768, 768})
      ->Args({128, 768, 3072})
      ->Args({128, 3072, 768})
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("matmul/attention_scores", bench_matmul)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("softmax/attention", bench_softmax)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("layer_norm/bert", bench_layer_norm)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("max_pool/resnet", bench_max_pool)->Unit(benchmark::kMicrosecond);
  for (const char* op : {"exp", "tanh", "erf", "sigmoid", "nn.relu"}) {
    benchmark::RegisterBenchmark((std::string("elementwise/") + op).c_str(), bench_unary, std::string(op))
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace gantry

int main(int argc, char** argv) {
  gantry::register_cases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
