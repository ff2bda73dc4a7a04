// Types of graph values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "host/graph/dim.h"

namespace gantry {

enum class DType : uint8_t { kF32, kF64, kF16, kBF16, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kBool };

/// Bytes an element takes (bool: 1).
int byte_width(DType dtype);
/// "f32", "i64", "bool", …
std::string_view name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
bool is_float(DType dtype);
bool is_signed_int(DType dtype);
bool is_unsigned_int(DType dtype);  // bool is not one

/// A tensor's dtype and dimensions. Sequence, optional and string tensors are kinds of their own, to be added
/// here as alternatives when an op produces them.
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
