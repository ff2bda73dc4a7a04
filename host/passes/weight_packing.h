// Constant weights in the layouts that alter_layout chooses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "host/ops/builder.h"

namespace gantry {

struct Attrs;
struct ConvAttrs;
struct DenseAttrs;
class SpillFile;  // host/support/spill_file.h

/// What a node is told of where it comes from.
using Origin = std::vector<std::string>;

/// f32 weights (O, I, spatial…) of groups, of which `merged` neighbours become one: (O, merged * I,
/// spatial…), 0 between what were different groups.
ConstantPtr merged_group_weight(const ConstantData& weight, int64_t groups, int64_t merged);

/// Adds the nodes that pack a weight to a function; folding computes them. Layouts are those of
/// host/ops/conv.h and host/ops/dense.h, for the attributes of the node that will read the weight.
class WeightPacker {
 public:
  /// `made`: hears of every node that is added, but of views; may be empty. `spill`: where the constants lie
  /// that are added; null: in memory.
  WeightPacker(Function& function, const Origin& origin, std::function<void(const Node&)> made = {},
               SpillFile* spill = nullptr)
      : function_(function), build_(function, origin), made_(std::move(made)), spill_(spill) {}

  /// The op's first result.
  template <typename AttrsType>
  Value* add(const Op<AttrsType>& op, std::vector<Value*> inputs,
             std::shared_ptr<const std::type_identity_t<AttrsType>> attrs) {
    Node* node = build_.node(op, std::move(inputs), std::move(attrs));
    if (made_ && !op_def(*node).is_view) made_(*node);
    return node->result();
  }
  Value* constant(const std::string& name, ConstantPtr constant);
  /// `value` itself where nothing changes.
  Value* reshape(Value* value, Shape shape);
  /// A reshape where only axes of extent 1 move.
  Value* transpose(Value* value, const std::vector<int64_t>& axes);
  /// Appends zeros on `axis` up to a multiple of `block`.
  Value* pad_to_multiple(Value* value, size_t axis, int64_t block);
  Value* rounded_to_half(Value* value);

  /// (O, I/groups, spatial…) -> (groups, blocks, spatial…, I/groups, nb); without groups the first axis is
  /// left out.
  Value* conv(Value* weight, const ConvAttrs& attrs);
  /// (C, 1, spatial…) -> (spatial…, C)
  Value* depthwise(Value* weight);
  /// (O, I/groups, spatial…) -> ((groups,) spatial… × I/groups, O/groups)
  Value* gemm(Value* weight, const ConvAttrs& attrs);
  /// (O, I, [slices,] 3, 3) to any layout of attrs.form.algorithm, a Winograd algorithm.
  Value* winograd(Value* weight, const ConvAttrs& attrs);
  /// For tile registers.
  Value* tiles(Value* weight, const ConvAttrs& attrs);
  Value* tiles(Value* weight, const DenseAttrs& attrs);
  /// (K, units) -> (blocks, K, nb)
  Value* dense(Value* weight, const DenseAttrs& attrs);

 private:
  /// (groups, blocks, nb, I/groups, spatial…) -> (groups, blocks, spatial…, I/groups, nb)
  Value* packed_at_run_time(Value* value, const Shape& blocked);

  Function& function_;
  Builder build_;
  std::function<void(const Node&)> made_;
  SpillFile* spill_;
};

}  // namespace gantry
