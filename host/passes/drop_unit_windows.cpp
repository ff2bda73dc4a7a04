// Convolutions and poolings over images that are one element wide are of one axis less: their rows are then
// the long axis, along which tiles and vectors lie.
//
//   nn.conv(%x (N, I, 400, 1), @w (O, I, 5, 1))
//     =>  reshape(nn.conv(reshape(%x, (N, I, 400)), reshape(@w, (O, I, 5))), (N, O, 396, 1))
#include "host/ops/conv.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/ops/pool.h"
#include "host/passes/canonicalize.h"

namespace gantry {
namespace {

/// How many of the last spatial axes hold one element, which a window of one element reads. One axis stays.
template <typename WindowAttrs>
size_t unit_windows(const Node& node, const WindowAttrs& attrs) {
  const Shape &data = node.inputs[0]->type.shape, &result = node.result()->type.shape;
  const size_t rank = attrs.kernel.size();
  size_t count = 0;
  while (count + 1 < rank) {
    const size_t axis = rank - 1 - count;
    if (attrs.kernel[axis] != 1 || !(data[2 + axis] == Dim(1)) || !(result[2 + axis] == Dim(1)) ||
        !(attrs.padding[axis] == Dim(0)) || !(attrs.padding[rank + axis] == Dim(0)))
      break;
    ++count;
  }
  return count;
}

Value* without_last(Function& function, const Node& before, Value* value, size_t count) {
  auto attrs = std::make_shared<ReshapeAttrs>();
  attrs->shape.assign(value->type.shape.begin(),
                      value->type.shape.end() - static_cast<std::ptrdiff_t>(count));
  return infer_and_add(function, "reshape", attrs, {value}, before.origin, &before)->result();
}

/// Leaves the last `count` axes out of the node's inputs and attributes.
template <typename WindowAttrs>
void drop_axes(Function& function, const Node& node, const WindowAttrs& given, size_t count) {
  auto attrs = std::make_shared<WindowAttrs>(given);
  const size_t rank = given.kernel.size(), left = rank - count;
  for (auto* along : {&attrs->kernel, &attrs->strides, &attrs->dilations}) along->resize(left);
  attrs->padding.erase(attrs->padding.begin() + static_cast<std::ptrdiff_t>(rank + left),
                       attrs->padding.end());
  attrs->padding.erase(attrs->padding.begin() + static_cast<std::ptrdiff_t>(left),
                       attrs->padding.begin() + static_cast<std::ptrdiff_t>(rank));
  std::vector<Value*> inputs;
  for (Value* input : node.inputs) inputs.push_back(without_last(function, node, input, count));
  Value* narrow = infer_and_add(function, node.op->name, attrs, inputs, node.origin, &node)->result();
  auto back = std::make_shared<ReshapeAttrs>();
  back->shape = node.result()->type.shape;
  function.replace_uses(node.result(),
                        infer_and_add(function, "reshape", back, {narrow}, node.origin, &node)->result());
}

template <typename WindowAttrs>
void drop_if_any(Function& function, const Node& node) {
  const auto& attrs = node.attrs_as<WindowAttrs>();
  if (attrs.channels_last || node.results.size() != 1) return;
  if (const size_t count = unit_windows(node, attrs); count > 0) drop_axes(function, node, attrs, count);
}

}  // namespace

void drop_unit_windows(Function& function) {
  const std::vector<Node*> nodes = function.nodes();
  for (const Node* node : nodes) {
    if (node->op->name == "nn.conv" && node->attrs_as<ConvAttrs>().weight_block == 0)
      drop_if_any<ConvAttrs>(function, *node);
    if (node->attrs && dynamic_cast<const PoolAttrs*>(node->attrs.get()))
      drop_if_any<PoolAttrs>(function, *node);
  }
}

}  // namespace gantry
