#include "host/onnx/open_operands.h"

#include <algorithm>
#include <memory>

#include "host/graph/dim_broadcast.h"
#include "host/onnx/node_import.h"
#include "host/ops/builder.h"
#include "host/ops/movement.h"
#include "host/ops/repeat.h"

namespace gantry {
namespace {

/// The leading axes that the inputs have together, without their last `apart` ones, which are not broadcast.
Shape joint_axes(const std::vector<Value*>& inputs, size_t apart) {
  Shape joint;
  for (const Value* input : inputs) {
    const Shape& shape = input->type.shape;
    const size_t rank = shape.size() - apart;
    if (rank > joint.size()) joint.insert(joint.begin(), rank - joint.size(), Dim(1));
    for (size_t i = 0; i < rank; ++i) {
      Dim& extent = joint[joint.size() - rank + i];
      if (extent == Dim(1)) {
        extent = shape[i];
      } else if (may_broadcast(extent, shape[i])) {
        extent = broadcast(extent, shape[i]);
      }
    }
  }
  return joint;
}

}  // namespace

void repeat_open_operands(Function& function, const OpDef& op, std::vector<Value*>& inputs,
                          const std::string& node) {
  if (!op.axes_apart) return;
  const size_t apart = *op.axes_apart;
  const auto too_small = [&](const Value* input) {
    return input == nullptr || input->type.shape.size() < apart;
  };
  if (std::ranges::any_of(inputs, too_small)) return;  // the op says what is wrong
  const Shape joint = joint_axes(inputs, apart);
  for (Value*& input : inputs) {
    Shape shape = input->type.shape;
    const size_t rank = shape.size() - apart;
    for (size_t i = 0; i < rank; ++i) {
      const Dim& extent = joint[joint.size() - rank + i];
      if (may_be_repeated(shape[i], extent)) shape[i] = extent;
    }
    if (shape == input->type.shape) continue;
    const auto attrs = ops::broadcast_attrs(input->type.shape, std::move(shape));
    input = Builder(function, {node})(op::broadcast_to, {input}, attrs);
  }
}

Shape expanded_shape(NodeImport& n, const Shape& own, Shape wanted) {
  Shape data = own;
  Node place;
  place.origin = {n.name()};
  for (size_t i = 1; i <= std::min(data.size(), wanted.size()); ++i) {
    Dim &extent = data[data.size() - i], &asked = wanted[wanted.size() - i];
    if (!may_broadcast(extent, asked)) continue;
    const Dim result = broadcast(extent, asked);
    ops::require_repeatable(asked, result, n.function(), place);
    extent = asked = result;
  }
  return broadcast_shapes(data, wanted, n.function(), n.name());
}

}  // namespace gantry
