// Batch normalisation as broadcast arithmetic, lowered and printed stage by stage, checked against a reference.
#include "check.h"

using namespace gantry;

namespace {

constexpr int64_t kImages = 2, kChannels = 6, kPixels = 50;

bool work() {
  Tensor x = placeholder({kImages, kChannels, kPixels}, DType::kF32, "x");
  std::vector<Tensor> parameters;
  for (const char* name : {"mean", "variance", "scale", "bias"})
    parameters.push_back(placeholder({kChannels}, DType::kF32, name));
  const auto& mean = parameters[0];
  const auto& variance = parameters[1];
  const auto& scale = parameters[2];
  const auto& bias = parameters[3];

  // One factor a channel is computed once, and then broadcast.
  Tensor factor = compute(
      {kChannels},
      [&](const auto& c) { return scale(c) * call(MathFn::kRsqrt, {variance(c) + float_imm(DType::kF32, 1e-5)}); },
      "factor");
  Tensor y = compute(
      {kImages, kChannels, kPixels},
      [&](const auto& i) { return (x(i) - mean({i[1]})) * factor({i[1]}) + bias({i[1]}); }, "y");

  Schedule schedule({y});
  Stage& out = schedule[y];
  const auto [outer, inner] = out.split(out.axes()[2], 8);
  out.vectorize(inner);

  const std::vector<Tensor> inputs{x, mean, variance, scale, bias};
  const LoopKernel nest = lower_schedule(schedule, inputs, "batch_norm");
  std::printf("--- lowered\n%s\n", to_string(nest).c_str());
  std::string last = to_string(nest);
  const LoopKernel kernel = run_loop_passes(nest, [&](std::string_view step, const LoopKernel& after) {
    const std::string text = to_string(after);
    if (text != last) std::printf("--- after %s\n%s\n", std::string(step).c_str(), text.c_str());
    last = text;
  });
  const Target target = find_target("native");
  std::printf("--- assembly, the first lines\n%.600s…\n", emit_assembly(kernel, target).c_str());

  ModuleFile module = build(inputs, schedule, target, "batch_norm");
  LoadedProgram program = load(module, target);
  const auto x_values = example::random_values(kImages * kChannels * kPixels, 1);
  std::vector<std::vector<float>> values;
  for (unsigned p = 0; p < 4; ++p) values.push_back(example::random_values(kChannels, 2 + p));
  for (float& v : values[1]) v = v * v + 0.5f;
  std::vector<ConstantPtr> given{example::tensor({kImages, kChannels, kPixels}, x_values)};
  for (const auto& parameter : values) given.push_back(example::tensor({kChannels}, parameter));
  const ConstantPtr result = program.run(given).at(0);
  std::vector<double> reference;
  for (size_t i = 0; i < x_values.size(); ++i) {
    const size_t c = i / kPixels % kChannels;
    reference.push_back((double{x_values[i]} - values[0][c]) / std::sqrt(values[1][c] + 1e-5) * values[2][c] +
                        values[3][c]);
  }
  return example::agrees("batch normalisation", *result, reference);
}

}  // namespace

int main() {
  return example::run(work);
}
