// Activation functions.
#include "host/onnx/converters.h"
#include "host/onnx/one_number.h"
#include "host/onnx/random.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

/// An activation and the defaults of its alpha, beta and gamma; newer definitions of an op come first.
struct Activation {
  std::string_view onnx;
  int64_t since;
  const Op<ActivationAttrs>* op;
  double alpha, beta, gamma;
};
constexpr Activation kWithAttributes[] = {
    {"LeakyRelu", 1, &nn::leaky_relu, 0.01, 0, 1},
    {"Elu", 1, &nn::elu, 1, 0, 1},
    {"Selu", 6, &nn::selu, 1.67326319217681884765625, 0, 1.05070102214813232421875},
    {"Selu", 1, &nn::selu, static_cast<double>(1.6732F), 0, static_cast<double>(1.0507F)},
    {"Celu", 12, &nn::celu, 1, 0, 1},
    {"ThresholdedRelu", 10, &nn::thresholded_relu, 1, 0, 1},
    {"HardSigmoid", 1, &nn::hard_sigmoid, 0.2, 0.5, 1},
    {"Swish", 24, &nn::swish, 1, 0, 1},
    {"ScaledTanh", 1, &nn::scaled_tanh, 1, 1, 1},  // no op of ONNX any longer, but still in files
};
struct Plain {
  std::string_view onnx;
  int64_t since;
  const Op<NoAttrs>* op;
};
constexpr Plain kPlain[] = {
    {"Relu", 1, &nn::relu},         {"HardSwish", 14, &nn::hard_swish}, {"Mish", 18, &nn::mish},
    {"Softplus", 1, &nn::softplus}, {"Softsign", 1, &nn::softsign},
};

void convert_with_attributes(NodeImport& n) {
  for (const Activation& entry : kWithAttributes) {
    if (entry.onnx != n.op_type() || entry.since > n.opset()) continue;
    auto attrs = std::make_shared<ActivationAttrs>();
    attrs->alpha = n.number("alpha", entry.alpha);
    attrs->beta = n.number("beta", entry.beta);
    attrs->gamma = n.number("gamma", entry.gamma);
    return n.set(0, n.add(*entry.op, {n.input(0)}, attrs));
  }
}

void convert_plain(NodeImport& n) {
  for (const Plain& entry : kPlain) {
    if (entry.onnx == n.op_type()) return n.set(0, n.add(*entry.op, {n.input(0)}));
  }
}

void convert_gelu(NodeImport& n) {
  auto attrs = std::make_shared<GeluAttrs>();
  attrs->approximate = n.text("approximate", "none") == "tanh";
  n.set(0, n.add(nn::gelu, {n.input(0)}, attrs));
}

void convert_shrink(NodeImport& n) {
  auto attrs = std::make_shared<ActivationAttrs>();
  attrs->alpha = n.number("bias", 0);
  attrs->beta = n.number("lambd", 0.5);
  Value* x = n.input(0);
  if (is_float(x->type.dtype)) return n.set(0, n.add(nn::shrink, {x}, attrs));
  Value* y = n.add(nn::shrink, {n.cast(x, DType::kF32)}, attrs);  // the bounds are fractions
  n.set(0, n.cast(y, x->type.dtype));
}

/// swish(a) * b, of equal shapes.
void convert_swiglu(NodeImport& n) {
  auto attrs = std::make_shared<ActivationAttrs>();
  attrs->alpha = n.number("alpha", 1);
  n.set(0, n.add(op::multiply, {n.add(nn::swish, {n.input(0)}, attrs), n.input(1)}));
}

/// Nothing is dropped, so the mask is true (1 before opset 10) everywhere.
void set_dropout_mask(NodeImport& n) {
  if (!n.wants(1)) return;
  const TensorType type = n.type(0);
  n.set(1, n.broadcast(n.scalar(n.opset() < 10 ? type.dtype : DType::kBool, 1), type.shape));
}

/// Drops elements where a random number is below the ratio, and enlarges the others by as much; as it is where the
/// node is not in training, which may be known only when the model runs.
void convert_dropout_training(NodeImport& n) {
  const Term x = Term::input(n, 0);
  const Term given = n.has(1) ? Term::input(n, 1).cast(DType::kF32).reshaped({}) : Term::number(n, DType::kF32, 0.5);
  const Term ratio = where(Term::input(n, 2).reshaped({}), given, 0);
  // A seed is one of NumPy's RandomState, as ONNX's own data have it.
  const Term drawn =
      n.has_attribute("seed") ? seeded_fractions(n, x.shape()) : random_fractions(n, x.shape());
  const Term kept = less_equal(ratio.cast(drawn.dtype()), drawn);
  n.set(0, where(kept, (x.widened() / (1.0 - ratio).cast(x.widened().dtype())).cast(x.dtype()), 0));
  if (n.wants(1)) n.set(1, kept);
}

void convert_dropout(NodeImport& n) {
  if (n.has(2)) {
    const bool inference = n.contents(2) && one_dim(n, 2, "training_mode", Elements::kSigned) == Dim(0);
    // Exporters also write training nodes that drop nothing.
    const bool drops_nothing = n.constant(1) && one_number(n, 1, "ratio") == 0;
    if (!inference && !drops_nothing) return convert_dropout_training(n);
  }
  n.set(0, n.add(nn::dropout, {n.input(0)}));
  set_dropout_mask(n);
}

}  // namespace

void add_activation_converters(ConverterTable& table) {
  for (const Activation& entry : kWithAttributes)
    table.push_back({entry.onnx, entry.since, convert_with_attributes});
  for (const Plain& entry : kPlain) table.push_back({entry.onnx, entry.since, convert_plain});
  table.push_back({"Gelu", 20, convert_gelu});
  table.push_back({"Shrink", 9, convert_shrink});
  table.push_back({"SwiGLU", 28, convert_swiglu});
  table.push_back({"Dropout", 1, convert_dropout});
}

}  // namespace gantry
