// Tensors and what they are made of: element types, shapes, views. A part of gantry/runtime.hpp; C++17.
#ifndef GANTRY_TENSOR_HPP
#define GANTRY_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>

#include "gantry/dlpack.h"
#include "gantry/result.hpp"
#include "gantry/runtime.h"

namespace gantry {

/// Elements in a row that somebody else owns: std::span for C++17. What has data() and size() becomes one,
/// and it becomes a std::span where there are such.
template <typename T>
class Span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using iterator = T*;

  constexpr Span() noexcept = default;
  constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  /// Of a container, an array or another span; not of what ends before the span does.
  template <typename Container,
            typename = std::enable_if_t<std::is_convertible_v<
                std::remove_pointer_t<decltype(std::data(std::declval<Container&>()))> (*)[], T (*)[]>>>
  constexpr Span(Container&& container) noexcept : data_(std::data(container)), size_(std::size(container)) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }
  /// The element at index < size(), which is not checked.
  constexpr T& operator[](std::size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Elements of 16 bits for which C++17 has no type, as their bits.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

/// The element type of a tensor of T, in `value`; specialise it for a half-precision type of your own.
template <typename T, typename = void>
struct ElementType {};
template <typename T>
struct ElementType<T, std::enable_if_t<std::is_arithmetic_v<T> && (sizeof(T) <= 8)>> {
  static constexpr DLDataType value{static_cast<std::uint8_t>(std::is_same_v<T, bool>       ? kDLBool
                                                              : std::is_floating_point_v<T> ? kDLFloat
                                                              : std::is_signed_v<T>         ? kDLInt
                                                                                            : kDLUInt),
                                    8 * sizeof(T), 1};
};
template <>
struct ElementType<Float16> {
  static constexpr DLDataType value{kDLFloat, 16, 1};
};
template <>
struct ElementType<BFloat16> {
  static constexpr DLDataType value{kDLBfloat, 16, 1};
};
/// The element type that tensors of `const T` and T have.
template <typename T>
inline constexpr DLDataType element_type = ElementType<std::remove_cv_t<T>>::value;

inline constexpr bool is_same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/// "f32", "i64", "u8", "bf16", "bool", "f8e4m3fn".
inline std::string to_string(DLDataType type) {
  static constexpr const char* kNames[] = {"i", "u", "f", "handle", "bf", "complex", "bool",
                                           "f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2",
                                           "f8e5m2fnuz", "f8e8m0fnu", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn"};
  std::string text = type.code < std::size(kNames) ? kNames[type.code] : "type" + std::to_string(type.code);
  if (type.code < kDLBool) text += std::to_string(type.bits);
  return type.lanes == 1 ? text : text + "x" + std::to_string(type.lanes);
}

/// Dimensions, up to GANTRY_MAX_RANK of them; -1 stands for one that is only known when inputs are set.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(dims.begin(), dims.size()) {}
  explicit Shape(Span<const std::int64_t> dims) : Shape(dims.data(), dims.size()) {}
  /// Of more dimensions than a tensor may have the first are kept; rank() is theirs, and every call refuses
  /// it.
  Shape(const std::int64_t* dims, std::size_t rank) : rank_(static_cast<std::int32_t>(rank)) {
    for (std::size_t axis = 0; axis < rank && axis < GANTRY_MAX_RANK; ++axis) dims_[axis] = dims[axis];
  }

  std::size_t rank() const noexcept { return static_cast<std::size_t>(rank_); }
  /// The dimension of axis < rank().
  std::int64_t operator[](std::size_t axis) const { return dims_[axis]; }
  const std::int64_t* data() const noexcept { return dims_; }
  const std::int64_t* begin() const noexcept { return dims_; }
  const std::int64_t* end() const noexcept { return dims_ + kept(); }

  bool is_known() const {
    for (const std::int64_t dim : *this) {
      if (dim < 0) return false;
    }
    return true;
  }
  /// The number of elements; -1 where a dimension is not known or there are more than 2^63 - 1.
  std::int64_t count() const {
    std::int64_t product = 1;
    bool is_empty = false, is_large = false;
    for (const std::int64_t dim : *this) {
      if (dim < 0) return -1;
      is_empty |= dim == 0;
      is_large |= __builtin_mul_overflow(product, dim == 0 ? 1 : dim, &product);
    }
    return is_empty ? 0 : is_large ? -1 : product;
  }
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t axis = 0; axis < a.kept(); ++axis) {
      if (a.dims_[axis] != b.dims_[axis]) return false;
    }
    return true;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::size_t kept() const noexcept { return rank() < GANTRY_MAX_RANK ? rank() : GANTRY_MAX_RANK; }
  std::int64_t dims_[GANTRY_MAX_RANK] = {};
  std::int32_t rank_ = 0;
};

