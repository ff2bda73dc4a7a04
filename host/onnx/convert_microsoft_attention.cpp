// The attentions of com.microsoft. Semantics: ONNX Runtime's documentation of its contrib operators.
#include <fmt/ranges.h>

#include <algorithm>

#include "host/onnx/attention_core.h"
#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/normalise.h"
#include "host/onnx/projected_attention.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/rotary.h"
#include "host/ops/scatter.h"

namespace gantry {
namespace {

int64_t heads_of(NodeImport& n, const char* name) {
  const int64_t heads = n.integer(name, 0);
  if (heads < 1) n.fail("its {} is {}", name, heads);
  return heads;
}

/// (B, L, heads * size) -> (B, heads, L, size); (B, heads, L, size) as it is.
Term with_heads(const Term& x, int64_t heads) {
  if (x.rank() == 4) return x;
  if (x.rank() != 3) x.node().fail("an operand {} should have 3 dimensions", to_string(x.shape()));
  return split_heads(x, heads);
}

double scale_of(NodeImport& n, const Term& query) {
  const double given = n.number("scale", 0);
  return given != 0 ? given : usual_scale(query);
}

void add_bias(AttentionCore& core, const Term& bias) {
  core.bias = core.bias ? *core.bias + bias : bias;
}

/// A mask of keys, by its shape: (B) counts those that matter, (2 * B) has where those end and then where
/// they begin, (B, T) has 0 for those that do not, (B, L, T) the same for every query.
void read_key_mask(NodeImport& n, AttentionCore& core, size_t input) {
  if (!n.has(input)) return;
  const Term mask = Term::input(n, input);
  const Dim keys = core.key.dim(2);
  Shape shape = mask.shape();
  std::optional<Term> counts;
  const Dim batch = core.query.dim(0);
  if (mask.rank() == 1 && mask.dim(0) == batch * 2) {
    const auto bound = [&](const Dim& begin, const Dim& end) {
      return mask.sliced(0, begin, end).cast(DType::kI64).reshaped({batch, 1, 1, 1});
    };
    const Term places = Term::range(n, keys);
    counts = both(less(places, bound(0, batch)), less_equal(bound(batch, batch * 2), places));
  } else if (mask.rank() == 1 && !provably_different(mask.dim(0), batch)) {
    const Term lengths = mask.cast(DType::kI64).reshaped({mask.dim(0), 1, 1, 1});
    counts = less(Term::range(n, keys), lengths);
  } else if (mask.rank() == 2) {
    counts = less(mask.number_like(0), mask).reshaped({shape[0], 1, 1, shape[1]});
  } else if (mask.rank() == 3) {
    counts = less(mask.number_like(0), mask).reshaped({shape[0], 1, shape[1], shape[2]});
  } else {
    n.unsupported(UnsupportedKind::kValueKind, "a mask of the shape {}", to_string(shape));
  }
  const double filter = n.number("mask_filter_value", -10000);
  add_bias(core, where(*counts, 0, Term::number(n, DType::kF32, filter)).cast(core.query.dtype()));
}

/// Keys and values after those of the past.
Dim append(AttentionCore& core, const Term& past_key, const Term& past_value) {
  core.key = concatenated({past_key, core.key}, 2);
  core.value = concatenated({past_value, core.value}, 2);
  return past_key.dim(2);
}

void make_causal(NodeImport& n, AttentionCore& core, const Dim& past) {
  if (n.integer("unidirectional", 0) == 0) return;
  AttentionWindow window{core.query.dim(2), core.key.dim(2), past};
  window.right = 0;
  if (const auto allowed = window_mask(n, window)) restrict(core.allowed, *allowed);
}

/// Tensor i of those that are packed for each head, (B, L, heads, count, size), as (B, L, heads * size).
Term unpacked(const Term& packed, int64_t i, int64_t count) {
  require_equal(packed.node(), packed.dim(3), count, "its packed {} should have {} tensors for each head",
                to_string(packed.shape()), count);
  return packed.sliced(3, i, i + 1).reshaped({packed.dim(0), packed.dim(1), packed.dim(2) * packed.dim(4)});
}

struct Projections {
  Term query, key, value;  ///< (B, L, heads * size); key and value may have an axis of heads already
};

/// With the bias (query + key + value), of which what has an axis of heads takes no part.
Projections with_bias(const Projections& given, const Term& bias) {
  NodeImport& n = bias.node();
  const Term& value = given.value;
  if (bias.rank() != 1) n.fail("its bias {} should be a vector", to_string(bias.shape()));
  if (value.rank() != 3 && value.rank() != 4)
    n.fail("its value {} should have 3 dimensions", to_string(value.shape()));
  const Dim size = given.query.dim(2);
  const Dim values = value.rank() == 3 ? value.dim(2) : value.dim(1) * value.dim(3);
  const Dim all = size * 2 + values;
  require_equal(n, bias.dim(0), all, "its bias {} should have {} elements", to_string(bias.shape()),
                all.str());
  Projections sums = given;
  sums.query = sums.query + bias.sliced(0, 0, size);
  if (sums.key.rank() == 3) sums.key = sums.key + bias.sliced(0, size, size * 2);
  if (value.rank() == 3) sums.value = sums.value + bias.sliced(0, size * 2, all);
  return sums;
}

/// Inputs: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value. Key and value, or
/// all three, may be packed into one.
void convert_multi_head_attention(NodeImport& n) {
  const int64_t heads = heads_of(n, "num_heads");
  if (n.has(8) || n.has(9)) n.unsupported(UnsupportedKind::kValueKind, "indirection of its cache");
  Term query = Term::input(n, 0), key = n.has(1) ? Term::input(n, 1) : query,
       value = n.has(2) ? Term::input(n, 2) : key;
  const Term& packed = n.has(1) ? key : query;
  if (!n.has(2) && packed.rank() != 5) n.fail("has no value, and nothing that it could be packed into");
  const int64_t count = n.has(1) ? 2 : 3;
  if (value.rank() == 5) value = unpacked(value, count - 1, count);
  if (key.rank() == 5) key = unpacked(key, count - 2, count);
  if (query.rank() == 5) query = unpacked(query, 0, 3);
  if (query.rank() != 3) n.fail("its query {} should have 3 dimensions, or 5", n.type(0).str());
  Projections all{query, key, value};
  if (n.has(3)) all = with_bias(all, Term::input(n, 3));
  AttentionCore core{split_heads(all.query, heads), with_heads(all.key, heads), with_heads(all.value, heads)};
  core.scale = scale_of(n, core.query);
  const Dim past = n.has(6) && n.has(7) ? append(core, Term::input(n, 6), Term::input(n, 7)) : Dim(0);
  read_key_mask(n, core, 4);
  if (n.has(5)) add_bias(core, Term::input(n, 5));
  make_causal(n, core, past);
  const AttentionStages stages = attention_stages(core);
  n.set(0, merge_heads(stages.result));
  if (n.wants(1)) n.set(1, core.key);
  if (n.wants(2)) n.set(2, core.value);
  if (n.wants(3)) n.set(3, stages.scores);
}

/// The attribute qkv_hidden_sizes, of 3 entries, divides the projections (B, L, query + key + value).
void require_sizes(const Term& projected, const std::vector<int64_t>& sizes) {
  NodeImport& n = projected.node();
  constexpr int64_t kMost = int64_t{1} << 40;  // so that their sum is a number of i64
  const std::string listed = fmt::format("{}", fmt::join(sizes, ", "));
  if (std::ranges::any_of(sizes, [](int64_t size) { return size < 1 || size > kMost; }))
    n.fail("its qkv_hidden_sizes [{}] make no sense", listed);
  require_equal(n, projected.dim(-1), sizes[0] + sizes[1] + sizes[2],
                "its qkv_hidden_sizes [{}] do not make the {} of its weight", listed,
                projected.dim(-1).str());
}

/// Projections of one input, and their attention: inputs data, weight, bias, mask, past, attention_bias.
void convert_attention(NodeImport& n) {
  Term projected(n, matrix_product(n, n.input(0), n.input(1)));
  if (n.has(2)) projected = projected + Term::input(n, 2);
  const std::vector<int64_t> sizes = n.integer_list("qkv_hidden_sizes");
  if (!sizes.empty() && sizes.size() != 3) n.fail("its qkv_hidden_sizes should have 3 entries");
  ProjectedAttention attention{projected, 3, 4};
  if (!sizes.empty()) {
    require_sizes(projected, sizes);
    attention.query_size = sizes[0];
    attention.key_size = sizes[1];
  }
  if (n.has(5)) attention.bias = Term::input(n, 5);
  convert_projected_attention(n, attention);
}

/// What sequence b has with these queries, (B) i64: seqlens_k + 1.
Term total_lengths(NodeImport& n) {
  const Term totals = Term::input(n, 5).cast(DType::kI64);
  return totals.reshaped({element_count(totals.shape())}) + 1;
}

/// What it has before them, (B) i64: all but the queries, of which query_seqlens says how many there are
/// before the padding; nothing where there is no cache yet, when a sequence may have fewer than there are
/// queries: those behind its end fill up the batch.
Term past_lengths(NodeImport& n, const Dim& cached, const Dim& queries) {
  const Term totals = total_lengths(n);
  if (cached == Dim(0)) return totals * 0;
  const Term added =
      n.has(16) ? Term::input(n, 16).cast(DType::kI64).reshaped(totals.shape()) : Term::range(n, 1, queries);
  return maximum(totals - added, 0);
}

/// Queries attend what is before them, as far as the window reaches; without the attribute causal all that
/// their sequence has.
void restrict_keys(NodeImport& n, AttentionCore& core, const Term& past) {
  const int64_t causal = n.integer("causal", 1), local = n.integer("local_window_size", -1);
  if (causal != 0 && causal != 1) n.fail("its causal is {}, not 0 or 1", causal);
  if (causal == 0) {
    if (local > 0 || n.has(16))
      n.fail("has a {}, which needs its causal to be 1", local > 0 ? "local_window_size" : "query_seqlens");
    const Term totals = total_lengths(n).reshaped({past.dim(0), 1, 1, 1});
    return restrict(core.allowed, less(Term::range(n, core.key.dim(2)), totals));
  }
  AttentionWindow window{core.query.dim(2), core.key.dim(2)};
  window.offsets = past;
  window.right = 0;
  window.left = local > 0 ? local - 1 : -1;
  if (const auto allowed = window_mask(n, window)) restrict(core.allowed, *allowed);
}

/// A key without a value, whose score is that number for each head: it takes part of the weights away.
void add_sink(AttentionCore& core, const Term& score) {
  core.change_scores = [score](const Term& scores) {
    Shape shape = scores.shape();
    shape.back() = 1;
    return concatenated({scores, score.cast(scores.dtype()).broadcast(shape)}, -1);
  };
  core.change_weights = [](const Term& weights) { return weights.sliced(-1, 0, weights.dim(-1) - 1); };
}

/// The cache (B, heads, P, size) with room for the new rows, each sequence's after what it has.
Term with_new_rows(const Term& cache, const Term& rows, const Term& past) {
  NodeImport& n = rows.node();
  if (cache.dim(2) == Dim(0)) return rows;
  const Term room = Term::filled(n, rows.dtype(), 0, rows.shape());
  const Term wide = concatenated({cache, room}, 2);
  const Term at =
      past.reshaped({past.dim(0), 1, 1, 1}) + Term::range(n, rows.dim(2)).reshaped({rows.dim(2), 1});
  auto attrs = std::make_shared<ScatterAttrs>();
  attrs->axis = 2;
  return {n, n.add(op::scatter_elements, {wide, at.broadcast(rows.shape()), rows}, attrs)};
}

/// What the attribute qk_output asks for, (B, heads, L, S), with 0 for keys that are not attended: scores
/// with the soft cap and the bias, or the weights.
Term looked_at(NodeImport& n, const AttentionCore& core, const AttentionStages& stages) {
  const int64_t mode = n.integer("qk_output", 0);
  if (mode != 1 && mode != 2)
    n.fail("has the output output_qk, for which its qk_output should be 1 or 2, not {}", mode);
  if (mode == 2) return stages.weights;
  return core.allowed ? where(*core.allowed, stages.masked, 0) : stages.masked;
}

/// What later versions of ONNX Runtime have added to the op.
void refuse_additions(NodeImport& n) {
  if (n.has(12) || n.has(13)) n.unsupported(UnsupportedKind::kValueKind, "quantised cache");
  if (n.integer("sliding_window_cache", 0) != 0)
    n.unsupported(UnsupportedKind::kAttribute, "sliding_window_cache");
}

/// Each head's features (B, heads, L, size) over the root of their mean square, times the weights (size) of
/// that input; as they are where the node has none.
Term normalised_heads(const Term& x, size_t weight, const char* epsilon) {
  NodeImport& n = x.node();
  if (!n.has(weight)) return x;
  const Term scale = Term::input(n, weight);
  if (scale.rank() != 1 || provably_different(scale.dim(0), x.dim(3)))
    n.fail("its weights {} of a norm should have the size of a head, {}", to_string(scale.shape()),
           x.dim(3).str());
  const Term wide = rms_normalised(x.widened(), 3, n.number(epsilon, n.number("qk_norm_epsilon", 1e-6)));
  return (wide * scale.cast(wide.dtype())).cast(x.dtype());
}

/// Inputs: query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache,
/// position_ids, attention_bias, head_sink, and from 14 on q_norm_weight, k_norm_weight, query_seqlens. The
/// result's cache is as long as the past's and the new rows together.
void convert_group_query_attention(NodeImport& n) {
  refuse_additions(n);
  const int64_t heads = heads_of(n, "num_heads"), key_heads = heads_of(n, "kv_num_heads");
  const Term given = Term::input(n, 0);
  const bool packed = !n.has(1);
  const Dim size = packed ? floordiv(given.dim(2), heads + 2 * key_heads) : floordiv(given.dim(2), heads);
  const Dim query_end = size * heads, key_end = query_end + size * key_heads;
  Term query = split_heads(packed ? given.sliced(2, 0, query_end) : given, heads);
  Term key = split_heads(packed ? given.sliced(2, query_end, key_end) : Term::input(n, 1), key_heads);
  const Term value =
      split_heads(packed ? given.sliced(2, key_end, given.dim(2)) : Term::input(n, 2), key_heads);
  if (n.has(14) != n.has(15))
    n.fail("has {} but not {}: its queries and keys are normalised together",
           n.has(14) ? "q_norm_weight" : "k_norm_weight", n.has(14) ? "k_norm_weight" : "q_norm_weight");
  query = normalised_heads(query, 14, "q_norm_epsilon");
  key = normalised_heads(key, 15, "k_norm_epsilon");
  if (n.has(16) && !(n.has(3) && n.has(4))) n.fail("has query_seqlens, but no past_key and past_value");
  for (const size_t past : {3, 4}) {
    if (n.has(past) && n.rank(past) != 4)
      n.fail("its past_{} {} should have 4 dimensions", past == 3 ? "key" : "value", n.type(past).str());
  }
  const Dim cached = n.has(3) ? n.type(3).shape[2] : Dim(0);
  const Term past = past_lengths(n, cached, query.dim(2));
  if (n.integer("do_rotary", 0) != 0) {
    expect_tables(n, 7);
    const Term steps = Term::range(n, query.dim(2));
    const Term positions =
        n.has(9) ? Term::input(n, 9).cast(DType::kI64) : past.reshaped({past.dim(0), 1}) + steps;
    const Rotation rotation{gather(Term::input(n, 7), positions, 0), gather(Term::input(n, 8), positions, 0),
                            n.integer("rotary_interleaved", 0) != 0,
                            n.type(7).shape.at(1).is_constant() ? 2 * n.type(7).shape[1].value() : 0};
    query = rotated(query, rotation, 2, 3);
    key = rotated(key, rotation, 2, 3);
  }
  AttentionCore core{query, n.has(3) ? with_new_rows(Term::input(n, 3), key, past) : key,
                     n.has(4) ? with_new_rows(Term::input(n, 4), value, past) : value};
  core.scale = scale_of(n, query);
  core.softcap = n.number("softcap", 0);
  restrict_keys(n, core, past);
  if (n.has(10)) add_bias(core, Term::input(n, 10));
  if (n.has(11))
    add_sink(core, Term::input(n, 11).reshaped({heads, 1, 1}));
  else if (n.integer("smooth_softmax", 0) > 0)
    add_sink(core, Term::number(n, DType::kF32, 0));
  const AttentionStages stages = attention_stages(core);
  n.set(0, merge_heads(stages.result));
  if (n.wants(1)) n.set(1, core.key);
  if (n.wants(2)) n.set(2, core.value);
  if (n.wants(3)) n.set(3, looked_at(n, core, stages));
}

}  // namespace

void convert_projected_attention(NodeImport& n, const ProjectedAttention& attention) {
  const int64_t heads = heads_of(n, "num_heads");
  if (n.integer("do_rotary", 0) != 0) n.unsupported(UnsupportedKind::kAttribute, "do_rotary");
  const Term& projected = attention.projected;
  if (projected.rank() != 3) n.fail("its data {} should have 3 dimensions", n.type(0).str());
  const Dim all = projected.dim(2), third = floordiv(all, 3);
  const Dim query_end = attention.query_size.value_or(third);
  const Dim key_end = query_end + attention.key_size.value_or(third);
  AttentionCore core{split_heads(projected.sliced(2, 0, query_end), heads),
                     split_heads(projected.sliced(2, query_end, key_end), heads),
                     split_heads(projected.sliced(2, key_end, all), heads)};
  core.scale = scale_of(n, core.query);
  Dim past = 0;
  if (n.has(attention.past)) {
    if (n.integer("past_present_share_buffer", 0) != 0)
      n.unsupported(UnsupportedKind::kAttribute, "past_present_share_buffer");
    const Term kept = Term::input(n, attention.past);
    require_equal(n, kept.dim(0), 2, "its past {} should be of keys and values", to_string(kept.shape()));
    past = append(core, kept.sliced(0, 0, 1).squeezed(0), kept.sliced(0, 1, 2).squeezed(0));
  }
  read_key_mask(n, core, attention.mask);
  if (attention.bias) add_bias(core, *attention.bias);
  make_causal(n, core, past);
  n.set(0, merge_heads(attention_stages(core).result));
  if (n.wants(1)) n.set(1, concatenated({core.key.unsqueezed(0), core.value.unsqueezed(0)}, 0));
}

void add_microsoft_attention_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"MultiHeadAttention", 1, convert_multi_head_attention, kMicrosoft},
      {"Attention", 1, convert_attention, kMicrosoft},
      {"GroupQueryAttention", 1, convert_group_query_attention, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
