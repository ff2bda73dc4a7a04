// A squeeze-and-excitation block (Hu et al. 2018) written with bias-free MatMul, with Gemm and with 1x1
// convolutions: as many kernels and launches, and the same numbers.
#include <gtest/gtest.h>

#include "host/codegen/find_target.h"
#include "host/driver/program.h"
#include "host/machine/target.h"
#include "host/zoo/builder.h"
#include "host/zoo/layers.h"
#include "tests/cases/local_model.h"
#include "tests/end_to_end/networks.h"

namespace gantry::end_to_end {
namespace {

enum class Form { kMatMul, kMatMulAndAdd, kGemm, kConvolution };

constexpr int64_t kChannels = 32, kSqueezed = 8;

/// The values of a layer's weight, (outputs, inputs, trailing…), are the same in every form.
std::string weight(zoo::ModelBuilder& model, const std::string& name, int64_t outputs, int64_t inputs,
                   Form form) {
  const double deviation = 1.0 / static_cast<double>(inputs);
  if (form == Form::kConvolution)
    return model.normal(name + ".weight", {outputs, inputs, 1, 1}, 0, deviation);
  const std::string w = model.normal(name + ".weight", {outputs, inputs}, 0, deviation);
  if (form == Form::kGemm) return w;
  return model.node("Transpose", name + ".transpose", {w}, {{"perm", std::vector<int64_t>{1, 0}}});
}

std::string layer(zoo::ModelBuilder& model, const std::string& name, const std::string& x, int64_t outputs,
                  int64_t inputs, Form form, bool biased) {
  std::vector<std::string> operands{x, weight(model, name, outputs, inputs, form)};
  std::string bias;
  if (biased) bias = model.normal(name + ".bias", {outputs}, 0, 0.5);
  if (biased && form != Form::kMatMul && form != Form::kMatMulAndAdd) operands.push_back(bias);
  switch (form) {
    case Form::kGemm:
      return model.node("Gemm", name, operands, {{"transB", int64_t{1}}});
    case Form::kConvolution:
      return model.node("Conv", name, operands, {{"kernel_shape", std::vector<int64_t>{1, 1}}});
    default:
      const std::string y = model.node("MatMul", name, operands);
      return biased ? model.node("Add", name + ".add", {y, bias}) : y;
  }
}

std::string activation(zoo::ModelBuilder& model, const std::string& name, const std::string& kind,
                       const std::string& x) {
  if (kind != "Silu") return model.node(kind, name, {x});
  return model.node("Mul", name, {x, model.node("Sigmoid", name + ".sigmoid", {x})});
}

Graph block(Form form, bool biased, const std::string& inner, const std::string& gate) {
  zoo::ModelBuilder model("squeeze_excitation", {.size = 14});
  zoo::Feature x = zoo::conv_norm_act(model, "stem", zoo::image_input(model, 14), kChannels, {.kernel = 3},
                                      zoo::Activation::kRelu);
  std::string s = model.node("GlobalAveragePool", "pool", {x.value});
  if (form != Form::kConvolution) s = model.node("Flatten", "flatten", {s});
  s = activation(model, "inner", inner, layer(model, "fc1", s, kSqueezed, kChannels, form, biased));
  s = activation(model, "gate", gate, layer(model, "fc2", s, kChannels, kSqueezed, form, biased));
  if (form != Form::kConvolution)
    s = model.node("Reshape", "image", {s, model.int64_constant("image_shape", {1, kChannels, 1, 1})});
  model.node("Mul", "excite", {x.value, s});
  model.float_output("y", {int64_t{1}, kChannels, int64_t{14}, int64_t{14}});
  return import_onnx_bytes(model.serialize(), "");
}

struct Counts {
  size_t kernels = 0, launches = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Counts& counts) {
    return out << counts.kernels << " kernels, " << counts.launches << " launches";
  }
};

Counts counts_of(const Graph& graph, const std::string& target) {
  const Program program = build_program(graph, find_target(target), {});
  Counts counts;
  for (const KernelCall& call : program.calls) {
    ++counts.kernels;
    counts.launches += call.sizes.grids.size() / 3;
  }
  return counts;
}

struct Case {
  const char *inner, *gate;
  bool biased;
};

class SqueezeExcitation : public ::testing::TestWithParam<Case> {
 protected:
  Graph graph(Form form) const { return block(form, GetParam().biased, GetParam().inner, GetParam().gate); }
  std::vector<Form> forms() const {
    if (GetParam().biased) return {Form::kMatMulAndAdd, Form::kGemm, Form::kConvolution};
    return {Form::kMatMul, Form::kGemm, Form::kConvolution};
  }
};

TEST_P(SqueezeExcitation, TakesAsManyKernelsAndLaunchesInEveryForm) {
  for (const std::string target : {"x86-64-v3", "cuda:sm_80", "cuda-emulated"}) {
    const Counts first = counts_of(graph(forms()[0]), target);
    EXPECT_GT(first.kernels, 0u);
    for (Form form : forms())
      EXPECT_EQ(counts_of(graph(form), target), first) << target << ", form " << static_cast<int>(form);
  }
}

TEST_P(SqueezeExcitation, ComputesTheSameInEveryForm) {
  const auto inputs = random_inputs(graph(Form::kConvolution));
  const auto expected = run_here("native", 0, 1)(graph(Form::kConvolution), inputs);
  for (const std::string& target : {std::string("native"), testing::gpu_test_target()}) {
    for (Form form : forms())
      EXPECT_LE(worst_error(run_here(target)(graph(form), inputs), expected), kTolerance)
          << target << ", form " << static_cast<int>(form);
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, SqueezeExcitation,
                         ::testing::Values(Case{"Relu", "Sigmoid", false}, Case{"Relu", "HardSigmoid", true},
                                           Case{"Silu", "Sigmoid", true}),
                         [](const auto& info) {
                           return std::string(info.param.inner) + info.param.gate +
                                  (info.param.biased ? "Biased" : "");
                         });

}  // namespace
}  // namespace gantry::end_to_end
