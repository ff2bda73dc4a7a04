#include "host/onnx/attention_core.h"

#include <cmath>
#include <limits>

namespace gantry {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Queries of the heads that share a head of keys are rows of one matrix: (B, H, L, D) -> (B, G, H / G * L,
/// D).
Term by_key_head(const Term& x, const Dim& key_heads) {
  if (x.dim(1) == key_heads) return x;
  return x.reshaped({x.dim(0), key_heads, floordiv(x.dim(1), key_heads) * x.dim(2), x.dim(3)});
}
Term by_query_head(const Term& x, const Term& query) {
  if (x.dim(1) == query.dim(1)) return x;
  return x.reshaped({x.dim(0), query.dim(1), query.dim(2), x.dim(3)});
}

/// The scores with masks and biases.
Term masked_scores(const AttentionCore& core, Term scores) {
  if (core.bias) scores = scores + core.bias->cast(scores.dtype());
  if (core.allowed) scores = where(*core.allowed, scores, kNever);
  return scores;
}

/// Softmax over keys; rows of nothing but minus infinities are 0 where that may be.
Term weights_of(const AttentionCore& core, const Term& masked) {
  Term scores = core.precision ? masked.cast(*core.precision) : masked;
  if (core.change_scores) scores = core.change_scores(scores);
  Term weights = softmax(scores, -1);
  if (core.may_have_empty_rows) {
    const Term top = largest(scores, {-1}, KeepAxes::kYes);
    weights = where(equal(top, top.number_like(kNever)), 0, weights);
  }
  return core.change_weights ? core.change_weights(weights) : weights;
}

}  // namespace

Term split_heads(const Term& x, int64_t heads) {
  const Dim size = floordiv(x.dim(2), heads);
  return x.reshaped({x.dim(0), x.dim(1), heads, size}).transposed({0, 2, 1, 3});
}

Term merge_heads(const Term& x) {
  return x.transposed({0, 2, 1, 3}).reshaped({x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

void restrict(std::optional<Term>& allowed, const Term& condition) {
  allowed = allowed ? both(*allowed, condition) : condition;
}

AttentionStages attention_stages(const AttentionCore& core) {
  const Term query = by_key_head(core.query, core.key.dim(1));
  const Term scores = by_query_head(matmul_transposed(query * core.scale, core.key), core.query);
  const Term capped = core.softcap > 0 ? tanh(scores / core.softcap) * core.softcap : scores;
  const Term masked = masked_scores(core, capped);
  const Term weights = weights_of(core, masked).cast(core.query.dtype());
  const Term shared = by_key_head(weights, core.key.dim(1));
  Term result = by_query_head(matmul(shared, core.value.cast(weights.dtype())), core.query);
  return {scores, capped, masked, weights, result};
}

double usual_scale(const Term& query) {
  const Dim& size = query.dim(-1);
  if (!size.is_constant()) query.node().unsupported(UnsupportedKind::kRunTimeValue, "size of a head");
  return 1 / std::sqrt(static_cast<double>(size.value()));
}

std::optional<Term> window_mask(NodeImport& n, const AttentionWindow& window) {
  if (window.left < 0 && window.right < 0) return std::nullopt;
  Term position = Term::range(n, window.queries, window.offset).reshaped({window.queries, 1});
  if (window.offsets) position = position + window.offsets->reshaped({window.offsets->dim(0), 1, 1, 1});
  const Term key = Term::range(n, window.keys);
  std::optional<Term> allowed;
  if (window.right >= 0) {
    const Term last = window.right == 0 ? position : position + static_cast<double>(window.right);
    restrict(allowed, less_equal(key, last));
  }
  if (window.left >= 0) {
    const Term first = window.left == 0 ? position : position - static_cast<double>(window.left);
    restrict(allowed, less_equal(first, key));
  }
  return allowed;
}

}  // namespace gantry
