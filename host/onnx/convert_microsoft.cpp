// Ops of com.microsoft that exporters and optimisers of transformers write: composites of what ai.onnx has.
// Semantics: ONNX Runtime's documentation of its contrib operators.
#include <optional>

#include "host/onnx/converters.h"
#include "host/onnx/normalise.h"
#include "host/onnx/quantize.h"
#include "host/onnx/term.h"
#include "host/ops/activation.h"
#include "host/ops/norm.h"

namespace gantry {
namespace {

/// Rows of input 0 (M, D) against those of input 1 (K, D): (M, K).
void convert_cdist(NodeImport& n) {
  const Term a = Term::input(n, 0), b = Term::input(n, 1);
  if (a.rank() != 2 || b.rank() != 2)
    n.fail("its data {} and {} should have 2 dimensions", n.type(0).str(), n.type(1).str());
  const std::string metric = n.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    n.unsupported(UnsupportedKind::kAttribute, "metric '{}'", metric);
  const Term squares = sum(square(a.unsqueezed(1) - b.unsqueezed(0)), {2});
  n.set(0, metric == "euclidean" ? sqrt(squares) : squares);
}

/// Slices of `size` elements along an axis, every `step` elements; the elements of each are the last axis.
void convert_unfold_tensor(NodeImport& n) {
  const Term x = Term::input(n, 0);
  if (x.rank() < 1) n.fail("its data have no axis");
  const int64_t axis = n.axis(n.integer("dim", -1), x.rank());
  const int64_t size = n.integer("size", 0), step = n.integer("step", 1);
  const Dim& length = x.dim(axis);
  if (size < 1 || step < 1 || (length.is_constant() && length.value() < size))
    n.fail("has slices of {} elements every {} of an axis of {}", size, step, length.str());
  const Dim count = floordiv(length - size, step) + 1;
  const Term first = (Term::range(n, count) * static_cast<double>(step)).unsqueezed(1);
  const Term slices = gather(x, first + Term::range(n, size), axis);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i <= x.rank(); ++i)
    if (i != axis + 1) axes.push_back(i);
  axes.push_back(axis + 1);
  n.set(0, slices.transposed(axes));
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

/// Over the last axis; `beta`, which may be null, is the bias.
Term layer_norm(const Term& x, Value* gamma, Value* beta, double epsilon) {
  NodeImport& n = x.node();
  auto attrs = std::make_shared<LayerNormAttrs>();
  attrs->axis = n.axis(-1, x.rank());
  attrs->epsilon = epsilon;
  std::vector<Value*> inputs{x, gamma};
  if (beta != nullptr) inputs.push_back(beta);
  return {n, n.add(nn::layer_norm, inputs, attrs)};
}

Term rms_norm(const Term& given, size_t gamma, int64_t axis, double epsilon) {
  return rms_normalised(given.widened(), axis, epsilon).cast(given.dtype()) *
         Term::input(given.node(), gamma);
}

/// The data, what skips a layer, and a bias.
Term skipped_sum(NodeImport& n, size_t bias) {
  const Term sum = Term::input(n, 0) + Term::input(n, 1);
  return n.has(bias) ? sum + Term::input(n, bias) : sum;
}

void convert_skip_layer_norm(NodeImport& n) {
  const Term sum = skipped_sum(n, 4);
  n.set(0, layer_norm(sum, n.input(2), n.optional_input(3), n.number("epsilon", 1e-12)));
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

/// Words, positions and segments looked up, added, and normalised. Inputs: words, segments, then from 2 on
/// the three tables, gamma and beta, of whose elements `decoded` makes floats; `positions` is the input that
/// has those, which may be absent.
template <typename Decode>
void embed(NodeImport& n, const Decode& decoded, std::optional<size_t> positions) {
  const auto rows = [&](size_t table, const Term& indices) {
    return decoded(table, gather(Term::input(n, table), indices, 0));
  };
  const Term words = Term::input(n, 0).cast(DType::kI64);
  const bool given = positions && n.has(*positions);
  Term sum = rows(2, words);
  sum = sum + rows(3, given ? Term::input(n, *positions).cast(DType::kI64) : Term::range(n, words.dim(1)));
  if (n.has(1) && n.has(4)) sum = sum + rows(4, Term::input(n, 1).cast(DType::kI64));
  const Term gamma = decoded(5, Term::input(n, 5));
  Value* beta = n.has(6) ? static_cast<Value*>(decoded(6, Term::input(n, 6))) : nullptr;
  n.set(0, layer_norm(sum, gamma, beta, n.number("epsilon", 1e-12)));
  if (n.wants(1)) {  // how many words of each sequence count: those whose mask is 1
    const Term none = Term::filled(n, DType::kI32, 0, {words.dim(0)});
    const auto ones = [](const Term& mask) { return equal(mask, mask.number_like(1)); };
    n.set(1, n.has(7) ? gantry::sum(ones(Term::input(n, 7)).cast(DType::kI32), {1}) : none);
  }
  if (n.wants(2)) n.set(2, sum);
}

void convert_embed_layer_norm(NodeImport& n) {
  embed(
      n, [](size_t, const Term& x) { return x; }, 8);
}

/// Tables, gamma and beta are quantised: their scales are inputs 8 to 12, their zero points, which are 0
/// where they are absent, 13 to 17.
void convert_quantized_embed_layer_norm(NodeImport& n) {
  const auto decoded = [&](size_t i, const Term& x) {
    Value* scale = along_axis(n, n.input(i + 6), {}, 0);
    return Term(n, dequantize(n, x, scale, along_axis(n, n.optional_input(i + 11), {}, 0)));
  };
  embed(n, decoded, std::nullopt);
}

}  // namespace

void add_microsoft_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"CDist", 1, convert_cdist, kMicrosoft},
      {"UnfoldTensor", 1, convert_unfold_tensor, kMicrosoft},
      {"Gelu", 1, [](NodeImport& n) { convert_gelu(n, false); }, kMicrosoft},
      {"BiasGelu", 1, [](NodeImport& n) { convert_gelu(n, false); }, kMicrosoft},
      {"FastGelu", 1, [](NodeImport& n) { convert_gelu(n, true); }, kMicrosoft},
      {"QuickGelu", 1, convert_quick_gelu, kMicrosoft},
      {"SkipLayerNormalization", 1, convert_skip_layer_norm, kMicrosoft},
      {"SkipSimplifiedLayerNormalization", 1, convert_skip_rms_norm, kMicrosoft},
      {"SimplifiedLayerNormalization", 1, convert_rms_norm},
      {"EmbedLayerNormalization", 1, convert_embed_layer_norm, kMicrosoft},
      {"QEmbedLayerNormalization", 1, convert_quantized_embed_layer_norm, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
