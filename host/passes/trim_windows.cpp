// Taps of a convolution's window that meet padding wherever the window stands compute nothing: a window
// dilated by more than the image is wide is one of fewer taps.
//
//   nn.conv(%x (1, C, 14, 14), @w (O, C, 3, 3), dilations=[24, 24], padding=24)  =>  nn.conv(%x, @w[1, 1])
#include <algorithm>

#include "host/ops/conv.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// Taps [first, end) of an axis.
struct Taps {
  int64_t first = 0, end = 0;
};

/// Those between the first and the last that meet an element, if the rest can be left out.
Taps live_taps(const ConvAttrs& attrs, size_t axis, int64_t extent, int64_t results) {
  const int64_t count = attrs.kernel[axis], dilation = attrs.dilations[axis], stride = attrs.strides[axis];
  const int64_t before = attrs.padding[axis].value();
  auto meets = [&](int64_t tap) {
    // The positions are tap * dilation - before + q * stride.
    const int64_t first = tap * dilation - before;
    const int64_t q = first >= 0 ? 0 : (-first + stride - 1) / stride;
    return q < results && first + q * stride < extent;
  };
  Taps live{0, count};
  while (live.first < live.end && !meets(live.first)) ++live.first;
  while (live.end > live.first && !meets(live.end - 1)) --live.end;
  const int64_t after = attrs.padding[attrs.spatial_rank() + axis].value();
  const bool fits =
      live.first < live.end && before >= live.first * dilation && after >= (count - live.end) * dilation;
  return fits ? live : Taps{0, count};
}

/// Of known extents, and not yet in a form for some target.
bool is_plain(const Node& node, const ConvAttrs& attrs) {
  const size_t rank = attrs.spatial_rank();
  bool known = node.inputs[1]->is_constant() && attrs.as_in_model();
  for (size_t i = 0; i < rank; ++i) {
    known = known && node.inputs[0]->type.shape[2 + i].is_constant() &&
            node.result()->type.shape[2 + i].is_constant() && attrs.padding[i].is_constant() &&
            attrs.padding[rank + i].is_constant();
  }
  return known;
}

/// The same convolution without dead taps; null if there are none.
Value* trimmed(const Builder& build, const Node& node, const ConvAttrs& given) {
  const size_t rank = given.spatial_rank();
  const Shape& weight = node.inputs[1]->type.shape;
  auto attrs = std::make_shared<ConvAttrs>(given);
  auto part = std::make_shared<StridedSliceAttrs>();
  part->begin.assign(weight.size(), Dim(0));
  part->end = weight;
  part->strides.assign(weight.size(), 1);
  for (size_t i = 0; i < rank; ++i) {
    const Taps live = live_taps(given, i, node.inputs[0]->type.shape[2 + i].value(),
                                node.result()->type.shape[2 + i].value());
    attrs->kernel[i] = live.end - live.first;
    attrs->padding[i] = given.padding[i].value() - live.first * given.dilations[i];
    attrs->padding[rank + i] =
        given.padding[rank + i].value() - (given.kernel[i] - live.end) * given.dilations[i];
    if (attrs->kernel[i] == 1) attrs->dilations[i] = 1;
    part->begin[2 + i] = live.first;
    part->end[2 + i] = live.end;
  }
  if (attrs->kernel == given.kernel) return nullptr;
  return build(nn::conv, {node.inputs[0], build(op::strided_slice, {node.inputs[1]}, part)}, attrs);
}

}  // namespace

void trim_windows(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (Node* node : rewriter.nodes()) {
    const auto* attrs = node->match(nn::conv);
    if (!attrs || !is_plain(*node, *attrs)) continue;
    if (Value* value = trimmed(rewriter.before(*node), *node, *attrs)) rewriter.replace(node->result(), value);
  }
}

extern const Pass trim_windows_pass{
    .name = "trim_windows",
    .purpose = "convolutions lose taps that only meet padding",
    .run = trim_windows,
};

}  // namespace gantry
