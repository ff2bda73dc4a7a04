// Derivatives of ops that rearrange elements: each element's adjoint goes to where the element came from.
#include <algorithm>

#include "host/onnx/gradient.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/sequence.h"

namespace gantry {
namespace {

void pass_on(Pullback& back) {
  back.give(0, back.adjoint());
}

void back_through_reshape(Pullback& back) {
  back.give(0, back.adjoint().reshaped(back.input(0).shape()));
}

void back_through_transpose(Pullback& back) {
  const std::vector<int64_t>& axes = back.attrs<TransposeAttrs>().axes;
  std::vector<int64_t> inverse(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) inverse[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  back.give(0, back.adjoint().transposed(std::move(inverse)));
}

void back_through_concatenate(Pullback& back) {
  const int64_t axis = back.attrs<AxisAttrs>().axis;
  Dim begin = 0;
  for (size_t i = 0; i < back.input_count(); ++i) {
    const Dim end = begin + back.input(i).dim(axis);
    if (back.wants(i)) back.give(i, back.adjoint().sliced_inside(axis, begin, end));  // which together are it
    begin = end;
  }
}

/// x between zeros.
Term padded(const Term& x, Shape before, Shape after) {
  auto attrs = std::make_shared<PadAttrs>();
  attrs->before = std::move(before);
  attrs->after = std::move(after);
  return {x.node(), x.node().add(op::pad, {x}, attrs)};
}

/// Positions begin, begin + step, …
Term positions(NodeImport& n, const Dim& begin, int64_t step, const Dim& count) {
  return Term::range(n, count) * static_cast<double>(step) + Term::dimensions(n, {begin});
}

void back_through_slice(Pullback& back) {
  const auto& attrs = back.attrs<StridedSliceAttrs>();
  const Shape& shape = back.input(0).shape();
  Term adjoint = back.adjoint();
  Shape before(shape.size(), Dim(0)), after = before;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto axis = static_cast<int64_t>(d);
    const Dim count = adjoint.dim(axis);
    if (attrs.strides[d] == 1) {
      before[d] = attrs.begin[d];
      after[d] = shape[d] - attrs.begin[d] - count;
    } else {
      adjoint =
          spread(adjoint, positions(back.import(), attrs.begin[d], attrs.strides[d], count), axis, shape[d]);
    }
  }
  const auto is_zero = [](const Dim& dim) { return dim == Dim(0); };
  if (std::ranges::all_of(before, is_zero) && std::ranges::all_of(after, is_zero))
    return back.give(0, adjoint);
  back.give(0, padded(adjoint, std::move(before), std::move(after)));
}

/// The positions of which elements of the padded axis are copies.
Term copied_positions(NodeImport& n, PadMode mode, const Dim& total, const Dim& before, const Dim& extent) {
  const Term at = Term::range(n, total) - Term::dimensions(n, {before});
  const Term count = Term::dimensions(n, {extent});
  switch (mode) {
    case PadMode::kEdge:
      return minimum(maximum(at, 0), count - 1);
    case PadMode::kReflect:
      return minimum(abs(at), (count - 1) * 2 - abs(at));
    default:
      return {n, n.add(op::mod, {at, count})};
  }
}

void back_through_pad(Pullback& back) {
  const auto& attrs = back.attrs<PadAttrs>();
  const Shape& shape = back.input(0).shape();
  Term adjoint = back.adjoint();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (attrs.before[d] == Dim(0) && attrs.after[d] == Dim(0)) continue;
    const auto axis = static_cast<int64_t>(d);
    if (attrs.mode == PadMode::kConstant) {
      // Amounts are not negative, whatever is known of them.
      adjoint = adjoint.sliced_inside(axis, attrs.before[d], attrs.before[d] + shape[d]);
    } else {
      const Term from =
          copied_positions(back.import(), attrs.mode, adjoint.dim(axis), attrs.before[d], shape[d]);
      adjoint = spread(adjoint, from, axis, shape[d]);
    }
  }
  back.give(0, adjoint);
}

void back_through_tile(Pullback& back) {
  const Shape& repeats = back.attrs<TileAttrs>().repeats;
  const Shape& shape = back.input(0).shape();
  Shape apart;
  std::vector<int64_t> repeated;
  for (size_t d = 0; d < shape.size(); ++d) {
    repeated.push_back(static_cast<int64_t>(apart.size()));
    apart.push_back(repeats[d]);
    apart.push_back(shape[d]);
  }
  if (shape.empty()) return back.give(0, back.adjoint());
  back.give(0, sum(back.adjoint().reshaped(std::move(apart)), std::move(repeated)));
}

/// Of ops that are linear and equal to their transpose: the op itself, with its further inputs.
template <const auto& op>
void back_through_itself(Pullback& back) {
  std::vector<Value*> inputs = back.node().inputs;
  inputs[0] = back.adjoint();
  back.give(0, {back.import(), back.import().add_any(op, std::move(inputs), back.node().attrs)[0]});
}
template <const Op<BlockAttrs>& inverse>
void back_through_blocks(Pullback& back) {
  auto attrs = std::make_shared<BlockAttrs>(back.attrs<BlockAttrs>());
  back.give(0, {back.import(), back.import().add(inverse, {back.adjoint()}, attrs)});
}

}  // namespace

void add_movement_gradients(GradientTable& table) {
  const GradientEntry entries[] = {
      {&op::reshape, back_through_reshape},
      {&op::identity, pass_on},
      {&nn::dropout, pass_on},
      {&op::transpose, back_through_transpose},
      {&op::concatenate, back_through_concatenate},
      {&op::strided_slice, back_through_slice},
      {&op::pad, back_through_pad},
      {&op::broadcast_to, pass_on},  // summed where it is given
      {&op::tile, back_through_tile},
      {&op::trilu, back_through_itself<op::trilu>},
      {&op::reverse_sequence, back_through_itself<op::reverse_sequence>},
      {&nn::depth_to_space, back_through_blocks<nn::space_to_depth>},
      {&nn::space_to_depth, back_through_blocks<nn::depth_to_space>},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
