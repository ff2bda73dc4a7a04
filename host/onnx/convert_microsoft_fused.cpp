// Ops of com.microsoft that are an op of ai.onnx and the activation behind it, as ONNX Runtime writes them
// when it saves a model that it has optimised. Semantics: ONNX Runtime's documentation of its contrib
// operators.
#include "host/onnx/converters.h"
#include "host/onnx/convolution.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/term.h"
#include "host/ops/activation.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// An activation by its name in ai.onnx; nothing given: x. `params` are its attributes in their order, as far
/// as there are.
Term activated(const Term& x, const std::string& name, const std::vector<double>& params) {
  NodeImport& n = x.node();
  const auto param = [&](size_t i, double otherwise) { return i < params.size() ? params[i] : otherwise; };
  const auto with = [&](const Op<ActivationAttrs>& op, double alpha, double beta = 0) -> Term {
    auto attrs = std::make_shared<ActivationAttrs>();
    attrs->alpha = param(0, alpha);
    attrs->beta = param(1, beta);
    return {n, n.add(op, {x}, attrs)};
  };
  if (name.empty()) return x;
  if (name == "Relu") return x.apply(nn::relu);
  if (name == "Sigmoid") return sigmoid(x);
  if (name == "Tanh") return tanh(x);
  if (name == "Softplus") return x.apply(nn::softplus);
  if (name == "Softsign") return x.apply(nn::softsign);
  if (name == "LeakyRelu") return with(nn::leaky_relu, 0.01);
  if (name == "Elu") return with(nn::elu, 1);
  if (name == "ThresholdedRelu") return with(nn::thresholded_relu, 1);
  if (name == "HardSigmoid") return with(nn::hard_sigmoid, 0.2, 0.5);
  if (name == "Clip") {
    auto attrs = std::make_shared<ClipAttrs>();
    attrs->min = param(0, attrs->min);
    attrs->max = param(1, attrs->max);
    return {n, n.add(op::clip, {x}, attrs)};
  }
  n.unsupported(UnsupportedKind::kAttribute, "activation '{}'", name);
}

/// Inputs: data, weight, bias, and what is added before the activation.
void convert_fused_conv(NodeImport& n) {
  Term y(n, convolve_inputs(n));
  if (n.has(3)) y = y + Term::input(n, 3);
  n.set(0, activated(y, n.text("activation", ""), n.number_list("activation_params")));
}

void convert_fused_gemm(NodeImport& n) {
  std::vector<double> params;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (n.has_attribute(name)) params.push_back(n.number(name, 0));
  }
  n.set(0, activated({n, general_product(n)}, n.text("activation", ""), params));
}

}  // namespace

void add_microsoft_fused_converters(ConverterTable& table) {
  table.push_back({"FusedConv", 1, convert_fused_conv, kMicrosoft});
  table.push_back({"FusedGemm", 1, convert_fused_gemm, kMicrosoft});
}

}  // namespace gantry
