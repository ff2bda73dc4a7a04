// Attention without a softmax, and the convolution that networks with it put before it.
#include "host/onnx/attention_core.h"
#include "host/onnx/converters.h"
#include "host/ops/activation.h"
#include "host/ops/conv.h"
#include "host/ops/linear_attention.h"

namespace gantry {
namespace {

/// (B, T, heads * features) -> (B, T, heads, features): a view.
Term with_heads(const Term& x, int64_t heads) {
  if (x.rank() != 3 || provably_different(mod(x.dim(2), heads), 0))
    x.node().fail("its input of {} dimensions does not have {} heads in its last", x.rank(), heads);
  return x.reshaped({x.dim(0), x.dim(1), heads, floordiv(x.dim(2), heads)});
}

struct UpdateRule {
  bool gated, corrects;
};
UpdateRule update_rule(NodeImport& n) {
  const std::string rule = n.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta",
             delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    n.fail("its update_rule is '{}', not linear, gated, delta or gated_delta", rule);
  if (gated != n.has(4) || delta != n.has(5))
    n.fail("its update_rule '{}' {} a decay and {} beta", rule, gated ? "needs" : "forbids",
           delta ? "needs" : "forbids");
  return {gated, delta};
}

Term operand(NodeImport& n, size_t i) {
  return Term::input(n, i).cast(DType::kF32);
}

/// query (B, T, heads of queries, D), key (B, T, heads, D).
void attend(NodeImport& n, const Term& query, const Term& key) {
  const int64_t heads = n.integer("kv_num_heads", 0);
  const Term value = with_heads(operand(n, 2), heads);
  const UpdateRule rule = update_rule(n);
  auto attrs = std::make_shared<LinearAttentionAttrs>();
  attrs->decays = rule.gated;
  attrs->corrects = rule.corrects;
  attrs->scale = n.number("scale", 0);
  if (attrs->scale == 0) attrs->scale = usual_scale(query);
  const Term state = n.has(3)
                         ? operand(n, 3)
                         : Term::filled(n, DType::kF32, 0, {key.dim(0), heads, key.dim(3), value.dim(3)});
  std::vector<Value*> inputs{query, key, value, state};
  if (rule.gated) inputs.push_back(with_heads(operand(n, 4), heads));
  if (rule.corrects) inputs.push_back(operand(n, 5));
  const std::vector<Value*> results = n.add_many(nn::linear_attention, inputs, attrs);
  const DType dtype = n.type(0).dtype;
  const Term output(n, results[0]), last(n, results[1]);
  n.set(0, output.reshaped({output.dim(0), output.dim(1), output.dim(2) * output.dim(3)}).cast(dtype));
  n.set(1, last.cast(n.has(3) ? n.type(3).dtype : dtype));
}

void convert_linear_attention(NodeImport& n) {
  const int64_t query_heads = n.integer("q_num_heads", 0), heads = n.integer("kv_num_heads", 0);
  if (heads < 1 || query_heads < heads || query_heads % heads != 0)
    n.fail("{} heads of queries do not share {} heads of keys", query_heads, heads);
  attend(n, with_heads(operand(n, 0), query_heads), with_heads(operand(n, 1), heads));
}

/// `heads` heads, of which as many neighbours are the same as there are times fewer in x (B, T, …, D).
Term shared_by(const Term& x, int64_t heads) {
  const Dim& count = x.dim(2);
  if (count == Dim(heads)) return x;
  if (!count.is_constant()) x.node().unsupported(UnsupportedKind::kRunTimeValue, "number of heads");
  if (count.value() < 1 || heads % count.value() != 0)
    x.node().fail("{} heads of queries or keys are not shared by {} heads", count.value(), heads);
  const Shape wide{x.dim(0), x.dim(1), count, heads / count.value(), x.dim(3)};
  return x.unsqueezed(3).broadcast(wide).reshaped({x.dim(0), x.dim(1), heads, x.dim(3)});
}

/// com.microsoft's may have fewer heads of queries than of values, and fewer of keys too, as many as its last
/// dimension has of the queries' size.
void convert_microsoft_linear_attention(NodeImport& n) {
  const int64_t query_heads = n.integer("q_num_heads", 0), heads = n.integer("kv_num_heads", 0);
  if (heads < 1 || query_heads < 1 || (query_heads % heads != 0 && heads % query_heads != 0))
    n.fail("{} heads of queries and {} heads of values do not share each other", query_heads, heads);
  if (n.integer("state_window", 0) != 0) n.unsupported(UnsupportedKind::kAttribute, "state_window");
  const Term query = with_heads(operand(n, 0), query_heads), packed = operand(n, 1);
  if (packed.rank() != 3) n.fail("its key {} should have 3 dimensions", n.type(1).str());
  const Dim key_heads = floordiv(packed.dim(2), query.dim(3));
  if (!key_heads.is_constant()) n.unsupported(UnsupportedKind::kRunTimeValue, "number of heads");
  if (key_heads.value() < 1)
    n.fail("its key {} has no head of {} elements", n.type(1).str(), query.dim(3).str());
  const Term key = with_heads(packed, key_heads.value());
  attend(n, query_heads < heads ? shared_by(query, heads) : query, shared_by(key, heads));
}

/// So that a window's extent is a number that i64 has.
constexpr int64_t kMostDilation = int64_t{1} << 31;

struct CausalConv {
  int64_t dilation = 1;
  bool channels_last = false;  ///< data and states (B, L, channels…) rather than (B, channels, L)
};

/// A window of each channel over what came before: the data after past_state, or after zeros.
void convolve_causally(NodeImport& n, const CausalConv& conv) {
  const Term given = Term::input(n, 0), weight = Term::input(n, 1);
  if (given.rank() < 3 || (given.rank() > 3 && !conv.channels_last) || weight.rank() != 3)
    n.fail("its data {} and weight {} should have 3 dimensions", n.type(0).str(), n.type(1).str());
  if (!weight.dim(0).is_constant() || !weight.dim(2).is_constant())
    n.unsupported(UnsupportedKind::kRunTimeValue, "dimensions of its weight");
  const int64_t channels = weight.dim(0).value(), window = weight.dim(2).value();
  if (channels < 1 || window < 1) n.fail("its weight {} is empty", n.type(1).str());
  const auto channels_second = [&](const Term& t) {
    return conv.channels_last ? t.reshaped({t.dim(0), t.dim(1), channels}).transposed({0, 2, 1}) : t;
  };
  const auto as_given = [&](const Term& t) {
    if (!conv.channels_last) return t;
    Shape shape = given.shape();
    shape[1] = t.dim(2);
    return t.transposed({0, 2, 1}).reshaped(shape);
  };
  const Term x = channels_second(given);
  const int64_t before = (window - 1) * conv.dilation;
  Term padded = x;
  if (n.has(3)) {
    padded = concatenated({channels_second(Term::input(n, 3)), x}, 2);
  } else if (before > 0) {
    padded = concatenated({Term::filled(n, x.dtype(), 0, {x.dim(0), channels, before}), x}, 2);
  }
  auto attrs = std::make_shared<ConvAttrs>();
  attrs->channels = channels;
  attrs->groups = channels;
  attrs->kernel = {window};
  attrs->strides = {1};
  attrs->dilations = {conv.dilation};
  attrs->padding = {0, 0};
  Term y(n, n.add(nn::conv, {padded, weight}, attrs));
  if (n.has(2)) y = y + Term::input(n, 2).reshaped({channels, 1});
  const std::string activation = n.text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = y.apply(nn::silu);
  } else if (activation != "none") {
    n.fail("its activation is '{}', not none, silu or swish", activation);
  }
  n.set(0, as_given(y));
  if (n.wants(1)) n.set(1, as_given(padded.sliced(2, padded.dim(2) - before, padded.dim(2))));
}

void convert_causal_conv(NodeImport& n) {
  convolve_causally(n, {});
}

/// com.microsoft's, without what it has on GPUs only and without states of several steps.
void convert_microsoft_causal_conv(NodeImport& n) {
  for (const char* name :
       {"state_window", "state_update_capacity", "state_length", "input_channels", "input_channel_offset"})
    if (n.integer(name, 0) != 0) n.unsupported(UnsupportedKind::kAttribute, "{}", name);
  if (n.integer("ndim", 1) != 1)
    n.unsupported(UnsupportedKind::kAttribute, "{} spatial axes", n.integer("ndim", 1));
  if (n.integer("state_channels_last", -1) != -1)
    n.unsupported(UnsupportedKind::kAttribute, "state_channels_last");
  const CausalConv conv{n.integer("dilation", 1), n.integer("channels_last", 0) != 0};
  if (conv.dilation < 1 || conv.dilation > kMostDilation)
    n.fail("its dilation {} should be from 1 to {}", conv.dilation, kMostDilation);
  convolve_causally(n, conv);
}

}  // namespace

void add_linear_attention_converters(ConverterTable& table) {
  table.push_back({"LinearAttention", 27, convert_linear_attention});
  table.push_back({"CausalConvWithState", 27, convert_causal_conv});
  table.push_back({"LinearAttention", 1, convert_microsoft_linear_attention, kMicrosoft});
  table.push_back({"CausalConvWithState", 1, convert_microsoft_causal_conv, kMicrosoft});
}

}  // namespace gantry
