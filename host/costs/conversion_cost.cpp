#include "host/costs/conversion_cost.h"

#include <algorithm>

#include "host/costs/gpu_costs.h"
#include "host/graph/shape_guess.h"

namespace gantry::costs {
namespace {

/// Elements have the same places in both orders: the conversion is another name of the value.
bool moves_nothing(const TensorType& image) {
  const Shape& shape = image.shape;
  if (shape.size() < 2 || shape[1] == Dim(1)) return true;
  return std::all_of(shape.begin() + 2, shape.end(), [](const Dim& extent) { return extent == Dim(1); });
}

/// Points of fewer elements are shorter than the vectors that would write them.
bool has_few_channels(const TensorType& image) {
  constexpr int64_t kFew = 8;
  const auto channels = image.shape[1].constant();
  return channels && *channels < kFew;
}

double elements_of(const TensorType& type) {
  using guess::Extent;
  double elements = 1;
  for (size_t axis = 0; axis < type.shape.size(); ++axis) {
    const Extent measures = axis == 0 ? Extent::kBatch : axis == 1 ? Extent::kChannels : Extent::kSide;
    elements *= double(guess::extent(type.shape[axis], measures));
  }
  return elements;
}

}  // namespace

double transposition_cost(const TensorType& type, const Target& target) {
  const int64_t element_bytes = byte_width(type.dtype);
  const double bytes = elements_of(type) * double(element_bytes);
  if (target.for_gpu())
    return 1e3 * gpu_costs(target).transposition(static_cast<int64_t>(bytes), element_bytes, target.gpu);
  const MachineModel& machine = target.machine;
  const double moved = 2 * bytes;
  return moved / (moved <= double(machine.l2_bytes) ? machine.l2_bytes_per_cycle : machine.memory_bytes_per_cycle);
}

double conversion_cost(const TensorType& image, const Target& target) {
  if (moves_nothing(image)) return 0;
  const double moved = transposition_cost(image, target);
  if (target.for_gpu() || !has_few_channels(image)) return moved;
  // Measured on Zen 4, f32 in the second-level cache: 0.8 to 0.9 of 3 channels, 0.55 to 0.75 of 2 and of 4 to 7; of 8
  // and more 0.3 to 0.5, which is what their bytes take.
  constexpr double kElement = 0.8;
  return std::max(moved, kElement * elements_of(image));
}

}  // namespace gantry::costs
