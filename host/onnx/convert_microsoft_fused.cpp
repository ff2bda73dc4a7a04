// Ops of com.microsoft that are an op of ai.onnx and the activation behind it, as ONNX Runtime writes them
// when it saves a model that it has optimised. Semantics: ONNX Runtime's documentation of its contrib
// operators.
#include <functional>

#include "host/onnx/converters.h"
#include "host/onnx/convolution.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/term.h"
#include "host/onnx/window.h"
#include "host/ops/activation.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// Attribute i of an activation (alpha, beta, gamma; of Clip its bounds), or what it is otherwise.
using Params = std::function<double(size_t i, double otherwise)>;

/// An activation by its name in ai.onnx; nothing given: x.
Term activated(const Term& x, const std::string& name, const Params& param) {
  NodeImport& n = x.node();
  const auto with = [&](const Op<ActivationAttrs>& op, double alpha, double beta = 0,
                        double gamma = 1) -> Term {
    auto attrs = std::make_shared<ActivationAttrs>();
    attrs->alpha = param(0, alpha);
    attrs->beta = param(1, beta);
    attrs->gamma = param(2, gamma);
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
  if (name == "Selu") return with(nn::selu, 1.67326319217681884765625, 0, 1.05070102214813232421875);
  if (name == "ScaledTanh") return with(nn::scaled_tanh, 1, 1);
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

/// By the attributes activation and activation_params, which lists those of the activation.
Term with_listed_params(const Term& x) {
  NodeImport& n = x.node();
  const std::vector<double> params = n.number_list("activation_params");
  return activated(x, n.text("activation", ""),
                   [&](size_t i, double otherwise) { return i < params.size() ? params[i] : otherwise; });
}

/// By the attribute activation and those named activation_alpha and so on.
Term with_named_params(const Term& x) {
  NodeImport& n = x.node();
  constexpr const char* kNames[] = {"activation_alpha", "activation_beta", "activation_gamma"};
  return activated(x, n.text("activation", ""),
                   [&](size_t i, double otherwise) { return n.number(kNames[i], otherwise); });
}

/// Inputs: data, weight, bias, and what is added before the activation.
void convert_fused_conv(NodeImport& n) {
  Term y(n, convolve_inputs(n));
  if (n.has(3)) y = y + Term::input(n, 3);
  n.set(0, with_listed_params(y));
}

/// The same of data (N, spatial…, C); the weight is as Conv has it.
void convert_nhwc_fused_conv(NodeImport& n) {
  const Term sums(n, convolve(n, channels_first(n, n.input(0)), n.input(1)));
  Term y(n, channels_last(n, sums));
  if (n.has(2)) y = y + Term::input(n, 2);
  if (n.has(3)) y = y + Term::input(n, 3);
  n.set(0, with_listed_params(y));
}

void convert_fused_gemm(NodeImport& n) {
  n.set(0, with_named_params({n, general_product(n)}));
}

void convert_fused_matmul_activation(NodeImport& n) {
  n.set(0, with_named_params({n, scaled_matrix_product(n)}));
}

void convert_gemm_fast_gelu(NodeImport& n) {
  Term x(n, matrix_product(n, n.input(0), n.input(1)));
  if (n.has(2)) x = x + Term::input(n, 2);
  auto attrs = std::make_shared<GeluAttrs>();
  attrs->approximate = true;
  n.set(0, n.add(nn::gelu, {x}, attrs));
}

}  // namespace

void add_microsoft_fused_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"FusedConv", 1, convert_fused_conv, kMicrosoft},
      {"NhwcFusedConv", 1, convert_nhwc_fused_conv, kMicrosoft},
      {"FusedGemm", 1, convert_fused_gemm, kMicrosoft},
      {"FusedMatMulActivation", 1, convert_fused_matmul_activation, kMicrosoft},
      {"GemmFastGelu", 1, convert_gemm_fast_gelu, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
