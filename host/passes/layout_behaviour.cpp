#include "host/passes/layout_behaviour.h"

#include <algorithm>

#include "host/ops/conv.h"
#include "host/ops/image.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

constexpr int kLeastRank = 3;

std::optional<EitherOrder> of_channel_aware(const Node& node) {
  if (node.is(nn::conv) || node.inputs[0]->type.rank() < kLeastRank) return std::nullopt;
  if (node.attrs_as<ImageAttrs>().channels_last) return std::nullopt;  // an earlier run's
  EitherOrder either;
  either.images.resize(node.inputs.size());
  either.images[0] = true;
  return either;
}

std::optional<EitherOrder> of_any(const Node& node) {
  const int rank = node.result()->type.rank();
  if (rank < kLeastRank) return std::nullopt;
  EitherOrder either;
  bool has_image = false;
  for (const Value* input : node.inputs) {
    const bool image = input != nullptr && input->type.rank() == rank;
    either.images.push_back(image);
    has_image = has_image || (image && !input->is_constant());
  }
  return has_image ? std::optional(either) : std::nullopt;
}

std::optional<EitherOrder> of_axis_remap(const Node& node) {
  const int rank = node.inputs[0]->type.rank(), results = node.result()->type.rank();
  if (rank < kLeastRank || !remapped_to_last(node)) return std::nullopt;
  const bool alike =
      std::ranges::all_of(node.inputs, [&](const Value* input) { return input != nullptr && input->type.rank() == rank; });
  // A reduction that drops all spatial axes leaves (N, C): the order no longer matters.
  if (!alike || (results != rank && results > 2)) return std::nullopt;
  return EitherOrder{std::vector<bool>(node.inputs.size(), true), results == rank};
}

}  // namespace

std::vector<int64_t> axes_to_last(int rank) {
  std::vector<int64_t> axes{0};
  for (int i = 2; i < rank; ++i) axes.push_back(i);
  axes.push_back(1);
  return axes;
}

std::vector<int64_t> axes_to_plain(int rank) {
  std::vector<int64_t> axes{0, rank - 1};
  for (int i = 1; i + 1 < rank; ++i) axes.push_back(i);
  return axes;
}

std::shared_ptr<Attrs> remapped_to_last(const Node& node) {
  if (!op_def(node).remap_axes) return nullptr;
  const int rank = node.inputs[0]->type.rank();
  std::vector<int> new_axis_of{0, rank - 1};
  for (int i = 2; i < rank; ++i) new_axis_of.push_back(i - 1);
  return op_def(node).remap_axes(node, new_axis_of);
}

std::optional<EitherOrder> either_order(const Node& node) {
  if (node.inputs.empty() || node.inputs[0] == nullptr) return std::nullopt;
  switch (op_def(node).layout) {
    case LayoutBehaviour::kChannelAware:
      return of_channel_aware(node);
    case LayoutBehaviour::kAny:
      return of_any(node);
    case LayoutBehaviour::kAxisRemap:
      return of_axis_remap(node);
    case LayoutBehaviour::kNone:
      return std::nullopt;
  }
  return std::nullopt;
}

OrderChange order_change(const Node& node) {
  const auto* attrs = node.match(op::transpose);
  const int rank = node.result()->type.rank();
  // Of three axes it is the transposition of matrices.
  constexpr int kImageRank = 4;
  if (attrs == nullptr || rank < kImageRank) return OrderChange::kNone;
  if (attrs->axes == axes_to_plain(rank)) return OrderChange::kToPlain;
  return attrs->axes == axes_to_last(rank) ? OrderChange::kToLast : OrderChange::kNone;
}

}  // namespace gantry
