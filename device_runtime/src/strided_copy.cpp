#include "device_runtime/src/strided_copy.h"

#include <string.h>

namespace gantry::runtime {
namespace {

/// Copies the sub-tensor from dimension `axis` on; returns the end of what was written.
std::byte* copy_axis(const DLTensor& tensor, int axis, const std::byte* source, std::byte* target) {
  const size_t element = (tensor.dtype.bits + 7U) / 8;
  if (axis == tensor.ndim) {
    memcpy(target, source, element);
    return target + element;
  }
  const int64_t count = tensor.shape[axis], stride = tensor.strides[axis];
  if (axis + 1 == tensor.ndim && stride == 1) {
    memcpy(target, source, static_cast<size_t>(count) * element);
    return target + static_cast<size_t>(count) * element;
  }
  for (int64_t i = 0; i < count; ++i) {
    target = copy_axis(tensor, axis + 1, source + i * stride * static_cast<int64_t>(element), target);
  }
  return target;
}

}  // namespace

bool is_dense(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] == 0) return true;
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

void copy_dense(const DLTensor& tensor, std::byte* target) {
  const auto* source = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  size_t bytes = (tensor.dtype.bits + 7U) / 8;
  for (int axis = 0; axis < tensor.ndim; ++axis) bytes *= static_cast<size_t>(tensor.shape[axis]);
  if (bytes == 0) return;
  if (is_dense(tensor)) {
    memcpy(target, source, bytes);
  } else {
    copy_axis(tensor, 0, source, target);
  }
}

}  // namespace gantry::runtime
