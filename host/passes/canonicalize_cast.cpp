// Casts in one form.
//
// A cast of a cast that lost nothing begins at the value before both, where floats would not saturate that
// integers wrap:
//   %1 = cast(%0: f16, f32); %2 = cast(%1, i32)   =>   %2 = cast(%0, i32)
// A cast to a wider type that several nodes read is made for each of them, so that it is part of their
// kernels and the narrow tensor is what lies in memory (as Relay's CanonicalizeCast does):
//   %1 = cast(%0: u8, f32); %2 = exp(%1); %3 = sqrt(%1)
//     =>   %1 = cast(%0, f32); %2 = exp(%1); %4 = cast(%0, f32); %3 = sqrt(%4)
#include <algorithm>

#include "host/graph/small_float.h"
#include "host/ops/elementwise.h"
#include "host/passes/passes.h"
#include "host/passes/pattern.h"

namespace gantry {
namespace {

/// Bits of the significand, the leading one included; of integers, of the magnitude.
int precision_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 1;
    case DType::kF16:
      return 11;
    case DType::kBF16:
      return 8;
    case DType::kF32:
      return 24;
    case DType::kF64:
      return 53;
    default:
      if (is_small_float(dtype)) return small_float(dtype).mantissa_bits + 1;
      return bit_width(dtype) - (is_signed_int(dtype) ? 1 : 0);
  }
}

bool is_integer(DType dtype) {
  return is_signed_int(dtype) || is_unsigned_int(dtype);
}

/// Whether every value of `from` is one of `to`.
bool keeps_values(DType from, DType to) {
  if (is_small_float(to)) return from == to;
  if (from == to || from == DType::kBool) return from == to || is_integer(to) || is_float(to);
  if (is_float(from)) {
    const bool wide = to == DType::kF32 || to == DType::kF64;
    return wide && precision_of(to) > precision_of(from);
  }
  if (!is_integer(from)) return false;
  if (is_signed_int(from) && is_unsigned_int(to)) return false;
  // The exponent of f16 ends at 65504: of integers only those of 8 bits are within it for certain.
  if (to == DType::kF16) return byte_width(from) == 1;
  return (is_integer(to) || is_float(to)) && precision_of(to) >= precision_of(from);
}

/// Whether an integer that has become a float is cut off at the ends of another integer's range: from integer
/// to integer it would wrap.
bool saturates_behind(DType between, DType from, DType to) {
  return is_integer(from) && is_float(between) && is_integer(to) && !keeps_values(from, to);
}

const std::vector<Rule>& cast_rules() {
  static const std::vector<Rule> rules = {
      {node(op::cast, {node(op::cast, {any("x")}).as("between")}), [](const Builder& build, const Match& m) -> Value* {
         Value* x = m["x"];
         const DType from = x->type.dtype, between = m["between"]->type.dtype, to = m.root()->type.dtype;
         if (!keeps_values(from, between) || saturates_behind(between, from, to)) return nullptr;
         if (from == to) return x;
         CastAttrs attrs;
         attrs.to = to;
         return build(op::cast, {x}, attrs);
       }}};
  return rules;
}

/// Whether a cast becomes part of the node's kernel: what has an anchor reads its operands from memory.
bool takes_casts(const Node& node) {
  const FusionClass fusion = op_def(node).fusion;
  return !op_def(node).is_view && (fusion == FusionClass::kElementwise || fusion == FusionClass::kBroadcast);
}

void cast_for_each_reader(const Rewriter& rewriter, Node& cast) {
  Value* wide = cast.result();
  if (byte_width(wide->type.dtype) <= byte_width(cast.inputs[0]->type.dtype)) return;
  if (rewriter.function().is_output(wide) || !std::ranges::all_of(wide->users, [](const Node* user) {
        return takes_casts(*user);
      }))
    return;
  const std::vector<Node*> readers(wide->users.begin(), wide->users.end());
  for (size_t r = 1; r < readers.size() && rewriter.context().take_rewrite(); ++r) {
    Value* own = rewriter.before(*readers[r], cast.origin).again(cast, cast.inputs)->result();
    for (size_t i = 0; i < readers[r]->inputs.size(); ++i) {
      if (readers[r]->inputs[i] == wide) rewriter.function().set_input(*readers[r], i, own);
    }
  }
}

}  // namespace

void canonicalize_cast(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  apply_rules(rewriter, cast_rules());
  remove_dead_nodes(graph.main);
  for (Node* node : rewriter.nodes()) {
    if (node->is(op::cast)) cast_for_each_reader(rewriter, *node);
  }
}

extern const Pass canonicalize_cast_pass{
    .name = "canonicalize_cast",
    .purpose = "casts of casts become one; each reader of a widened tensor widens it itself",
    .run = canonicalize_cast,
};

}  // namespace gantry
