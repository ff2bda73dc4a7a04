// A convolution, batch normalisation and ReLU as a graph, optimised by chosen passes and printed before and after.
#include "check.h"
#include "host/ops/conv.h"
#include "host/ops/elementwise.h"
#include "host/ops/norm.h"
#include "host/passes/fuse_ops.h"

using namespace gantry;

namespace {

constexpr int64_t kIn = 3, kOut = 8, kSize = 16;

Graph convolution_unit() {
  Graph graph{"unit", Function("main")};
  Function& f = graph.main;
  Value* image = f.add_parameter("image", {DType::kF32, {1, kIn, kSize, kSize}});
  const auto parameter = [&](const char* name, const std::vector<int64_t>& shape, unsigned seed) {
    const size_t count = static_cast<size_t>(element_count(Shape(shape.begin(), shape.end())).value());
    std::vector<float> values = example::random_values(count, seed);
    if (std::string(name) == "variance") std::ranges::for_each(values, [](float& v) { v = v * v + 0.5f; });
    return f.add_constant(name, example::tensor(shape, values));
  };
  const Builder build(f, {"unit"});
  ConvAttrs conv;
  conv.channels = kOut;
  conv.kernel = {3, 3};
  conv.strides = conv.dilations = {1, 1};
  conv.padding = {1, 1, 1, 1};
  Value* y = build(nn::conv, {image, parameter("weight", {kOut, kIn, 3, 3}, 1)}, conv);
  y = build(nn::batch_norm, {y, parameter("scale", {kOut}, 2), parameter("bias", {kOut}, 3),
                             parameter("mean", {kOut}, 4), parameter("variance", {kOut}, 5)});
  f.outputs = {build(nn::relu, {y})};
  f.output_names = {"result"};
  return graph;
}

/// Sums in double, in the order in which they are written.
std::vector<double> reference(const Graph& graph, const std::vector<float>& image) {
  std::map<std::string, const float*> of;
  for (const Value* constant : graph.main.constants()) of[constant->name] = constant->constant->as<float>();
  std::vector<double> result;
  for (int64_t o = 0; o < kOut; ++o)
    for (int64_t y = 0; y < kSize; ++y)
      for (int64_t x = 0; x < kSize; ++x) {
        double sum = 0;
        for (int64_t i = 0; i < kIn; ++i)
          for (int64_t dy = 0; dy < 3; ++dy)
            for (int64_t dx = 0; dx < 3; ++dx) {
              const int64_t from_y = y + dy - 1, from_x = x + dx - 1;
              if (from_y < 0 || from_y >= kSize || from_x < 0 || from_x >= kSize) continue;
              sum += double{image[static_cast<size_t>((i * kSize + from_y) * kSize + from_x)]} *
                     of["weight"][((o * kIn + i) * 3 + dy) * 3 + dx];
            }
        sum = (sum - of["mean"][o]) / std::sqrt(of["variance"][o] + 1e-5) * of["scale"][o] + of["bias"][o];
        result.push_back(std::max(sum, 0.0));
      }
  return result;
}

bool work() {
  const Graph original = convolution_unit();
  std::printf("--- as it was built\n%s\n", print(original, op_set()).c_str());

  Graph optimised = clone_graph(original);
  PassContext context;
  for (const char* name : {"simplify_inference", "fold_scale_axis", "fold_constant", "dead_code", "fuse_ops"}) {
    const int64_t before = context.rewrites;
    find_pass(name)->run(optimised, context);
    std::printf("%s: %lld rewrites\n", name, static_cast<long long>(context.rewrites - before));
  }
  const FusedOpTable ops(op_set());
  std::printf("--- after these passes: one kernel, and no normalisation left\n%s\n", print(optimised, ops).c_str());

  CompileOptions options;
  options.targets = {find_target("native")};
  ModuleFile module = compile_graph(original, options);
  LoadedProgram program = load(module, options.targets[0]);
  const std::vector<float> image = example::random_values(kIn * kSize * kSize, 6);
  const ConstantPtr result = program.run({example::tensor({1, kIn, kSize, kSize}, image)}).at(0);
  return example::agrees("convolution unit", *result, reference(original, image));
}

}  // namespace

int main() {
  return example::run(work);
}
