#include "host/passes/attention_matrix.h"

#include <algorithm>
#include <utility>

namespace gantry {
namespace {

/// The digits of the leading axes.
std::optional<std::vector<AxisPart>> leading_parts(const StridedView& view, const Shape& scores) {
  if (view.rank() < 2 || view.rank() - 2 > scores.size()) return std::nullopt;
  const size_t added = scores.size() + 2 - view.rank();
  std::vector<AxisPart> parts;
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool same = i >= added && view.extent(i - added) == scores[i];
    if (same) {
      parts.insert(parts.end(), view.axes[i - added].begin(), view.axes[i - added].end());
    } else if (i < added || view.extent(i - added) == Dim(1)) {
      parts.push_back({scores[i], 0});
    } else {
      return std::nullopt;
    }
  }
  return parts;
}

}  // namespace

AttentionMatrix::AttentionMatrix(Value* value, size_t row, size_t feature, Shape scores, bool scaled)
    : value(value),
      row(row),
      feature(feature),
      scores(std::move(scores)),
      scaled(scaled),
      view(strided_view(value, {.scales = scaled})) {
  // Rows that no single stride leads along (windows of an image) are copied by what makes them.
  if (view.rank() >= 2 && (!row_stride() || !feature_stride())) view = unsplit_view();
}

StridedView AttentionMatrix::unsplit_view() const {
  return strided_view(value, {.scales = scaled, .split_axes = false});
}

std::optional<Shape> AttentionMatrix::leading() const {
  const auto parts = leading_parts(view, scores);
  if (!parts) return std::nullopt;
  Shape extents;
  for (const AxisPart& part : *parts) extents.push_back(part.extent);
  return extents;
}

std::optional<Shape> AttentionMatrix::place(const Shape& batch) {
  auto strides = batch_strides(view, scores, batch);
  if (!strides) {
    view = unsplit_view();
    strides = batch_strides(view, scores, batch);
  }
  if (!strides || !(feature_stride() == Dim(1))) return std::nullopt;
  strides->insert(strides->begin(), view.offset);
  strides->push_back(row_stride().value());
  return strides;
}

Shape finest_batch(const std::vector<Shape>& all) {
  Shape best;
  for (const Shape& shape : all) {
    Shape trimmed;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(trimmed),
                 [](const Dim& d) { return !(d == Dim(1)); });
    if (trimmed.size() > best.size()) best = trimmed;
  }
  return best;
}

std::optional<Shape> batch_strides(const StridedView& view, const Shape& scores, const Shape& batch) {
  const auto parts = leading_parts(view, scores);
  return parts ? strides_as(*parts, batch) : std::nullopt;
}

std::optional<Shape> place_bias(const StridedView& view, const Shape& scores, const Shape& batch,
                                bool transposed) {
  auto strides = batch_strides(view, scores, batch);
  if (!strides) return std::nullopt;
  const size_t rank = view.rank();
  auto stride_of = [&](size_t axis) { return view.extent(axis) == Dim(1) ? Dim(0) : view.stride(axis); };
  const auto query = stride_of(transposed ? rank - 1 : rank - 2);
  const auto key = stride_of(transposed ? rank - 2 : rank - 1);
  if (!query || !key) return std::nullopt;
  strides->insert(strides->begin(), view.offset);
  strides->push_back(*query);
  strides->push_back(*key);
  return strides;
}

}  // namespace gantry
