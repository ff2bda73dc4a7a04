// Convolutions whose windows are as large as the image, along some axes or all: these are channels.
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

bool covers_image(const Node& node, const ConvAttrs& attrs) {
  const Shape& data = node.inputs[0]->type.shape;
  if (attrs.groups != 1 || !attrs.as_in_model() || !node.inputs[1]->is_constant() || !all_zero(attrs.padding))
    return false;
  for (size_t i = 0; i < attrs.kernel.size(); ++i) {
    if (!(data[2 + i] == Dim(attrs.kernel[i])) || (attrs.kernel[i] > 1 && attrs.dilations[i] > 1))
      return false;
  }
  return true;
}

void make_dense(const Rewriter& rewriter, Node& node, const ConvAttrs& conv) {
  const Builder build = rewriter.before(node);
  const Shape& data = node.inputs[0]->type.shape;
  const Dim elements = element_count({data.begin() + 1, data.end()});
  Value* x = build.reshape(node.inputs[0], {data[0], elements});
  Value* weight = build.reshape(node.inputs[1], {conv.channels, elements});
  auto swap = std::make_shared<TransposeAttrs>();
  swap->axes = {1, 0};
  weight = build(op::transpose, {weight}, swap);
  auto attrs = std::make_shared<DenseAttrs>();
  attrs->units = conv.channels;
  Value* y = build(nn::dense, {x, weight}, attrs);
  rewriter.replace(node.result(), build.reshape(y, node.result()->type.shape));
}

/// Fewer channels leave most of a vector of them empty.
constexpr int64_t kFewChannels = 16;

/// How many of the last axes a window covers, none beside it; one axis stays at least.
size_t covered_axes(const Node& node, const ConvAttrs& attrs) {
  const Shape& data = node.inputs[0]->type.shape;
  const size_t rank = attrs.kernel.size();
  const auto channels = data[1].constant();
  if (!channels || *channels >= kFewChannels || attrs.groups != 1 || !attrs.as_in_model() ||
      !node.inputs[1]->is_constant())
    return 0;
  size_t count = 0;
  while (count + 1 < rank) {
    const size_t axis = rank - 1 - count;
    if (!(data[2 + axis] == Dim(attrs.kernel[axis])) || attrs.kernel[axis] == 1 ||
        attrs.dilations[axis] != 1 || !(attrs.padding[axis] == Dim(0)) ||
        !(attrs.padding[rank + axis] == Dim(0)))
      break;
    ++count;
  }
  return count;
}

/// (N, C, …, A, B) as (N, C * A * B, …), where the last `count` axes join the channels. Of one channel, they
/// are moved when they have been merged: the transposition then is that of channels that lie last, which
/// convolutions read as they are.
Value* as_channels(const Builder& build, Value* value, size_t count) {
  const Shape& shape = value->type.shape;
  const size_t kept = shape.size() - count;
  const Dim last = element_count({shape.begin() + static_cast<std::ptrdiff_t>(kept), shape.end()});
  auto order = std::make_shared<TransposeAttrs>();
  order->axes = {0};
  Shape merged{shape[0]};
  if (shape[1] == Dim(1)) {
    merged.insert(merged.end(), shape.begin() + 2, shape.begin() + static_cast<std::ptrdiff_t>(kept));
    merged.push_back(last);
    order->axes.push_back(static_cast<int64_t>(kept) - 1);
    for (size_t i = 2; i < kept; ++i) order->axes.push_back(static_cast<int64_t>(i) - 1);
    return build(op::transpose, {build.reshape(value, merged)}, order);
  }
  order->axes.push_back(1);
  merged.push_back(shape[1] * last);
  for (size_t i = kept; i < shape.size(); ++i) order->axes.push_back(static_cast<int64_t>(i));
  for (size_t i = 2; i < kept; ++i) {
    order->axes.push_back(static_cast<int64_t>(i));
    merged.push_back(shape[i]);
  }
  return build.reshape(build(op::transpose, {value}, order), merged);
}

void merge(const Rewriter& rewriter, Node& node, const ConvAttrs& given, size_t count) {
  const Builder build = rewriter.before(node);
  auto attrs = std::make_shared<ConvAttrs>(given);
  const size_t left = given.kernel.size() - count;
  for (auto* along : {&attrs->kernel, &attrs->strides, &attrs->dilations}) along->resize(left);
  attrs->padding.assign(given.padding.begin(), given.padding.begin() + static_cast<std::ptrdiff_t>(left));
  const auto ends = given.padding.begin() + static_cast<std::ptrdiff_t>(given.kernel.size());
  attrs->padding.insert(attrs->padding.end(), ends, ends + static_cast<std::ptrdiff_t>(left));
  std::vector<Value*> inputs;
  for (Value* input : node.inputs) inputs.push_back(as_channels(build, input, count));
  Value* y = build(nn::conv, inputs, attrs);
  rewriter.replace(node.result(), build.reshape(y, node.result()->type.shape));
}

}  // namespace

void make_whole_convolutions_dense(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (Node* node : rewriter.nodes()) {
    const auto* attrs = node->match(nn::conv);
    if (attrs != nullptr && covers_image(*node, *attrs)) make_dense(rewriter, *node, *attrs);
  }
}

void merge_covered_axes(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (Node* node : rewriter.nodes()) {
    const auto* attrs = node->match(nn::conv);
    if (attrs == nullptr) continue;
    if (const size_t count = covered_axes(*node, *attrs); count > 0) merge(rewriter, *node, *attrs, count);
  }
}

extern const Pass make_whole_convolutions_dense_pass{
    .name = "make_whole_convolutions_dense",
    .purpose = "convolutions over whole images become matrix products",
    .run = make_whole_convolutions_dense,
};

extern const Pass merge_covered_axes_pass{
    .name = "merge_covered_axes",
    .purpose = "axes that a window covers become channels",
    .run = merge_covered_axes,
};

}  // namespace gantry
