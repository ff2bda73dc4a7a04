#include "host/onnx/one_number.h"

namespace gantry {
namespace {

/// The only one of the elements of input i.
template <typename T>
T only(const NodeImport& n, const std::vector<T>& elements, size_t i, const char* what) {
  if (elements.size() != 1)
    n.fail("its {} (input {}) should be one number, not {}", what, i, elements.size());
  return elements.front();
}

}  // namespace

Dim one_dim(NodeImport& n, size_t i, const char* what, Elements elements) {
  return only(n, n.dims(i, what, elements), i, what);
}

int64_t one_integer(NodeImport& n, size_t i, const char* what) {
  return only(n, n.integers(i, what), i, what);
}

double one_number(NodeImport& n, size_t i, const char* what) {
  return only(n, n.numbers(i, what), i, what);
}

}  // namespace gantry
