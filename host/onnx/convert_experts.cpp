// com.microsoft's MoE and QMoE: each row goes through the k of several networks of two layers ("experts")
// that a router gives the largest scores, and the results are added by their shares. Semantics: ONNX
// Runtime's kernels for CPUs, and its documentation of the operators where those have no such variant.
//
// All experts compute all rows: their layers side by side are one dense layer, and a share of 0 takes what
// was not chosen out of the second one's operand.
#include <optional>

#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/packed_elements.h"
#include "host/onnx/swiglu.h"
#include "host/onnx/term.h"
#include "host/ops/activation.h"
#include "host/ops/scatter.h"
#include "host/ops/sort.h"

namespace gantry {
namespace {

/// Weights (experts, outputs, inputs) of f32.
struct Layer {
  Term weight;
  std::optional<Term> bias;  ///< (experts, outputs)
};

std::optional<Term> bias_of(NodeImport& n, size_t input) {
  if (!n.has(input)) return std::nullopt;
  return Term::input(n, input).cast(DType::kF32);
}

Term expect_rank(const Term& x, int rank, const char* what) {
  if (x.rank() != rank)
    x.node().fail("its {} {} should have {} dimensions", what, to_string(x.shape()), rank);
  return x;
}

Layer layer(NodeImport& n, size_t input) {
  const Term weight = expect_rank(Term::input(n, input).cast(DType::kF32), 3, "weights");
  return {weight, bias_of(n, input + 1)};
}

/// Refuses weights (experts, inputs, bytes of outputs) beside scales (experts, outputs, …): a
/// weights_prepacked of -1, or none, is the layout of whichever part of ONNX Runtime runs the model:
/// (experts, outputs, bytes of inputs) on CPUs, but with CUDA one for its kernel, which has the axes the
/// other way round. Where there are as many inputs as outputs nothing tells them apart: they count as the
/// former.
void expect_rows_of_outputs(NodeImport& n, const Term& bytes, const Term& scale, int64_t bits) {
  const Dim &rows = bytes.dim(1), &outputs = scale.dim(1), columns = bytes.dim(2) * (8 / bits);
  const bool turned = provably_different(rows, outputs) && columns == outputs;
  if (turned && n.integer("weights_prepacked", -1) == -1)
    n.unsupported(UnsupportedKind::kAttribute,
                  "weights that are laid out for a kernel (weights_prepacked -1)");
  for (const int64_t axis : {0, 1}) {
    if (provably_different(bytes.dim(axis), scale.dim(axis)))
      n.fail("its scales {} do not fit its weights {}", to_string(scale.shape()), to_string(bytes.shape()));
  }
}

/// Bytes (experts, outputs, bytes) with a scale, and maybe a zero point, for each row or each block of one.
Layer quantised_layer(NodeImport& n, int number) {
  const auto input = static_cast<size_t>(3 * number - 1), zero_input = static_cast<size_t>(10 + number);
  const int64_t bits =
      n.integer(fmt::format("fc{}_expert_weight_bits", number).c_str(), n.integer("expert_weight_bits", 4));
  if (bits != 2 && bits != 4 && bits != 8)
    n.unsupported(UnsupportedKind::kAttribute, "elements of {} bits", bits);
  const Term bytes = expect_rank(Term::input(n, input), 3, "weights");
  const Term scale = Term::input(n, input + 1).cast(DType::kF32);
  if (bytes.dtype() != DType::kU8)
    n.unsupported(UnsupportedKind::kElementType, "weights of {}", name_of(bytes.dtype()));
  if (scale.rank() != 2 && scale.rank() != 3)
    n.fail("its scales {} should have 2 or 3 dimensions", to_string(scale.shape()));
  expect_rows_of_outputs(n, bytes, scale, bits);
  const Dim experts = bytes.dim(0), outputs = bytes.dim(1), inputs = bytes.dim(2) * (8 / bits);
  const Dim blocks = scale.rank() == 3 ? scale.dim(2) : Dim(1), size = floordiv(inputs, blocks);
  if (provably_different(size * blocks, inputs))
    n.fail("its scales {} should be of blocks that rows of {} elements consist of", to_string(scale.shape()),
           inputs.str());
  const Shape parameters{experts, outputs, blocks, 1};
  Term elements = unpacked(bytes, bits, inputs).cast(DType::kF32).reshaped({experts, outputs, blocks, size});
  if (n.has(zero_input)) {
    const Term zeros = unpacked(Term::input(n, zero_input), bits, scale.rank() == 3 ? blocks : outputs);
    elements = elements - zeros.cast(DType::kF32).reshaped(parameters);
  } else {
    elements = elements - static_cast<double>(1 << (bits - 1));
  }
  return {(elements * scale.reshaped(parameters)).reshaped({experts, outputs, inputs}),
          bias_of(n, input + 2)};
}

/// x (rows, inputs) through that layer of each expert: (rows, experts, outputs).
Term through(const Term& x, const Layer& layer) {
  NodeImport& n = x.node();
  const Dim experts = layer.weight.dim(0), outputs = layer.weight.dim(1), all = experts * outputs;
  Term y(n, matrix_product(n, x, layer.weight.reshaped({all, layer.weight.dim(2)}), false, true));
  if (layer.bias) y = y + layer.bias->reshaped({all});
  return y.reshaped({x.dim(0), experts, outputs});
}

/// The first layer's results with the activation; `third`: what the gate of SwiGLU is multiplied with, where
/// that is a layer of its own.
Term activated(NodeImport& n, const Term& z, const std::optional<Term>& third) {
  const std::string name = n.text("activation_type", "relu");
  if (name == "swiglu") {
    const int64_t fusion = n.integer("swiglu_fusion", 0);
    SwigluLimits limits;
    if (n.has_attribute("swiglu_limit")) limits.limit = n.number("swiglu_limit", 0);
    const Dim width = z.dim(2), half = floordiv(width, 2);
    if (fusion == 1) return swiglu(z.strided(2, 0, width, 2), z.strided(2, 1, width, 2), limits);
    if (fusion == 2) return swiglu(z.sliced(2, 0, half), z.sliced(2, half, width), limits);
    if (!third) n.fail("its swiglu_fusion is {}, so that it should have a third layer", fusion);
    return swiglu(z, *third, limits);
  }
  if (third) n.unsupported(UnsupportedKind::kAttribute, "a third layer with activation_type '{}'", name);
  if (name == "identity") return z;
  if (name == "silu") return z * sigmoid(z);
  if (name == "relu") return maximum(z, 0);
  if (name != "gelu") n.unsupported(UnsupportedKind::kAttribute, "activation_type '{}'", name);
  auto attrs = std::make_shared<GeluAttrs>();
  attrs->approximate = true;
  return {n, n.add(nn::gelu, {z}, attrs)};
}

enum class Shares : uint8_t {
  kOfAll,     ///< softmax over the scores of all experts
  kOfChosen,  ///< over those that are chosen
};

/// (rows, experts): 0 but for the k with the largest scores. `given`: numbers that are the shares of those.
Term shares(const Term& scores, Shares kind, const std::optional<Term>& given) {
  NodeImport& n = scores.node();
  auto best = std::make_shared<TopKAttrs>();
  best->axis = 1;
  const int64_t k = n.integer("k", 1);
  const Dim& experts = scores.dim(1);
  if (k < 1 || (experts.is_constant() && experts.value() < k))
    n.fail("its k is {}, of {} experts", k, experts.str());
  best->k = k;
  const std::vector<Value*> results = n.add_many(op::topk, {scores}, best);
  const Term chosen(n, results[1]);
  Term share = given                    ? gather_elements(*given, chosen, 1)
               : kind == Shares::kOfAll ? gather_elements(softmax(scores, 1), chosen, 1)
                                        : softmax(Term(n, results[0]), 1);
  if (n.integer("normalize_routing_weights", 0) != 0) share = share / sum(share, {1}, KeepAxes::kYes);
  auto along = std::make_shared<ScatterAttrs>();
  along->axis = 1;
  const Term none = Term::filled(n, DType::kF32, 0, scores.shape());
  return {n, n.add(op::scatter_elements, {none, chosen, share}, along)};
}

struct Experts {
  Layer first, second;
  std::optional<Layer> third;
};

void convert_with(NodeImport& n, const Experts& experts, const Term& share) {
  const Term data = Term::input(n, 0);
  if (data.rank() != 2 && data.rank() != 3)
    n.fail("its data {} should have 2 or 3 dimensions", n.type(0).str());
  const Dim rows = share.dim(0), count = share.dim(1), width = data.dim(-1);
  const Term x = data.cast(DType::kF32).reshaped({rows, width});
  std::optional<Term> third;
  if (experts.third) third = through(x, *experts.third);
  const Term hidden = activated(n, through(x, experts.first), third), part = share.unsqueezed(-1);
  const Term weighted = where(not_equal(part, part.number_like(0)), hidden * part, 0);
  const Term& weight = experts.second.weight;
  const Dim all = count * weight.dim(2), outputs = weight.dim(1);
  const Term side_by_side = weight.transposed({0, 2, 1}).reshaped({all, outputs});
  Term y(n, matrix_product(n, weighted.reshaped({rows, all}), side_by_side));
  if (experts.second.bias) y = y + matmul(share, *experts.second.bias);
  n.set(0, y.reshaped(data.shape()).cast(data.dtype()));
}

Term scores_of(NodeImport& n) {
  return expect_rank(Term::input(n, 1).cast(DType::kF32), 2, "router_probs");
}

void refuse_variants(NodeImport& n) {
  for (const char* name : {"use_sparse_mixer", "swiglu_limit_after_activation"})
    if (n.integer(name, 0) != 0) n.unsupported(UnsupportedKind::kAttribute, "{}", name);
}

/// Inputs: data, router_probs, and weights and bias of each of three layers.
void convert_moe(NodeImport& n) {
  refuse_variants(n);
  Experts experts{layer(n, 2), layer(n, 4), std::nullopt};
  if (n.has(6)) experts.third = layer(n, 6);
  convert_with(n, experts, shares(scores_of(n), Shares::kOfAll, std::nullopt));
}

/// Inputs: data, router_probs; weights, scales and bias of each of three layers; their zero points;
/// router_weights.
void convert_quantised_moe(NodeImport& n) {
  refuse_variants(n);
  const std::string type = n.text("quant_type", "int");
  if (type != "int") n.unsupported(UnsupportedKind::kAttribute, "quant_type '{}'", type);
  const int64_t layout = n.integer("weights_prepacked", -1);
  if (layout != -1 && layout != 0)
    n.unsupported(UnsupportedKind::kAttribute, "a weights_prepacked of {}", layout);
  Experts experts{quantised_layer(n, 1), quantised_layer(n, 2), std::nullopt};
  if (n.has(8)) experts.third = quantised_layer(n, 3);
  std::optional<Term> given;
  if (n.has(14)) given = expect_rank(Term::input(n, 14).cast(DType::kF32), 2, "router_weights");
  convert_with(n, experts, shares(scores_of(n), Shares::kOfChosen, given));
}

}  // namespace

void add_expert_converters(ConverterTable& table) {
  table.push_back({"MoE", 1, convert_moe, kMicrosoft});
  table.push_back({"QMoE", 1, convert_quantised_moe, kMicrosoft});
}

}  // namespace gantry
