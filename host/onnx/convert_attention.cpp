// Attention and what belongs to it: rotary embeddings, caches of keys and values, FlexAttention.
#include <onnx/onnx_pb.h>

#include <limits>

#include "host/onnx/attention_core.h"
#include "host/onnx/converters.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/rotary.h"
#include "host/ops/elementwise.h"
#include "host/ops/scatter.h"

namespace gantry {
namespace {

/// The operands with an axis of heads, whether the node has them so or in one axis with the features.
AttentionCore read_operands(NodeImport& n) {
  AttentionCore core{Term::input(n, 0), Term::input(n, 1), Term::input(n, 2)};
  const int rank = core.query.rank();
  if (rank != core.key.rank() || rank != core.value.rank() || (rank != 3 && rank != 4))
    n.fail("its operands should all have 3 or all have 4 dimensions");
  if (rank == 4) return core;
  const int64_t query_heads = n.integer("q_num_heads", 0), key_heads = n.integer("kv_num_heads", 0);
  if (query_heads < 1 || key_heads < 1) n.fail("operands of 3 dimensions need q_num_heads and kv_num_heads");
  core.query = split_heads(core.query, query_heads);
  core.key = split_heads(core.key, key_heads);
  core.value = split_heads(core.value, key_heads);
  return core;
}

void check_heads(NodeImport& n, const AttentionCore& core) {
  const Dim &queries = core.query.dim(1), &keys = core.key.dim(1);
  if (!keys.is_constant() || !queries.is_constant()) return;
  if (keys.value() < 1 || queries.value() % keys.value() != 0)
    n.fail("{} heads of queries do not share {} heads of keys", queries.str(), keys.str());
}

/// What is given after what was kept; the keys that were kept.
Dim append_past(NodeImport& n, AttentionCore& core) {
  if (n.has(4) != n.has(5)) n.fail("past_key and past_value belong together");
  if (!n.has(4)) return 0;
  const Term past_key = Term::input(n, 4), past_value = Term::input(n, 5);
  core.key = concatenated({past_key, core.key}, 2);
  core.value = concatenated({past_value, core.value}, 2);
  return past_key.dim(2);
}

/// A mask may be of fewer keys than there are: the others are not attended. In operator set 23 one of a
/// single key is broadcast, and one of an open number of keys is of all of them or of one.
Term widened_mask(AttentionCore& core, const Term& mask) {
  NodeImport& n = mask.node();
  const Dim have = mask.dim(-1), keys = core.key.dim(2);
  if (have == Dim(1) && n.opset() >= 24 && !(keys == Dim(1))) {
    restrict(core.allowed, less(Term::range(n, keys), Term::number(n, DType::kI64, 1)));
    return mask;
  }
  const bool open = !(have.is_constant() && keys.is_constant());
  if (have == keys || have == Dim(1) || (open && n.opset() < 24)) return mask;
  if (!open && have.value() > keys.value())
    n.fail("its mask {} is of {} keys, and there are {}", n.type(3).str(), have.str(), keys.str());
  Shape rest = mask.shape();
  rest.back() = larger(keys - have, 0);
  const bool boolean = mask.dtype() == DType::kBool;
  const double never = boolean ? 0 : -std::numeric_limits<double>::infinity();
  const Term widened = concatenated({mask, Term::filled(n, mask.dtype(), never, rest)}, -1);
  require_at_most(n, have, keys);
  return widened.sliced(-1, 0, keys);  // for the sizes that are taken it is of no more
}

void read_mask(NodeImport& n, AttentionCore& core) {
  if (!n.has(3)) return;
  Term mask = Term::input(n, 3);
  if (mask.rank() == 0) mask = mask.reshaped({1});
  core.may_have_empty_rows = true;
  if (mask.dtype() == DType::kBool) {
    restrict(core.allowed, widened_mask(core, mask));
  } else {
    core.bias = widened_mask(core, is_float(mask.dtype()) ? mask : mask.cast(core.query.dtype()));
  }
}

/// Causality, windows, and keys that only fill up a cache (nonpad_kv_seqlen of them count).
void restrict_by_position(NodeImport& n, AttentionCore& core, const Dim& past) {
  AttentionWindow window{core.query.dim(2), core.key.dim(2), past};
  const auto bound = [&](const char* name) {
    const int64_t given = n.opset() >= 25 ? n.integer(name, -1) : -1;
    if (given < -1) n.fail("its {} is {}", name, given);
    return given;
  };
  window.left = bound("left_window_size");
  window.right = bound("right_window_size");
  if (n.integer("is_causal", 0) != 0) window.right = 0;
  if (n.has(6)) {
    if (n.has(4)) n.fail("nonpad_kv_seqlen does not go with past keys");
    const Term counted = Term::input(n, 6).cast(DType::kI64);
    window.offsets = counted - Term::range(n, 1, core.query.dim(2));
    core.may_have_empty_rows = true;
    restrict(core.allowed,
             less(Term::range(n, core.key.dim(2)), counted.reshaped({counted.dim(0), 1, 1, 1})));
  }
  if (window.left >= 0) core.may_have_empty_rows = true;
  if (const auto allowed = window_mask(n, window)) restrict(core.allowed, *allowed);
}

double scale_of(NodeImport& n, const AttentionCore& core) {
  return n.has_attribute("scale") ? n.number("scale", 1) : usual_scale(core.query);
}

void convert_attention(NodeImport& n) {
  AttentionCore core = read_operands(n);
  const bool flat = n.rank(0) == 3;
  check_heads(n, core);
  const Dim past = append_past(n, core);
  core.scale = scale_of(n, core);
  core.softcap = n.number("softcap", 0);
  if (n.has_attribute("softmax_precision")) core.precision = n.element_type("softmax_precision");
  read_mask(n, core);
  restrict_by_position(n, core, past);
  const AttentionStages stages = attention_stages(core);
  n.set(0, flat ? merge_heads(stages.result) : stages.result);
  if (n.wants(1)) n.set(1, core.key);
  if (n.wants(2)) n.set(2, core.value);
  if (!n.wants(3)) return;
  const int64_t mode = n.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) n.fail("its qk_matmul_output_mode is {}", mode);
  const Term shown[] = {stages.scores, stages.capped, stages.masked, stages.weights};
  n.set(3, shown[mode]);
}

/// A change of scores or weights that the node has as a graph of one input and one output.
std::function<Term(const Term&)> modifier(NodeImport& n, const char* name) {
  if (!n.has_attribute(name)) return {};
  return [&n, name](const Term& x) {
    const std::vector<Value*> results = n.call_graph(n.graph(name), {x});
    if (results.size() != 1) n.fail("its {} should have one output", name);
    return Term(n, results[0]);
  };
}

void convert_flex_attention(NodeImport& n) {
  AttentionCore core{Term::input(n, 0), Term::input(n, 1), Term::input(n, 2)};
  if (core.query.rank() != 4) n.fail("its operands should have 4 dimensions");
  check_heads(n, core);
  core.scale = scale_of(n, core);
  const DType own = core.query.dtype();
  core.precision = n.has_attribute("softmax_precision") ? n.element_type("softmax_precision")
                   : own == DType::kF64                 ? own
                                                        : DType::kF32;
  core.change_scores = modifier(n, "score_mod");
  core.change_weights = modifier(n, "prob_mod");
  n.set(0, attention_stages(core).result);
}

void convert_rotary_embedding(NodeImport& n) {
  const Term x = Term::input(n, 0);
  Rotation rotation{Term::input(n, 1), Term::input(n, 2)};
  if (n.has(3)) {
    const Term positions = Term::input(n, 3);
    rotation.cosine = gather(rotation.cosine, positions, 0);
    rotation.sine = gather(rotation.sine, positions, 0);
  }
  rotation.interleaved = n.integer("interleaved", 0) != 0;
  rotation.size = n.integer("rotary_embedding_dim", 0);
  if (x.rank() == 4) return n.set(0, rotated(x, rotation, 2, 3));
  const int64_t heads = n.integer("num_heads", 0);
  if (x.rank() != 3 || heads < 1) n.fail("data {} of 3 dimensions needs num_heads", n.type(0).str());
  const Term split = x.reshaped({x.dim(0), x.dim(1), heads, floordiv(x.dim(2), heads)});
  n.set(0, rotated(split, rotation, 1, 3).reshaped(x.shape()));
}

/// The cache with the update written at a position of its own for every sequence, along `axis`.
void convert_tensor_scatter(NodeImport& n) {
  const Term cache = Term::input(n, 0), update = Term::input(n, 1);
  const int64_t axis = n.axis(n.integer("axis", -2), cache.rank());
  if (axis == 0 || update.rank() != cache.rank())
    n.fail("does not write {} into {}", n.type(1).str(), n.type(0).str());
  const std::string mode = n.text("mode", "linear");
  if (mode != "linear" && mode != "circular") n.fail("its mode is '{}', not linear or circular", mode);
  // Along the axis, positions of the update; along the first, sequences; broadcast over the others.
  Shape along(static_cast<size_t>(cache.rank()), 1);
  along[static_cast<size_t>(axis)] = update.dim(axis);
  Term position = Term::range(n, update.dim(axis)).reshaped(along);
  if (n.has(2)) {
    Shape sequences(static_cast<size_t>(cache.rank()), 1);
    sequences[0] = cache.dim(0);
    position = position + Term::input(n, 2).cast(DType::kI64).reshaped(sequences);
  }
  if (mode == "circular") {
    const Term extent = Term::range(n, 1, cache.dim(axis));
    position = Term(n, n.add(op::mod, {position, extent}));
  }
  auto attrs = std::make_shared<ScatterAttrs>();
  attrs->axis = axis;
  n.set(0, n.add(op::scatter_elements, {cache, position.broadcast(update.shape()), update}, attrs));
}

}  // namespace

void add_attention_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"Attention", 23, convert_attention},
      {"RotaryEmbedding", 23, convert_rotary_embedding},
      {"TensorScatter", 24, convert_tensor_scatter},
      {"FlexAttention", 1, convert_flex_attention, "ai.onnx.preview"},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
