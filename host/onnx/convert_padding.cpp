// com.microsoft's RemovePadding and RestorePadding: sequences without what fills up their batch. Semantics:
// ONNX Runtime's documentation of its contrib operators.
#include "host/onnx/converters.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"
#include "host/ops/reduce.h"
#include "host/ops/scatter.h"
#include "host/ops/sort.h"

namespace gantry {
namespace {

/// Places of tokens in the batch (B * L), those that count first, each kind in its order. Sequence b has
/// counts[b] tokens, which are in front.
Term places_of_tokens(const Term& counts, const Dim& length) {
  NodeImport& n = counts.node();
  const Dim batch = counts.dim(0), all = batch * length;
  const Term fills = less_equal(counts.unsqueezed(1), Term::range(n, length));  // (B, L)
  auto attrs = std::make_shared<TopKAttrs>();
  attrs->k = all;
  attrs->largest = false;
  return {n, n.add_many(op::topk, {fills.cast(DType::kI32).reshaped({all})}, attrs)[1]};
}

/// 0, and the sums of the first 1, 2, … counts: (B + 1).
Term ends_of_sequences(const Term& counts) {
  NodeImport& n = counts.node();
  const Term sums(n, n.add(op::cumsum, {counts}, std::make_shared<CumsumAttrs>()));
  return concatenated({Term::filled(n, counts.dtype(), 0, {1}), sums}, 0);
}

/// Inputs: data (B, L, size), and how many tokens of each sequence count (B). Results: those tokens (count,
/// size), places of tokens (B, L), where sequences end (B + 1), and the most tokens of one (1).
void convert_remove_padding(NodeImport& n) {
  const Term x = Term::input(n, 0), given = Term::input(n, 1);
  if (x.rank() != 3 || given.rank() != 1 || provably_different(x.dim(0), given.dim(0)))
    n.fail("its data {} and counts of tokens {} should be (batch, length, size) and (batch)", n.type(0).str(),
           n.type(1).str());
  const Dim batch = x.dim(0), length = x.dim(1);
  const Term whole = given.cast(DType::kI64);
  const Term counts = minimum(maximum(whole, 0), Term::dimensions(n, {length}));
  const Term places = places_of_tokens(counts, length);
  const Dim total = n.bind(sum(counts, {}), "tokens")[0];
  n.set(0, gather(x.reshaped({batch * length, x.dim(2)}), places.sliced_inside(0, 0, total), 0));
  n.set(1, places.reshaped({batch, length}).cast(given.dtype()));
  n.set(2, ends_of_sequences(counts).cast(given.dtype()));
  n.set(3, largest(counts, {0}, KeepAxes::kYes).cast(given.dtype()));
}

/// Inputs: tokens (count, size) and the places of tokens (B, L). Others are zeros.
void convert_restore_padding(NodeImport& n) {
  const Term x = Term::input(n, 0), given = Term::input(n, 1);
  if (x.rank() != 2 || given.rank() != 2)
    n.fail("its tokens {} and places {} should be (count, size) and (batch, length)", n.type(0).str(),
           n.type(1).str());
  const Dim all = given.dim(0) * given.dim(1);
  require_at_most(n, x.dim(0), all);
  const Term places = given.cast(DType::kI64).reshaped({all}).sliced(0, 0, x.dim(0)).unsqueezed(1);
  const Term none = Term::filled(n, x.dtype(), 0, {all, x.dim(1)});
  const Term y(n, n.add(op::scatter_nd, {none, places, x}, std::make_shared<ScatterAttrs>()));
  n.set(0, y.reshaped({given.dim(0), given.dim(1), x.dim(1)}));
}

}  // namespace

void add_padding_converters(ConverterTable& table) {
  table.push_back({"RemovePadding", 1, convert_remove_padding, kMicrosoft});
  table.push_back({"RestorePadding", 1, convert_restore_padding, kMicrosoft});
}

}  // namespace gantry
