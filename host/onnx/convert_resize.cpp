// Resize and its predecessor Upsample.
#include <algorithm>
#include <cmath>

#include "host/onnx/converters.h"
#include "host/ops/resize.h"

namespace gantry {
namespace {

template <typename Enum>
Enum choose(NodeImport& n, const char* attribute, const std::string& text,
            std::initializer_list<std::string_view> names) {
  auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) n.unsupported(UnsupportedKind::kAttribute, "{} '{}'", attribute, text);
  return static_cast<Enum>(it - names.begin());
}

/// floor(extent * scale); a symbolic extent needs a scale that is a small fraction.
Dim scaled_extent(NodeImport& n, const Dim& extent, double scale) {
  if (!(scale > 0 && scale < 1e6)) n.fail("a scale of {} makes no sense", scale);
  if (extent.is_constant()) {
    // Scales are f32: their rounding must not lose a whole element.
    return static_cast<int64_t>(std::floor(static_cast<double>(extent.value()) * scale + 1e-6));
  }
  for (int64_t denominator = 1; denominator <= 64; ++denominator) {
    double numerator = scale * static_cast<double>(denominator);
    if (std::abs(numerator - std::round(numerator)) < 1e-6) {
      return floordiv(extent * static_cast<int64_t>(std::round(numerator)), denominator);
    }
  }
  n.unsupported(UnsupportedKind::kRunTimeValue, "a dimension whose scale is {}", scale);
}

std::shared_ptr<ResizeAttrs> start_attrs(NodeImport& n) {
  auto attrs = std::make_shared<ResizeAttrs>();
  attrs->sizes = n.type(0).shape;
  attrs->scales.assign(attrs->sizes.size(), 0);
  std::string mode = n.text("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  attrs->mode = choose<ResizeMode>(n, "mode", mode, {"nearest", "linear", "cubic"});
  return attrs;
}

void apply_scales(NodeImport& n, ResizeAttrs& attrs, const std::vector<double>& scales,
                  const std::vector<int64_t>& axes) {
  if (scales.size() != axes.size()) n.fail("has {} scales for {} axes", scales.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = static_cast<size_t>(axes[i]);
    attrs.scales[axis] = scales[i];
    if (scales[i] != 1) attrs.sizes[axis] = scaled_extent(n, attrs.sizes[axis], scales[i]);
  }
}

std::vector<int64_t> all_axes(NodeImport& n) {
  std::vector<int64_t> axes;
  for (int i = 0; i < n.rank(0); ++i) axes.push_back(i);
  return axes;
}

/// Upsample and Resize of opset 10: positions are floor(i / scale).
void convert_upsample(NodeImport& n) {
  auto attrs = start_attrs(n);
  attrs->coordinates = ResizeCoordinates::kAsymmetric;
  attrs->rounding = ResizeRounding::kFloor;
  std::vector<double> scales = n.has(1) ? n.numbers(1, "scales") : n.number_list("scales");
  apply_scales(n, *attrs, scales, all_axes(n));
  n.set(0, n.add(op::resize, {n.input(0)}, attrs));
}

/// Scales that fit the sizes without changing the aspect ratio.
void keep_aspect_ratio(NodeImport& n, ResizeAttrs& attrs, const Shape& sizes,
                       const std::vector<int64_t>& axes, bool larger) {
  double scale = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim& extent = attrs.sizes[static_cast<size_t>(axes[i])];
    if (!extent.is_constant() || !sizes[i].is_constant() || extent.value() == 0) {
      n.unsupported(UnsupportedKind::kRunTimeValue, "dimensions whose aspect ratio is kept");
    }
    double ratio = static_cast<double>(sizes[i].value()) / static_cast<double>(extent.value());
    scale = i == 0 ? ratio : larger ? std::max(scale, ratio) : std::min(scale, ratio);
  }
  for (int64_t axis : axes) {
    Dim& extent = attrs.sizes[static_cast<size_t>(axis)];
    attrs.scales[static_cast<size_t>(axis)] = scale;
    extent = static_cast<int64_t>(std::floor(scale * static_cast<double>(extent.value()) + 0.5));
  }
}

void read_roi(NodeImport& n, ResizeAttrs& attrs, const std::vector<int64_t>& axes) {
  size_t rank = attrs.sizes.size();
  attrs.roi.assign(2 * rank, 0);
  std::fill(attrs.roi.begin() + static_cast<std::ptrdiff_t>(rank), attrs.roi.end(), 1.0);
  std::vector<double> roi = n.numbers(1, "region of interest");
  if (roi.size() != 2 * axes.size()) n.fail("its region of interest should have {} numbers", 2 * axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    attrs.roi[static_cast<size_t>(axes[i])] = roi[i];
    attrs.roi[rank + static_cast<size_t>(axes[i])] = roi[axes.size() + i];
  }
}

void convert_resize_11(NodeImport& n) {
  auto attrs = start_attrs(n);
  attrs->antialias = n.integer("antialias", 0) != 0;
  attrs->coordinates = choose<ResizeCoordinates>(n, "coordinate_transformation_mode",
                                                 n.text("coordinate_transformation_mode", "half_pixel"),
                                                 {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                                  "align_corners", "asymmetric", "tf_crop_and_resize"});
  attrs->rounding = choose<ResizeRounding>(n, "nearest_mode", n.text("nearest_mode", "round_prefer_floor"),
                                           {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  attrs->cubic_a = n.number("cubic_coeff_a", -0.75);
  attrs->exclude_outside = n.integer("exclude_outside", 0) != 0;
  attrs->extrapolation = n.number("extrapolation_value", 0);
  std::vector<int64_t> axes = n.integer_list("axes");
  if (axes.empty()) axes = all_axes(n);
  for (int64_t& axis : axes) axis = n.axis(axis, n.rank(0));
  if (attrs->coordinates == ResizeCoordinates::kTfCropAndResize) read_roi(n, *attrs, axes);
  bool by_scales = n.has(2) && !(element_count(n.type(2).shape) == Dim(0));
  if (by_scales) {
    apply_scales(n, *attrs, n.numbers(2, "scales"), axes);
  } else {
    Shape sizes = n.dims(3, "sizes");
    if (sizes.size() != axes.size()) n.fail("has {} sizes for {} axes", sizes.size(), axes.size());
    std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
    if (policy == "stretch") {
      for (size_t i = 0; i < axes.size(); ++i) attrs->sizes[static_cast<size_t>(axes[i])] = sizes[i];
    } else {
      keep_aspect_ratio(n, *attrs, sizes, axes, policy == "not_smaller");
    }
  }
  n.set(0, n.add(op::resize, {n.input(0)}, attrs));
}

}  // namespace

void add_resize_converters(ConverterTable& table) {
  table.push_back({"Upsample", 7, convert_upsample});
  table.push_back({"Resize", 10, convert_upsample});
  table.push_back({"Resize", 11, convert_resize_11});
}

}  // namespace gantry
