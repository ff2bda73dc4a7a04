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

void convert_linear_attention(NodeImport& n) {
  const int64_t query_heads = n.integer("q_num_heads", 0), heads = n.integer("kv_num_heads", 0);
  if (heads < 1 || query_heads < heads || query_heads % heads != 0)
    n.fail("{} heads of queries do not share {} heads of keys", query_heads, heads);
  const auto operand = [&](size_t i) { return Term::input(n, i).cast(DType::kF32); };
  const Term query = with_heads(operand(0), query_heads), key = with_heads(operand(1), heads);
  const Term value = with_heads(operand(2), heads);
  const UpdateRule rule = update_rule(n);
  auto attrs = std::make_shared<LinearAttentionAttrs>();
  attrs->decays = rule.gated;
  attrs->corrects = rule.corrects;
  attrs->scale = n.number("scale", 0);
  if (attrs->scale == 0) attrs->scale = usual_scale(query);
  const Term state =
      n.has(3) ? operand(3) : Term::filled(n, DType::kF32, 0, {key.dim(0), heads, key.dim(3), value.dim(3)});
  std::vector<Value*> inputs{query, key, value, state};
  if (rule.gated) inputs.push_back(with_heads(operand(4), heads));
  if (rule.corrects) inputs.push_back(operand(5));
  const std::vector<Value*> results = n.add_many(nn::linear_attention, inputs, attrs);
  const DType dtype = n.type(0).dtype;
  const Term output(n, results[0]), last(n, results[1]);
  n.set(0, output.reshaped({output.dim(0), output.dim(1), output.dim(2) * output.dim(3)}).cast(dtype));
  n.set(1, last.cast(n.has(3) ? n.type(3).dtype : dtype));
}

/// A window of each channel over what came before: the data after past_state, or after zeros.
void convert_causal_conv(NodeImport& n) {
  const Term x = Term::input(n, 0), weight = Term::input(n, 1);
  if (x.rank() != 3 || weight.rank() != 3 || !weight.dim(0).is_constant() || !weight.dim(2).is_constant())
    n.fail("its data {} and weight {} should have 3 dimensions", n.type(0).str(), n.type(1).str());
  const int64_t channels = weight.dim(0).value(), window = weight.dim(2).value();
  if (channels < 1 || window < 1) n.fail("its weight {} is empty", n.type(1).str());
  Term padded = x;
  if (n.has(3)) {
    padded = concatenated({Term::input(n, 3), x}, 2);
  } else if (window > 1) {
    padded = concatenated({Term::filled(n, x.dtype(), 0, {x.dim(0), channels, window - 1}), x}, 2);
  }
  auto attrs = std::make_shared<ConvAttrs>();
  attrs->channels = channels;
  attrs->groups = channels;
  attrs->kernel = {window};
  attrs->strides = attrs->dilations = {1};
  attrs->padding = {0, 0};
  Term y(n, n.add(nn::conv, {padded, weight}, attrs));
  if (n.has(2)) y = y + Term::input(n, 2).reshaped({channels, 1});
  const std::string activation = n.text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = y.apply(nn::silu);
  } else if (activation != "none") {
    n.fail("its activation is '{}', not none, silu or swish", activation);
  }
  n.set(0, y);
  if (n.wants(1)) n.set(1, padded.sliced(2, padded.dim(2) - (window - 1), padded.dim(2)));
}

}  // namespace

void add_linear_attention_converters(ConverterTable& table) {
  table.push_back({"LinearAttention", 27, convert_linear_attention});
  table.push_back({"CausalConvWithState", 27, convert_causal_conv});
}

}  // namespace gantry