/// "(1, 3, 224, 224)"
inline std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (const std::int64_t dim : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + ")";
}

namespace detail {

inline Shape shape_of(const DLTensor& tensor) {
  return {tensor.shape, static_cast<std::size_t>(tensor.ndim)};
}
/// A dense tensor in the CPU's memory; `shape` must live as long as it is used.
inline DLTensor make_tensor(const void* data, DLDataType type, const Shape& shape) {
  DLTensor tensor{};
  tensor.data = const_cast<void*>(data);
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<std::int32_t>(shape.rank());
  tensor.dtype = type;
  tensor.shape = const_cast<std::int64_t*>(shape.data());
  return tensor;
}
/// Whether the tensor's elements follow each other in row-major order.
inline bool is_dense(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t axis = tensor.ndim; axis-- > 0;) {
    if (tensor.shape[axis] == 0) return true;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

}  // namespace detail

/// Elements of a dense, row-major tensor that somebody else owns.
template <typename T>
class TensorView : public Span<T> {
 public:
  TensorView(T* data, const Shape& shape)
      : Span<T>(data, static_cast<std::size_t>(shape.count() < 0 ? 0 : shape.count())), shape_(shape) {}
  const Shape& shape() const noexcept { return shape_; }

 private:
  Shape shape_;
};

namespace detail {

/// The tensor's elements as a T each; `what` names it in the message of why that cannot be.
template <typename T>
Result<TensorView<T>> view_as(const DLTensor& tensor, const std::string& what) {
  if (tensor.device.device_type != kDLCPU) return invalid(what + " is not in the CPU's memory");
  if (!is_same_type(tensor.dtype, element_type<T>)) {
    return invalid(what + " has elements of type " + to_string(tensor.dtype) + " and was asked for as " +
                   to_string(element_type<T>));
  }
  if (tensor.ndim < 0 || tensor.ndim > GANTRY_MAX_RANK) return invalid(what + " has too many dimensions");
  if (!is_dense(tensor)) return invalid(what + " is strided: take a dense copy");
  auto* data = reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
  return TensorView<T>(data, shape_of(tensor));
}

}  // namespace detail

/// A tensor that owns its memory, whoever made it: DLPack's DLManagedTensor. Move-only.
class Tensor {
 public:
  /// Takes what PyTorch, NumPy or gantry gave; null gives an empty one.
  explicit Tensor(DLManagedTensor* managed = nullptr) noexcept : managed_(managed) {}

  const DLTensor& dlpack() const { return managed_->dl_tensor; }
  DLDataType type() const { return managed_->dl_tensor.dtype; }
  Shape shape() const { return detail::shape_of(managed_->dl_tensor); }
  /// The elements. Fails where they are of another type, strided, or not in the CPU's memory.
  template <typename T>
  Result<TensorView<T>> try_view() const {
    if (managed_ == nullptr) return detail::invalid("the tensor was given away");
    return detail::view_as<T>(managed_->dl_tensor, "the tensor");
  }
#if GANTRY_HAS_EXCEPTIONS
  /// As try_view; throws Error.
  template <typename T>
  TensorView<T> view() const {
    return try_view<T>().value();
  }
#endif
  explicit operator bool() const noexcept {
    return managed_ != nullptr;
  }
  /// Gives the tensor to somebody who calls its deleter; this one is empty then.
  DLManagedTensor* release() noexcept {
    return managed_.release();
  }

 private:
  struct Delete {
    void operator()(DLManagedTensor* managed) const {
      if (managed->deleter != nullptr) managed->deleter(managed);
    }
  };
  std::unique_ptr<DLManagedTensor, Delete> managed_;
};

}  // namespace gantry

#endif
