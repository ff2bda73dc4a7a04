// Convolutions and poolings over images that are one element wide are of one axis less: their rows are then
// the long axis, along which tiles and vectors lie.
//
//   nn.conv(%x (N, I, 400, 1), @w (O, I, 5, 1))
//     =>  reshape(nn.conv(reshape(%x, (N, I, 400)), reshape(@w, (O, I, 5))), (N, O, 396, 1))
#include "host/ops/conv.h"
#include "host/ops/movement.h"
#include "host/ops/pool.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"

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

Value* without_last(const Builder& build, Value* value, size_t count) {
  const Shape& shape = value->type.shape;
  return build.reshape(value, {shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(count)});
}

/// Leaves the last `count` axes out of the node's inputs and attributes.
template <typename WindowAttrs>
void drop_axes(const Rewriter& rewriter, const Node& node, const WindowAttrs& given, size_t count) {
  auto attrs = std::make_shared<WindowAttrs>(given);
  const size_t rank = given.kernel.size(), left = rank - count;
  for (auto* along : {&attrs->kernel, &attrs->strides, &attrs->dilations}) along->resize(left);
  attrs->padding.erase(attrs->padding.begin() + static_cast<std::ptrdiff_t>(rank + left),
                       attrs->padding.end());
  attrs->padding.erase(attrs->padding.begin() + static_cast<std::ptrdiff_t>(left),
                       attrs->padding.begin() + static_cast<std::ptrdiff_t>(rank));
  std::vector<Value*> inputs;
  const Builder build = rewriter.before(node);
  for (Value* input : node.inputs) inputs.push_back(without_last(build, input, count));
  Value* narrow = build.again(node, inputs, attrs)->result();
  rewriter.replace(node.result(), build.reshape(narrow, node.result()->type.shape));
}

template <typename WindowAttrs>
void drop_if_any(const Rewriter& rewriter, const Node& node, const WindowAttrs& attrs) {
  if (attrs.channels_last || node.results.size() != 1) return;
  if (const size_t count = unit_windows(node, attrs); count > 0) drop_axes(rewriter, node, attrs, count);
}

}  // namespace

void drop_unit_windows(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (const Node* node : rewriter.nodes()) {
    if (const auto* conv = node->match(nn::conv); conv != nullptr && conv->as_in_model())
      drop_if_any(rewriter, *node, *conv);
    if (const auto* pool = node->attrs_if<PoolAttrs>()) drop_if_any(rewriter, *node, *pool);
  }
}

extern const Pass drop_unit_windows_pass{
    .name = "drop_unit_windows",
    .purpose = "windows lose axes along which images are one element wide",
    .run = drop_unit_windows,
};

}  // namespace gantry
