// Ops of com.microsoft with gates and norms as networks of linear attention have them. Semantics: ONNX
// Runtime's documentation of its contrib operators, as its kernels for CPUs have them.
#include "host/onnx/converters.h"
#include "host/onnx/normalise.h"
#include "host/onnx/swiglu.h"
#include "host/onnx/term.h"
#include "host/ops/activation.h"

namespace gantry {
namespace {

/// x (…, count * size) as (…, count, size).
Term in_parts(const Term& x, const Dim& count, const Dim& size) {
  if (provably_different(count * size, x.dim(-1)))
    x.node().fail("the last dimension of its data {} is not {} times {}", to_string(x.shape()), count.str(),
                  size.str());
  Shape shape = x.shape();
  shape.back() = count;
  shape.push_back(size);
  return x.reshaped(shape);
}

/// Inputs: data (…, heads * size), scale (size), gate. The norm is of each head.
void convert_gated_rms_norm(NodeImport& n) {
  const Term given = Term::input(n, 0), x = given.widened(), scale = Term::input(n, 1).widened(),
             gate = Term::input(n, 2).widened();
  if (scale.rank() != 1 || x.rank() < 1)
    n.fail("its data {} and scale {} should have a dimension, of the scale only one", n.type(0).str(),
           n.type(1).str());
  const std::string activation = n.text("activation", "silu");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "sigmoid")
    n.fail("its activation is '{}', not silu, swish or sigmoid", activation);
  const Dim size = scale.dim(0);
  const Term heads = in_parts(x, floordiv(x.dim(-1), size), size);
  const Term y = (rms_normalised(heads, -1, n.number("epsilon", 1e-5)) * scale).reshaped(x.shape());
  const Term open = sigmoid(gate);
  n.set(0, (y * (silu ? gate * open : open)).cast(given.dtype()));
}

/// Data (…, branches, size), or (…, branches * size) with num_branches; a scale of (size), (branches, size)
/// or (branches * size).
void convert_branchwise_rms_norm(NodeImport& n) {
  const Term given = Term::input(n, 0), x = given.widened();
  const int64_t branches = n.integer("num_branches", 0);
  if (branches < 0 || x.rank() < (branches > 0 ? 1 : 2))
    n.fail("its data {} do not have {} branches", n.type(0).str(), branches);
  const Term parts = branches > 0 ? in_parts(x, branches, floordiv(x.dim(-1), branches)) : x;
  Term y = rms_normalised(parts, -1, n.number("epsilon", 1e-5));
  if (n.has(1)) {
    const Term scale = Term::input(n, 1).cast(x.dtype());
    const Dim count = parts.dim(-2), size = parts.dim(-1);
    const bool whole = scale.rank() == 1 && !(scale.dim(0) == size) && scale.dim(0) == count * size;
    y = y * (whole ? scale.reshaped({count, size}) : scale);
  }
  n.set(0, y.reshaped(x.shape()).cast(given.dtype()));
}

/// Inputs: a (B, T, heads), its bias and its factor (heads), b (B, T, heads).
void convert_linear_attention_gate(NodeImport& n) {
  const Term a = Term::input(n, 0);
  const Term rate = (a.widened() + Term::input(n, 1)).apply(nn::softplus);
  n.set(0, (rate * Term::input(n, 2)).cast(a.dtype()));
  if (!n.wants(1)) return;
  if (!n.has(3)) n.fail("has the output beta, but not the input b");
  const Term b = Term::input(n, 3);
  n.set(1, sigmoid(b.widened()).cast(b.dtype()));
}

/// The scale is input 1, or else the attribute alpha; what is scaled is rounded, and so is its sigmoid.
void convert_scaled_silu(NodeImport& n) {
  const Term x = Term::input(n, 0), wide = x.widened();
  const Term scaled = n.has(1) ? wide * Term::input(n, 1).cast(wide.dtype()) : wide * n.number("alpha", 1);
  const Term rounded = scaled.cast(x.dtype());
  n.set(0, rounded * sigmoid(rounded.widened()).cast(x.dtype()));
}

/// swish(gate) * (linear + activation_beta), both limited; without input 1 the halves of input 0.
void convert_swiglu(NodeImport& n) {
  const Term given = Term::input(n, 0), x = given.widened();
  const Dim half = floordiv(x.dim(-1), 2);
  if (!n.has(1) && provably_different(half * 2, x.dim(-1)))
    n.fail("the last dimension of its data {} has no halves", n.type(0).str());
  const Term gate = n.has(1) ? x : x.sliced(-1, 0, half);
  const Term linear = n.has(1) ? Term::input(n, 1).widened() : x.sliced(-1, half, x.dim(-1));
  SwigluLimits limits;
  if (const double limit = n.number("limit", 0); limit > 0) limits.limit = limit;
  if (n.integer("round_activation", 0) != 0) limits.rounding = given.dtype();
  n.set(0, swiglu(gate, linear, limits).cast(given.dtype()));
}

/// x + y * gate; gates (…, 1).
void convert_gated_add(NodeImport& n) {
  if (n.has(3)) n.unsupported(UnsupportedKind::kValueKind, "a gate that is projected");
  n.set(0, Term::input(n, 0) + Term::input(n, 1) * Term::input(n, 2));
}

}  // namespace

void add_gated_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"GatedRMSNorm", 1, convert_gated_rms_norm, kMicrosoft},
      {"BranchwiseRMSNorm", 1, convert_branchwise_rms_norm, kMicrosoft},
      {"LinearAttentionGate", 1, convert_linear_attention_gate, kMicrosoft},
      {"ScaledSiLU", 1, convert_scaled_silu, kMicrosoft},
      {"GatedAdd", 1, convert_gated_add, kMicrosoft},
      {"SwiGLU", 1, convert_swiglu, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
