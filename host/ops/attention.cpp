// nn.attention; its loop nest is in attention_loops.cpp.
#include "host/ops/attention.h"

#include "host/ops/attention_loops.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

/// Of f32 in the longest vectors that a target has.
constexpr int64_t kMostLanes = 16;
constexpr int64_t kLeastRegisters = 8;

std::vector<TensorType> infer_attention(const Node& node, Function&) {
  const auto& a = node.attrs_as<AttentionAttrs>();
  for (const int64_t features : {a.depth, a.width}) {
    require(features >= 1 && features <= kMostAttentionFeatures,
            "a query has {} features and a value {}, which can be 1 to {}", a.depth, a.width,
            kMostAttentionFeatures);
  }
  require(!a.keys.is_constant() || a.keys.value() > 0, "there are no keys");
  require(a.form.lanes >= 1 && a.form.lanes <= kMostLanes && (a.form.lanes & (a.form.lanes - 1)) == 0 &&
              a.form.registers >= kLeastRegisters,
          "vectors of {} lanes in {} registers", a.form.lanes, a.form.registers);
  for (const Shape* operand : {&a.query, &a.key, &a.value, &a.result}) {
    require(operand->size() == a.batch.size() + 2, "an operand has {} strides for {} batch axes",
            operand->size(), a.batch.size());
  }
  size_t biases = 0;
  for (const Shape* bias : {&a.bias, &a.bias2}) {
    require(bias->empty() || bias->size() == a.batch.size() + 3, "a bias has {} strides for {} batch axes",
            bias->size(), a.batch.size());
    biases += bias->empty() ? 0 : 1;
  }
  require(node.inputs.size() == 3 + biases, "{} inputs with {} biases", node.inputs.size(), biases);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    require(input_type(node, i).dtype == DType::kF32, "computes in f32 only, not {}",
            name_of(input_type(node, i).dtype));
  }
  return {{DType::kF32, a.shape}};
}

AttentionOperand operand_of(const Shape& strides, bool bias, bool chooses = false) {
  AttentionOperand operand;
  operand.chooses = chooses;
  std::vector<Expr> all = to_exprs(strides);
  operand.offset = all.front();
  const size_t last = all.size() - (bias ? 2 : 1);
  operand.batch.assign(all.begin() + 1, all.begin() + static_cast<std::ptrdiff_t>(last));
  operand.row = all[last];
  if (bias) operand.column = all.back();
  return operand;
}

std::vector<Tensor> compute_attention(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<AttentionAttrs>();
  AttentionLoops loops;
  loops.batch = to_exprs(a.batch);
  loops.queries = Expr(a.queries);
  loops.keys = Expr(a.keys);
  loops.depth = a.depth;
  loops.width = a.width;
  loops.scale = a.scale;
  loops.query = operand_of(a.query, false);
  loops.key = operand_of(a.key, false);
  loops.value = operand_of(a.value, false);
  loops.result = operand_of(a.result, false);
  if (!a.bias.empty()) loops.biases.push_back(operand_of(a.bias, true, a.bias_chooses));
  if (!a.bias2.empty()) loops.biases.push_back(operand_of(a.bias2, true, a.bias2_chooses));
  loops.lanes = a.form.lanes;
  loops.registers = a.form.registers;
  return extern_kernel(
      in, {to_exprs(a.shape)}, {DType::kF32}, [loops](LoopBuilder& b) { loops.build(b); }, "attention");
}

Dim attention_flops(const Node& node) {
  const auto& a = node.attrs_as<AttentionAttrs>();
  return element_count(a.batch) * a.queries * a.keys * (2 * (a.depth + a.width));
}

}  // namespace

void add_attention_ops(OpSet& set) {
  OpDef op = ops::define(nn::attention, FusionClass::kOpaque, LayoutBehaviour::kNone,
                                         {"query", "key", "value", "bias", "bias2"}, 2);
  op.infer = infer_attention;
  op.compute = compute_attention;
  op.flops = attention_flops;
  set.add(std::move(op));
}

}  // namespace gantry
