// Data at positions which are data: grids, deformed windows, regions of interest.
#include <functional>
#include <numeric>

#include "host/onnx/converters.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"
#include "host/onnx/window.h"
#include "host/ops/grid_sample.h"
#include "host/ops/roi.h"

namespace gantry {
namespace {

/// The mode; opset 16 has names of two dimensions.
SampleMode sample_mode(NodeImport& n) {
  const std::string mode = n.text("mode", n.opset() < 20 ? "bilinear" : "linear");
  if (mode == "nearest") return SampleMode::kNearest;
  if (mode == "linear" || mode == "bilinear") return SampleMode::kLinear;
  if (mode == "cubic" || mode == "bicubic") return SampleMode::kCubic;
  n.unsupported(UnsupportedKind::kAttribute, "mode '{}'", mode);
}

void convert_grid_sample(NodeImport& n) {
  auto attrs = std::make_shared<GridSampleAttrs>();
  attrs->mode = sample_mode(n);
  attrs->align_corners = n.integer("align_corners", 0) != 0;
  const std::string padding = n.text("padding_mode", "zeros");
  if (padding == "border")
    attrs->padding = SamplePadding::kBorder;
  else if (padding == "reflection")
    attrs->padding = SamplePadding::kReflection;
  else if (padding != "zeros")
    n.unsupported(UnsupportedKind::kAttribute, "padding_mode '{}'", padding);
  n.set(0, n.add(nn::grid_sample, {n.input(0), n.input(1)}, attrs));
}

/// -1 to 1 in `count` steps: the centres of the first and the last element, or their outer edges.
Term normalised_positions(NodeImport& n, const Dim& count, bool align_corners, DType dtype) {
  const Term index = Term::range(n, count).cast(dtype), length = Term::range(n, 1, count).cast(dtype);
  if (!align_corners) return (index * 2 + 1) / length - 1;
  return index * 2 / maximum(length - 1, 1) - 1;  // a lone element lies at -1, as in ONNX's reference
}

/// theta (N, k, k + 1) applied to the normalised positions of a tensor (N, C, spatial…) -> (N, spatial…, k).
void convert_affine_grid(NodeImport& n) {
  const Term theta = Term::input(n, 0);
  if (theta.rank() == 3 && theta.dim(1).is_constant()) n.assume_length(1, theta.dim(1).value() + 2);
  const Shape size = n.dims(1, "size");
  const size_t axes = size.size() < 2 ? 0 : size.size() - 2;
  constexpr auto kText = "its size {} does not fit {}";
  if (axes < 1 || theta.rank() != 3) n.fail(kText, to_string(size), n.type(0).str());
  for (const int64_t axis : {1, 2})
    require_equal(n, theta.dim(axis), std::ssize(size) - 3 + axis, kText, to_string(size), n.type(0).str());
  const bool align_corners = n.integer("align_corners", 0) != 0;
  // Coordinates (N, spatial…, 1), x first, each of them along an axis of its own.
  Shape result{theta.dim(0)};
  result.insert(result.end(), size.begin() + 2, size.end());
  result.push_back(1);
  std::vector<Term> coordinates;
  for (size_t axis = axes; axis-- > 0;) {
    Shape along(axes + 2, 1);
    along[axis + 1] = size[axis + 2];
    coordinates.push_back(
        normalised_positions(n, size[axis + 2], align_corners, theta.dtype()).reshaped(along));
  }
  std::vector<Term> rows;
  for (size_t row = 0; row < axes; ++row) {
    const auto factor = [&](size_t column) {
      Shape shape(axes + 2, 1);
      shape[0] = theta.dim(0);
      const auto at = static_cast<int64_t>(row), to = static_cast<int64_t>(column);
      return theta.sliced(1, at, at + 1).sliced(2, to, to + 1).reshaped(shape);
    };
    Term total = factor(axes);
    for (size_t i = 0; i < axes; ++i) total = total + factor(i) * coordinates[i];
    rows.push_back(total.broadcast(result));
  }
  n.set(0, concatenated(rows, -1));
}

Shape grouped(std::initializer_list<Dim> leading, const Shape& trailing) {
  Shape shape(leading);
  shape.insert(shape.end(), trailing.begin(), trailing.end());
  return shape;
}

int64_t taps_of(const std::vector<int64_t>& kernel) {
  return std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>());
}

/// Where the elements of each window lie in so many images: for each axis, the last one first as grids have
/// them, (images, taps, places…, 1).
std::vector<Term> tap_coordinates(NodeImport& n, const Term& offset, const Dim& images,
                                  const std::vector<int64_t>& kernel, const Window& window) {
  const size_t axes = kernel.size();
  const int64_t taps = taps_of(kernel);
  const Shape places(offset.shape().begin() + 2, offset.shape().end());
  const Term offsets = offset.reshaped(grouped({images, taps, static_cast<int64_t>(axes)}, places));
  int64_t inner = taps;
  std::vector<Term> in_order;
  for (size_t i = 0; i < axes; ++i) {
    inner /= kernel[i];
    // The element of the window: floor(tap / inner) mod its extent; and the window's first.
    std::vector<float> steps;
    for (int64_t tap = 0; tap < taps; ++tap)
      steps.push_back(static_cast<float>(tap / inner % kernel[i] * window.dilations[i]));
    Value* step = n.constant_value(make_constant({DType::kF32, {taps}}, steps.data()), "taps");
    Shape along_taps(axes + 2, 1), along_places(axes + 2, 1);
    along_taps[1] = taps;
    along_places[2 + i] = places[i];
    const Term first =
        Term::range(n, places[i]).cast(offset.dtype()) * static_cast<double>(window.strides[i]) -
        Term::range(n, 1, window.padding[i]).cast(offset.dtype());
    const Term tap = Term(n, step).cast(offset.dtype()).reshaped(along_taps);
    const auto axis = static_cast<int64_t>(i);
    const Term moved = offsets.sliced(2, axis, axis + 1).reshaped(grouped({images, taps}, places));
    in_order.push_back((moved + tap + first.reshaped(along_places)).unsqueezed(-1));
  }
  return {in_order.rbegin(), in_order.rend()};
}

/// A convolution whose window's elements lie at offsets that are data: they are sampled, and one matrix
/// product of every group follows.
void convert_deform_conv(NodeImport& n) {
  const Term x = Term::input(n, 0), weight = Term::input(n, 1), offset = Term::input(n, 2);
  if (!constant_shape(weight.shape()) || x.rank() < 3 || x.rank() != weight.rank())
    n.fail("its weight {} does not fit the data {}", n.type(1).str(), n.type(0).str());
  const size_t axes = static_cast<size_t>(x.rank()) - 2;
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < axes; ++i) kernel.push_back(weight.dim(static_cast<int64_t>(i) + 2).value());
  const int64_t taps = taps_of(kernel);
  const Window window = read_window(n, kernel, n.type(0));
  const int64_t groups = n.integer("group", 1), offset_groups = n.integer("offset_group", 1);
  if (groups < 1 || offset_groups < 1) n.fail("its groups are {} and {}", groups, offset_groups);
  const Dim batch = x.dim(0), channels = x.dim(1);
  if (offset.rank() != x.rank() ||
      provably_different(offset.dim(1), offset_groups * taps * static_cast<int64_t>(axes)))
    n.fail("its offsets {} do not fit the weight {}", n.type(2).str(), n.type(1).str());
  const Shape places(offset.shape().begin() + 2, offset.shape().end());

