// Types of graph values.
#pragma once

#include <cstddef>
#include <string>

#include "host/graph/dim.h"
#include "host/machine/dtype.h"

namespace gantry {

/// The most dimensions of a tensor; of a module's inputs and outputs fewer
/// (device_runtime/src/module_format.h).
inline constexpr size_t kMaxRank = 64;

/// A tensor's dtype and dimensions.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int rank() const { return static_cast<int>(shape.size()); }
  /// Bytes of the dense row-major tensor, symbolic where a dimension is.
  Dim byte_size() const { return element_count(shape) * byte_width(dtype); }
  /// "Tensor[(N, 3, 224, 224), f32]"
  std::string str() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
/// False where dtypes or ranks differ, or a dimension provably does.
bool may_be_equal(const TensorType& a, const TensorType& b);

}  // namespace gantry
