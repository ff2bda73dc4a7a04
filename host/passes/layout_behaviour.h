// How nodes deal with the order of their images' axes: what alter_layout can make of a node, for choose_forms to choose.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// Permutations of (N, C, spatial…) to (N, spatial…, C), and back.
std::vector<int64_t> axes_to_last(int rank);
std::vector<int64_t> axes_to_plain(int rank);

/// Attributes of a node that names axes, LayoutBehaviour::kAxisRemap, for inputs that are channels-last; null: cannot.
std::shared_ptr<Attrs> remapped_to_last(const Node& node);

/// Of a node that takes images in either order.
struct EitherOrder {
  std::vector<bool> images;  ///< by input: it lies in the order that is chosen; the others as the model has them
  bool image_result = true;  ///< and so do the results
};
/// Nothing of a node that wants all as the model has it, or that has forms.
std::optional<EitherOrder> either_order(const Node& node);

/// A transposition by which the model itself changes the order of images: another name of what is there already.
enum class OrderChange : uint8_t { kNone, kToLast, kToPlain };
OrderChange order_change(const Node& node);

}  // namespace gantry
