#include "host/graph/type.h"

#include <fmt/format.h>

namespace gantry {

std::string TensorType::str() const {
  return fmt::format("Tensor[{}, {}]", to_string(shape), name_of(dtype));
}

bool may_be_equal(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (provably_different(a.shape[i], b.shape[i])) return false;
  }
  return true;
}

}  // namespace gantry
