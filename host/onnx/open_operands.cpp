#include "host/onnx/open_operands.h"

#include <algorithm>
#include <memory>

#include "host/graph/dim_broadcast.h"
#include "host/onnx/data_dims.h"
#include "host/onnx/node_import.h"
#include "host/ops/builder.h"
#include "host/ops/movement.h"
#include "host/ops/repeat.h"

namespace gantry {
namespace {

/// What two extents make together, under a name of its own before it is long.
Dim joint(const Dim& a, const Dim& b, const std::string& node, DataDims& names) {
  const Dim both = broadcast(a, b);
  return both == a || both == b ? both : names.brief(both, node);
}

/// The leading axes that the inputs have together, without their last `apart` ones, which are not broadcast.
Shape joint_axes(const std::vector<Value*>& inputs, size_t apart, const std::string& node, DataDims& names) {
  Shape axes;
  for (const Value* input : inputs) {
    const Shape& shape = input->type.shape;
    const size_t rank = shape.size() - apart;
    if (rank > axes.size()) axes.insert(axes.begin(), rank - axes.size(), Dim(1));
    for (size_t i = 0; i < rank; ++i) {
      Dim& extent = axes[axes.size() - rank + i];
      if (extent == Dim(1)) {
        extent = shape[i];
      } else if (may_broadcast(extent, shape[i])) {
        extent = joint(extent, shape[i], node, names);
      }
    }
  }
  return axes;
}

}  // namespace

void repeat_open_operands(Function& function, const OpDef& op, std::vector<Value*>& inputs,
                          const std::string& node, DataDims& names) {
  if (!op.axes_apart) return;
  const size_t apart = *op.axes_apart;
  const auto too_small = [&](const Value* input) {
    return input == nullptr || input->type.shape.size() < apart;
  };
  if (std::ranges::any_of(inputs, too_small)) return;  // the op says what is wrong
  const Shape axes = joint_axes(inputs, apart, node, names);
  for (Value*& input : inputs) {
    Shape shape = input->type.shape;
    const size_t rank = shape.size() - apart;
    for (size_t i = 0; i < rank; ++i) {
      const Dim& extent = axes[axes.size() - rank + i];
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
    const Dim result = joint(extent, asked, n.name(), n.data_dims());
    ops::require_repeatable(asked, result, n.function(), place);
    extent = asked = result;
  }
  return broadcast_shapes(data, wanted, n.function(), n.name());
}

}  // namespace gantry
