// Ops of com.microsoft that exporters and optimisers of transformers write: composites of what ai.onnx has.
// Semantics: ONNX Runtime's documentation of its contrib operators.
#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/normalise.h"
#include "host/onnx/term.h"
#include "host/ops/activation.h"
#include "host/ops/norm.h"

namespace gantry {
namespace {

void convert_fused_matmul(NodeImport& n) {
  if (n.integer("transBatchA", 0) != 0 || n.integer("transBatchB", 0) != 0)
    n.unsupported(UnsupportedKind::kAttribute, "transBatchA or transBatchB");
  const bool transpose_a = n.integer("transA", 0) != 0, transpose_b = n.integer("transB", 0) != 0;
  const Term y(n, matrix_product(n, n.input(0), n.input(1), transpose_a, transpose_b));
  n.set(0, y * n.number("alpha", 1));
}

// --- activations

/// Of the data with a bias, if there is one.
Term biased(NodeImport& n) {
  const Term x = Term::input(n, 0);
  return n.has(1) ? x + Term::input(n, 1) : x;
}

void convert_gelu(NodeImport& n, bool approximate) {
  auto attrs = std::make_shared<GeluAttrs>();
  attrs->approximate = approximate;
  n.set(0, n.add(nn::gelu, {biased(n)}, attrs));
}

void convert_quick_gelu(NodeImport& n) {
  auto attrs = std::make_shared<ActivationAttrs>();
  attrs->alpha = n.number("alpha", 1.702);
  n.set(0, n.add(nn::swish, {n.input(0)}, attrs));
}

// --- normalisations

/// Over the last axis; the optional input `beta` is the bias.
Term layer_norm(const Term& x, size_t gamma, size_t beta, double epsilon) {
  NodeImport& n = x.node();
  auto attrs = std::make_shared<LayerNormAttrs>();
  attrs->axis = n.axis(-1, x.rank());
  attrs->epsilon = epsilon;
  std::vector<Value*> inputs{x, n.input(gamma)};
  if (n.has(beta)) inputs.push_back(n.input(beta));
  return {n, n.add(nn::layer_norm, inputs, attrs)};
}

Term rms_norm(const Term& given, size_t gamma, int64_t axis, double epsilon) {
  return rms_normalised(given.widened(), axis, epsilon).cast(given.dtype()) * Term::input(given.node(), gamma);
}

/// The data, what skips a layer, and a bias.
Term skipped_sum(NodeImport& n, size_t bias) {
  const Term sum = Term::input(n, 0) + Term::input(n, 1);
  return n.has(bias) ? sum + Term::input(n, bias) : sum;
}

void convert_skip_layer_norm(NodeImport& n) {
  const Term sum = skipped_sum(n, 4);
  n.set(0, layer_norm(sum, 2, 3, n.number("epsilon", 1e-12)));
  if (n.wants(3)) n.set(3, sum);
}

void convert_skip_rms_norm(NodeImport& n) {
  const Term sum = skipped_sum(n, 3);
  n.set(0, rms_norm(sum, 2, -1, n.number("epsilon", 1e-12)));
  if (n.wants(3)) n.set(3, sum);
}

/// Written without a domain, though it is no op of ai.onnx.
void convert_rms_norm(NodeImport& n) {
  n.set(0, rms_norm(Term::input(n, 0), 1, n.integer("axis", -1), n.number("epsilon", 1e-5)));
}

/// Words, positions and segments looked up, added, and normalised.
void convert_embed_layer_norm(NodeImport& n) {
  const Term words = Term::input(n, 0).cast(DType::kI64);
  Term sum = gather(Term::input(n, 2), words, 0);
  const Term positions = n.has(8) ? Term::input(n, 8).cast(DType::kI64) : Term::range(n, words.dim(1));
  sum = sum + gather(Term::input(n, 3), positions, 0);
  if (n.has(1) && n.has(4)) sum = sum + gather(Term::input(n, 4), Term::input(n, 1).cast(DType::kI64), 0);
  n.set(0, layer_norm(sum, 5, 6, n.number("epsilon", 1e-12)));
  if (n.wants(1)) {  // how many words of each sequence count
    const Term none = Term::filled(n, DType::kI32, 0, {words.dim(0)});
    n.set(1, n.has(7) ? gantry::sum(Term::input(n, 7).cast(DType::kI32), {1}) : none);
  }
  if (n.wants(2)) n.set(2, sum);
}

}  // namespace

void add_microsoft_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"FusedMatMul", 1, convert_fused_matmul, kMicrosoft},
      {"Gelu", 1, [](NodeImport& n) { convert_gelu(n, false); }, kMicrosoft},
      {"BiasGelu", 1, [](NodeImport& n) { convert_gelu(n, false); }, kMicrosoft},
      {"FastGelu", 1, [](NodeImport& n) { convert_gelu(n, true); }, kMicrosoft},
      {"QuickGelu", 1, convert_quick_gelu, kMicrosoft},
      {"SkipLayerNormalization", 1, convert_skip_layer_norm, kMicrosoft},
      {"SkipSimplifiedLayerNormalization", 1, convert_skip_rms_norm, kMicrosoft},
      {"SimplifiedLayerNormalization", 1, convert_rms_norm},
      {"EmbedLayerNormalization", 1, convert_embed_layer_norm, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
