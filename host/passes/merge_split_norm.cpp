#include <optional>

#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// x[:, begin:end] of an image.
struct ChannelSlice {
  Value* data = nullptr;
  int64_t begin = 0, end = 0;
};

std::optional<ChannelSlice> channel_slice(const Value* value) {
  const Node* node = producer_of(value, op::strided_slice);
  if (node == nullptr) return std::nullopt;
  const auto& attrs = node->attrs_as<StridedSliceAttrs>();
  const Shape& shape = node->inputs[0]->type.shape;
  if (shape.size() < 3 || !attrs.begin[1].is_constant() || !attrs.end[1].is_constant()) return std::nullopt;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (attrs.strides[i] != 1) return std::nullopt;
    if (i != 1 && (!(attrs.begin[i] == Dim(0)) || !(attrs.end[i] == shape[i]))) return std::nullopt;
  }
  return ChannelSlice{node->inputs[0], attrs.begin[1].value(), attrs.end[1].value()};
}

/// slice * scale + shift, where scale and shift are constants (channels, 1, …).
struct AffineSlice {
  ChannelSlice slice;
  Value *scale = nullptr, *shift = nullptr;
};

bool is_per_channel(const Value* value, int64_t channels, int rank) {
  if (!value->is_constant() || value->type.rank() != rank - 1) return false;
  return value->type.shape[0] == Dim(channels) && element_count(value->type.shape) == Dim(channels);
}

std::optional<AffineSlice> affine_slice(const Value* value) {
  const Node* sum = producer_of(value, op::add);
  const Node* product = sum != nullptr ? producer_of(sum->inputs[0], op::multiply) : nullptr;
  if (product == nullptr) return std::nullopt;
  const auto slice = channel_slice(product->inputs[0]);
  if (!slice) return std::nullopt;
  const int64_t channels = slice->end - slice->begin;
  const int rank = value->type.rank();
  if (!is_per_channel(product->inputs[1], channels, rank) || !is_per_channel(sum->inputs[1], channels, rank))
    return std::nullopt;
  return AffineSlice{*slice, product->inputs[1], sum->inputs[1]};
}

class NormMerger {
 public:
  explicit NormMerger(const Rewriter& rewriter) : rewriter_(rewriter), function_(rewriter.function()) {}

  void run() {
    for (Node* node : rewriter_.nodes()) {
      if (node->is(op::concatenate) && node->inputs.size() == 2) merge(*node);
    }
  }

 private:
  void merge(Node& concatenation) {
    const Node* norm = producer_of(concatenation.inputs[0], nn::instance_norm);
    if (norm == nullptr || function_.only_user(norm->result()) == nullptr || concatenation.attrs_as<AxisAttrs>().axis != 1)
      return;
    if (norm->result()->type.dtype != DType::kF32) return;
    const auto first = channel_slice(norm->inputs[0]);
    const auto rest = affine_slice(concatenation.inputs[1]);
    if (!first || !rest || function_.only_user(concatenation.inputs[1]) == nullptr) return;
    if (first->data != rest->slice.data || !(first->data->type.shape[1] == Dim(rest->slice.end))) return;
    // No attribute says that no channels are normalised: GroupNormAttrs::normalized is 0 where all are.
    if (first->begin != 0 || first->end == 0 || first->end != rest->slice.begin) return;
    replace(concatenation, *norm, first->end, *rest);
  }

  /// The vector behind `count` elements `value`, (count + channels, 1, …).
  Value* extended(const Node& before, int64_t count, float value, Value* vector) {
    Shape shape = vector->type.shape;
    shape[0] = count;
    const std::vector<float> values(static_cast<size_t>(count), value);
    Value* front = function_.add_constant(vector->name, make_constant({DType::kF32, shape}, values.data()));
    auto attrs = std::make_shared<AxisAttrs>();
    attrs->axis = 0;
    return rewriter_.before(before)(op::concatenate, {front, vector}, attrs);
  }

  void replace(Node& concatenation, const Node& norm, int64_t normalized, const AffineSlice& rest) {
    Value* scale = extended(concatenation, normalized, 1, rest.scale);
    Value* shift = extended(concatenation, normalized, 0, rest.shift);
    const std::vector<std::string>& affine = concatenation.inputs[1]->producer->origin;
    Value* y = rewriter_.before(concatenation, affine)(op::multiply, {rest.slice.data, scale});
    y = rewriter_.before(concatenation, affine)(op::add, {y, shift});
    auto attrs = std::make_shared<GroupNormAttrs>(norm.attrs_as<GroupNormAttrs>());
    attrs->normalized = normalized;
    y = rewriter_.before(concatenation, norm.origin)(nn::instance_norm, {y, norm.inputs[1], norm.inputs[2]}, attrs);
    rewriter_.replace(concatenation.result(), y);
  }

  const Rewriter& rewriter_;
  Function& function_;
};

}  // namespace

void merge_split_norm(Graph& graph, PassContext& context) {
  NormMerger(Rewriter(graph.main, context)).run();
}

extern const Pass merge_split_norm_pass{
    .name = "merge_split_norm",
    .purpose = "channels split for a normalisation of some are normalised together",
    .run = merge_split_norm,
};

}  // namespace gantry