  const std::vector<Term> coordinates = tap_coordinates(n, offset, batch * offset_groups, kernel, window);
  auto attrs = std::make_shared<GridSampleAttrs>();
  attrs->normalized = false;
  Shape image{batch * offset_groups, floordiv(channels, offset_groups)};
  image.insert(image.end(), x.shape().begin() + 2, x.shape().end());
  Term columns(n, n.add(nn::grid_sample, {x.reshaped(image), concatenated(coordinates, -1)}, attrs));
  if (n.has(4)) {
    const Term mask = Term::input(n, 4).reshaped(grouped({batch * offset_groups, 1, taps}, places));
    columns = columns * mask;
  }
  const Dim count = element_count(places), rows = weight.dim(0);
  const Dim depth = floordiv(channels, groups) * taps;
  const Term product = matmul(weight.reshaped({groups, floordiv(rows, groups), depth}),
                              columns.reshaped({batch, groups, depth, count}));
  Term y = product.reshaped(grouped({batch, rows}, places));
  if (n.has(3)) {
    Shape along(axes + 1, 1);
    along[0] = rows;
    y = y + Term::input(n, 3).reshaped(along);
  }
  n.set(0, y);
}

void convert_roi_align(NodeImport& n) {
  auto attrs = std::make_shared<RoiAlignAttrs>();
  attrs->height = n.integer("output_height", 1);
  attrs->width = n.integer("output_width", 1);
  attrs->sampling_ratio = n.integer("sampling_ratio", 0);
  attrs->scale = n.number("spatial_scale", 1);
  const std::string mode = n.text("mode", "avg");
  if (mode != "avg" && mode != "max") n.fail("its mode is '{}', not avg or max", mode);
  attrs->takes_largest = mode == "max";
  // Opset 10 had no choice: positions are not moved by half an element.
  const std::string coordinates =
      n.text("coordinate_transformation_mode", n.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    n.fail("its coordinate_transformation_mode is '{}'", coordinates);
  attrs->half_pixel = coordinates == "half_pixel";
  n.set(0, n.add(nn::roi_align, {n.input(0), n.input(1), n.input(2)}, attrs));
}

void convert_max_roi_pool(NodeImport& n) {
  const std::vector<int64_t> shape = n.integer_list("pooled_shape");
  if (shape.size() != 2) n.fail("its pooled_shape should have 2 entries");
  auto attrs = std::make_shared<RoiPoolAttrs>();
  attrs->height = shape[0];
  attrs->width = shape[1];
  attrs->scale = n.number("spatial_scale", 1);
  n.set(0, n.add(nn::max_roi_pool, {n.input(0), n.input(1)}, attrs));
}

}  // namespace

void add_sample_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"GridSample", 16, convert_grid_sample}, {"AffineGrid", 20, convert_affine_grid},
      {"DeformConv", 19, convert_deform_conv}, {"RoiAlign", 10, convert_roi_align},
      {"MaxRoiPool", 1, convert_max_roi_pool}, {"GridSample", 1, convert_grid_sample, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
