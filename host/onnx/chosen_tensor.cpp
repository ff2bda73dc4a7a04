#include "host/onnx/chosen_tensor.h"

#include <algorithm>

#include "host/onnx/required_dims.h"

namespace gantry {
namespace {

/// All elements lie one tensor behind the other; shapes and where each begins are data that the number
/// chooses from.
Term of_unlike_shapes(NodeImport& n, const std::vector<Term>& tensors, const Term& number) {
  const auto rank = static_cast<int64_t>(tensors[0].rank());
  std::vector<Term> flat;
  Shape shapes, begins;
  Dim total = 0;
  for (const Term& tensor : tensors) {
    const Dim size = element_count(tensor.shape());
    flat.push_back(tensor.reshaped({size}));
    shapes.insert(shapes.end(), tensor.shape().begin(), tensor.shape().end());
    begins.push_back(total);
    total = total + size;
  }
  const Term at = number.reshaped({1});
  const Term table = Term::dimensions(n, shapes).reshaped({static_cast<int64_t>(tensors.size()), rank});
  const Shape shape = n.bind(gather(table, at, 0).reshaped({rank}), "shape of a tensor");
  const Dim begin = n.bind(gather(Term::dimensions(n, begins), at, 0), "place of a tensor")[0];
  const Dim end = begin + element_count(shape);
  // Nothing may read beyond the data, whatever the running model computes.
  require_at_most(n, end, total);
  return concatenated(flat, 0).sliced(0, begin, end).reshaped(shape);
}

}  // namespace

Term stacked(const std::vector<Term>& tensors, int64_t axis) {
  std::vector<Term> parts;
  for (const Term& tensor : tensors) parts.push_back(tensor.unsqueezed(axis));
  return concatenated(parts, axis);
}

Term chosen_tensor(NodeImport& n, const std::vector<Term>& tensors, const Term& number) {
  const Term& first = tensors.at(0);
  const auto is_like = [&](const Term& other) {
    return other.dtype() == first.dtype() && other.rank() == first.rank();
  };
  if (!std::ranges::all_of(tensors, is_like))
    n.unsupported(UnsupportedKind::kRunTimeValue, "position in a sequence of tensors of unlike ranks");
  const auto is_same = [&](const Term& other) { return other.shape() == first.shape(); };
  if (std::ranges::all_of(tensors, is_same)) return gather(stacked(tensors, 0), number.reshaped({}), 0);
  return of_unlike_shapes(n, tensors, number);
}

}  // namespace gantry
