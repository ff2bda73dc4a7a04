#include "host/onnx/sparse_tensor.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "host/onnx/tensor_data.h"
#include "host/support/error.h"
#include "host/support/unsupported.h"

namespace gantry {
namespace {

// A few bytes of a file can say any dimensions.
constexpr int64_t kMostBytes = int64_t{1} << 31;

/// The dense tensor's extents, whose elements fit into kMostBytes.
std::vector<int64_t> extents_of(const onnx::SparseTensorProto& tensor, DType dtype, const std::string& what) {
  const std::vector<int64_t> extents(tensor.dims().begin(), tensor.dims().end());
  bool empty = false;
  for (const int64_t extent : extents) {
    if (extent < 0) user_error("{} has a negative dimension ({})", what, extent);
    empty = empty || extent == 0;
  }
  int64_t bytes = byte_width(dtype);
  for (const int64_t extent : extents) {
    if (empty || (!__builtin_mul_overflow(bytes, extent, &bytes) && bytes <= kMostBytes)) continue;
    throw Unsupported(
        UnsupportedKind::kValueKind, "sparse tensor of more than 2 GiB",
        fmt::format("{} is a sparse tensor that takes more than 2 GiB where it is dense", what));
  }
  return extents;
}

/// Positions in the dense tensor's elements, of rows of coordinates: one, or one for each dimension.
class Positions {
 public:
  Positions(const ConstantData& indices, std::vector<int64_t> extents, std::string what)
      : extents_(std::move(extents)), what_(std::move(what)) {
    const Shape& shape = indices.type.shape;
    if (indices.type.dtype != DType::kI64 || shape.empty() || shape.size() > 2)
      user_error("{} has positions {}, which should be i64 of one or two dimensions", what_,
                 indices.type.str());
    count_ = shape[0].value();
    const bool empty = std::ranges::count(extents_, 0) != 0;
    if (empty && count_ > 0) user_error("{} stores elements, and has none", what_);
    if (shape.size() == 1) {
      int64_t count = 1;
      for (const int64_t extent : extents_) count = empty ? 0 : count * extent;
      extents_ = {count};
    } else if (shape[1].value() != static_cast<int64_t>(extents_.size())) {
      user_error("{} of {} dimensions has positions of {}", what_, extents_.size(), shape[1].value());
    }
    coordinates_ = {indices.as<int64_t>(), static_cast<size_t>(count_) * extents_.size()};
  }

  int64_t count() const { return count_; }
  /// Of the next element that is stored.
  size_t next() {
    int64_t position = 0;
    for (const int64_t extent : extents_) {
      const int64_t at = coordinates_[taken_++];
      if (at < 0 || at >= extent) user_error("{} stores an element at {} of {}", what_, at, extent);
      position = position * extent + at;
    }
    if (position <= last_) user_error("{} has positions that do not ascend", what_);
    last_ = position;
    return static_cast<size_t>(position);
  }

 private:
  std::vector<int64_t> extents_;
  std::string what_;
  std::span<const int64_t> coordinates_;
  int64_t count_ = 0, last_ = -1;
  size_t taken_ = 0;
};

}  // namespace

ConstantPtr dense_tensor(TensorReader& reader, const onnx::SparseTensorProto& tensor,
                         const std::string& what) {
  const ConstantPtr values = reader.read(tensor.values(), what),
                    indices = reader.read(tensor.indices(), what);
  const DType dtype = values->type.dtype;
  if (dtype == DType::kString) {
    throw Unsupported(UnsupportedKind::kValueKind, "sparse tensor of strings",
                      fmt::format("{} is a sparse tensor of strings", what));
  }
  const std::vector<int64_t> extents = extents_of(tensor, dtype, what);
  Positions positions(*indices, extents, what);
  const Shape& stored = values->type.shape;
  if (stored.size() != 1 || stored[0].value() != positions.count())
    user_error("{} has values {} for {} positions", what, values->type.str(), positions.count());
  std::byte* bytes = nullptr;
  auto dense = allocate_constant({dtype, Shape(extents.begin(), extents.end())}, &bytes);
  std::memset(bytes, 0, dense->size);
  const auto width = static_cast<size_t>(byte_width(dtype));
  for (int64_t i = 0; i < positions.count(); ++i)
    std::memcpy(bytes + positions.next() * width, values->bytes + static_cast<size_t>(i) * width, width);
  return dense;
}

}  // namespace gantry
