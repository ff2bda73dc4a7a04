// Dense copies of tensors with strides.
#pragma once

#include <cstddef>

#include "gantry/dlpack.h"

namespace gantry::runtime {

/// True where the elements lie one after another, row-major.
bool is_dense(const DLTensor& tensor);
/// Copies the elements, row-major, to `target`.
void copy_dense(const DLTensor& tensor, std::byte* target);

}  // namespace gantry::runtime
