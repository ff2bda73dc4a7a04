// Scaled dot-product attention, as the ops of several domains have it: what is common to them.
#pragma once

#include <functional>
#include <optional>

#include "host/onnx/term.h"

namespace gantry {

/// (batch, length, heads * size) -> (batch, heads, length, size), and back.
Term split_heads(const Term& x, int64_t heads);
Term merge_heads(const Term& x);

/// What softmax is taken of, and what becomes of it. Shapes: B sequences, H heads of queries, G of keys and
/// values (H a multiple of G; query head h attends key head h / (H / G)), L queries, S keys.
struct AttentionCore {
  Term query, key, value;  ///< (B, H, L, D), (B, G, S, D), (B, G, S, E)
  double scale = 1;
  double softcap = 0;              ///< 0: none; else scores are softcap * tanh(scores / softcap)
  std::optional<Term> bias;        ///< added to the scores: floats that broadcast to (B, H, L, S)
  std::optional<Term> allowed;     ///< bools that broadcast to (B, H, L, S): others get no weight
  std::optional<DType> precision;  ///< of the softmax; none: that of the query
  /// A row whose weights all are 0 yields 0; else it must not occur.
  bool may_have_empty_rows = false;
  /// What comes between scores and softmax, and after the softmax, in its dtype.
  std::function<Term(const Term&)> change_scores, change_weights;
};

/// Results of the stages, (B, H, L, S) each, and the result (B, H, L, E). All but the result are there to be
/// looked at, and cost nothing where nobody does.
struct AttentionStages {
  Term scores, capped, masked, weights, result;
};

AttentionStages attention_stages(const AttentionCore& core);

/// The usual scale, 1 / sqrt(D): unsupported where the size of a head, the last dimension, is not known.
double usual_scale(const Term& query);

/// Adds a condition to those that are there already.
void restrict(std::optional<Term>& allowed, const Term& condition);

/// Keys that a query may attend by their positions, as a bool (…, L, S): the query at position p = offset +
/// its row attends [p - left, p + right]; -1: no bound on that side. The offset is one for all, or (B) of
/// i64.
struct AttentionWindow {
  Dim queries, keys;
  Dim offset = 0;
  std::optional<Term> offsets;
  int64_t left = -1, right = -1;
};
/// Nothing where there is no bound.
std::optional<Term> window_mask(NodeImport& n, const AttentionWindow& window);

}  // namespace gantry
