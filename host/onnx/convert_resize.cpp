// Resize and its predecessor Upsample.
#include <algorithm>
#include <cmath>
#include <optional>

#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/term.h"
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

using Axes = std::vector<int64_t>;

/// A resize while it is put together.
struct Resizing {
  NodeImport& n;
  std::shared_ptr<ResizeAttrs> attrs;
  Axes axes;                ///< that scales, sizes and region of interest have entries of, in their order
  Value* scales = nullptr;  ///< of all axes, where only the running model knows them
  Value* roi = nullptr;     ///< likewise

  Dim& size(size_t i) const { return attrs->sizes[static_cast<size_t>(axes[i])]; }
  double& scale(size_t i) const { return attrs->scales[static_cast<size_t>(axes[i])]; }
};

Resizing start(NodeImport& n) {
  auto attrs = std::make_shared<ResizeAttrs>();
  attrs->sizes = n.type(0).shape;
  attrs->scales.assign(attrs->sizes.size(), 0);
  std::string mode = n.text("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  attrs->mode = choose<ResizeMode>(n, "mode", mode, {"nearest", "linear", "cubic"});
  Resizing r{n, attrs, n.integer_list("axes")};
  if (r.axes.empty()) {
    for (int i = 0; i < n.rank(0); ++i) r.axes.push_back(i);
  }
  for (int64_t& axis : r.axes) axis = n.axis(axis, n.rank(0));
  return r;
}

// --- what the running model computes

/// `values` has so many entries for each of the node's axes as there are in `otherwise`, one list after the
/// other; the same of all axes, with `otherwise` for those that the node does not name.
Value* of_all_axes(const Resizing& r, const Term& values, const std::vector<double>& otherwise) {
  const size_t rank = r.attrs->sizes.size(), count = r.axes.size();
  std::vector<int64_t> from;
  for (size_t list = 0; list < otherwise.size(); ++list) {
    for (size_t d = 0; d < rank; ++d) {
      const auto place = std::ranges::find(r.axes, static_cast<int64_t>(d)) - r.axes.begin();
      const bool named = place < std::ssize(r.axes);
      from.push_back(named ? static_cast<int64_t>(list * count) + place
                           : static_cast<int64_t>(otherwise.size() * count + list));
    }
  }
  if (provably_different(values.dim(0), static_cast<int64_t>(otherwise.size() * count)))
    r.n.fail("has {} numbers for {} axes", values.dim(0).str(), count);
  const TensorType rest{DType::kF64, {static_cast<int64_t>(otherwise.size())}};
  const Term others(r.n, r.n.constant_value(make_constant(rest, otherwise.data()), "others"));
  return gather(concatenated({values, others}, 0), Term(r.n, index_constant(r.n, from)), 0);
}

Term extents_of(const Resizing& r) {
  Shape extents;
  for (size_t i = 0; i < r.axes.size(); ++i) extents.push_back(r.size(i));
  return Term::dimensions(r.n, extents).cast(DType::kF64);
}

/// Sizes and scales (f64, one for each of the node's axes) that the running model computes.
void take_data(Resizing& r, const Term& sizes, const Term& scales) {
  const Shape bound = r.n.bind(sizes.cast(DType::kI64), "sizes");
  r.attrs->scales.assign(r.attrs->sizes.size(), 1);
  for (size_t i = 0; i < r.axes.size(); ++i) {
    r.size(i) = bound.at(i);
    r.scale(i) = 0;
  }
  r.scales = of_all_axes(r, scales, {1});
}

/// floor(extents * scales), the product in f32, as ONNX's shape inference has it.
Term scaled(const Term& extents, const Term& scales) {
  return floor(extents.cast(DType::kF32) * scales.cast(DType::kF32));
}

// --- sizes

/// The fraction that multiplies extents as its f32 does, which gives whole products too: one that is less by
/// no more than 2^-25 of the fraction rounds to it. Other products are 1 / 64 or more below the next whole
/// number, which no rounding reaches below 2^17.
std::optional<ScaleFraction> fraction_of_extents(float scale) {
  constexpr int64_t kMostParts = 64;
  const auto fraction = fraction_of(scale);
  if (!fraction || fraction->denominator > kMostParts) return std::nullopt;
  const bool is_rounded_back = static_cast<double>(scale) >= fraction->value() * (1 - 0x1p-25);
  return is_rounded_back ? fraction : std::nullopt;
}

/// floor(extent * scale) of the product in f32; of a symbolic extent too where the scale is a small fraction,
/// else the running model computes it.
Dim scaled_extent(NodeImport& n, const Dim& extent, double scale) {
  if (!(scale > 0 && scale < 1e6)) n.fail("a scale of {} makes no sense", scale);
  const auto narrow = static_cast<float>(scale);
  if (extent.is_constant())
    return static_cast<int64_t>(std::floor(static_cast<float>(extent.value()) * narrow));
  if (const auto fraction = fraction_of_extents(narrow))
    return floordiv(extent * fraction->numerator, fraction->denominator);
  const Term extents = Term::dimensions(n, {extent});
  return n.bind(scaled(extents, Term::number(n, DType::kF32, scale)).cast(DType::kI64), "sizes").at(0);
}

/// What a scale was before it was rounded to f32: the small fraction that rounds to it, where there is one.
/// By the rounded one a position that is an element's lies beside it: 1 / 0.2 before the fifth.
double before_rounding(double scale) {
  const auto fraction = fraction_of(static_cast<float>(scale));
  return fraction ? fraction->value() : scale;
}

void apply_scales(Resizing& r, const std::vector<double>& scales) {
  if (scales.size() != r.axes.size()) r.n.fail("has {} scales for {} axes", scales.size(), r.axes.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    r.scale(i) = before_rounding(scales[i]);
    if (scales[i] != 1) r.size(i) = scaled_extent(r.n, r.size(i), scales[i]);
  }
}

/// The input's scales, known or not.
void take_scales(Resizing& r, size_t input) {
  r.n.assume_length(input, std::ssize(r.axes));
  if (r.n.constant(input)) return apply_scales(r, r.n.numbers(input, "scales"));
  const Term scales = Term::input(r.n, input).cast(DType::kF64);
  take_data(r, scaled(extents_of(r), scales), scales);
}

/// Scales that fit the sizes without changing the aspect ratio.
void keep_aspect_ratio(Resizing& r, const Shape& sizes, bool larger) {
  double scale = 0;
  bool known = true;
  for (size_t i = 0; i < sizes.size() && known; ++i) {
    known = r.size(i).is_constant() && sizes[i].is_constant() && r.size(i).value() != 0;
    if (!known) break;
    const double ratio = static_cast<double>(sizes[i].value()) / static_cast<double>(r.size(i).value());
    scale = i == 0 ? ratio : larger ? std::max(scale, ratio) : std::min(scale, ratio);
  }
  if (!known) {
    const Term extents = extents_of(r), ratios = Term::dimensions(r.n, sizes).cast(DType::kF64) / extents;
    const Term one = larger ? largest(ratios, {0}, KeepAxes::kYes) : -largest(-ratios, {0}, KeepAxes::kYes);
    const Term all = one.broadcast(extents.shape());
    return take_data(r, floor(extents * all + 0.5), all);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    r.scale(i) = scale;
    r.size(i) = static_cast<int64_t>(std::floor(scale * static_cast<double>(r.size(i).value()) + 0.5));
  }
}

void take_sizes(Resizing& r) {
  r.n.assume_length(3, std::ssize(r.axes));
  const Shape sizes = r.n.dims(3, "sizes");
  if (sizes.size() != r.axes.size()) r.n.fail("has {} sizes for {} axes", sizes.size(), r.axes.size());
  const std::string policy = r.n.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch") return keep_aspect_ratio(r, sizes, policy == "not_smaller");
  for (size_t i = 0; i < sizes.size(); ++i) r.size(i) = sizes[i];
}

// --- regions, kernels

void take_roi(Resizing& r) {
  r.n.assume_length(1, 2 * std::ssize(r.axes));
  if (!r.n.constant(1)) {
    r.roi = of_all_axes(r, Term::input(r.n, 1).cast(DType::kF64), {0, 1});
    return;
  }
  const size_t rank = r.attrs->sizes.size(), count = r.axes.size();
  std::vector<double>& roi = r.attrs->roi;
  roi.assign(2 * rank, 0);
  std::fill(roi.begin() + static_cast<std::ptrdiff_t>(rank), roi.end(), 1.0);
  const std::vector<double> given = r.n.numbers(1, "region of interest");
  if (given.size() != 2 * count) r.n.fail("its region of interest should have {} numbers", 2 * count);
  for (size_t i = 0; i < count; ++i) {
    roi[static_cast<size_t>(r.axes[i])] = given[i];
    roi[rank + static_cast<size_t>(r.axes[i])] = given[count + i];
  }
}

/// How far antialiasing reaches on axes whose scale is not known yet.
void set_reaches(Resizing& r) {
  ResizeAttrs& attrs = *r.attrs;
  if (!attrs.antialias || attrs.mode == ResizeMode::kNearest) return;
  const int64_t width = attrs.mode == ResizeMode::kLinear ? 1 : 2;
  if (r.scales != nullptr) {
    const Term shrinking = minimum(maximum(Term(r.n, r.scales), 1e-6), 1);
    const Term reaches = ceil(shrinking.number_like(static_cast<double>(width)) / shrinking);
    attrs.reaches = r.n.bind(reaches.cast(DType::kI64), "sizes of kernels");
    return;
  }
  Shape reaches;
  bool open = false;
  const Shape extents = r.n.type(0).shape;
  for (size_t d = 0; d < extents.size(); ++d) {
    const Dim &in = extents[d], &out = attrs.sizes[d];
    const bool known = attrs.scales[d] != 0 || in == out || (in.is_constant() && out.is_constant());
    reaches.push_back(known ? Dim(width) : max(ceildiv(in * width, max(out, 1)), width));
    open = open || !known;
  }
  if (open) attrs.reaches = r.n.named(reaches, "reach");
}

void finish(Resizing& r) {
  set_reaches(r);
  std::vector<Value*> inputs{r.n.input(0)};
  if (r.scales != nullptr || r.roi != nullptr) inputs.push_back(r.scales);
  if (r.roi != nullptr) inputs.push_back(r.roi);
  r.n.set(0, r.n.add(op::resize, inputs, r.attrs));
}

/// Upsample and Resize of opset 10: positions are floor(i / scale), but of a Resize that shrinks ceil(i /
/// scale).
void convert_upsample(NodeImport& n) {
  Resizing r = start(n);
  r.attrs->coordinates = ResizeCoordinates::kAsymmetric;
  r.attrs->rounding = n.op_type() == "Resize" ? ResizeRounding::kSimple : ResizeRounding::kFloor;
  if (n.has(1)) {
    take_scales(r, 1);
  } else {
    apply_scales(r, n.number_list("scales"));
  }
  finish(r);
}

/// Operator sets 1 to 6 have two scales, of pictures.
void convert_upsample_1(NodeImport& n) {
  Resizing r = start(n);
  if (n.rank(0) != 4) n.fail("its data {} are no pictures", n.type(0).str());
  r.attrs->coordinates = ResizeCoordinates::kAsymmetric;
  r.attrs->rounding = ResizeRounding::kFloor;
  r.axes = {2, 3};
  apply_scales(r, {n.number("height_scale", 1), n.number("width_scale", 1)});
  finish(r);
}

void convert_resize_11(NodeImport& n) {
  Resizing r = start(n);
  ResizeAttrs& attrs = *r.attrs;
  attrs.antialias = n.integer("antialias", 0) != 0;
  attrs.coordinates = choose<ResizeCoordinates>(
      n, "coordinate_transformation_mode", n.text("coordinate_transformation_mode", "half_pixel"),
      {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
       "tf_crop_and_resize", "tf_half_pixel_for_nn"});
  attrs.rounding = choose<ResizeRounding>(n, "nearest_mode", n.text("nearest_mode", "round_prefer_floor"),
                                          {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  attrs.cubic_a = n.number("cubic_coeff_a", -0.75);
  attrs.exclude_outside = n.integer("exclude_outside", 0) != 0;
  attrs.extrapolation = n.number("extrapolation_value", 0);
  if (attrs.coordinates == ResizeCoordinates::kTfCropAndResize) take_roi(r);
  if (n.has(2) && !(element_count(n.type(2).shape) == Dim(0))) {
    take_scales(r, 2);
  } else {
    take_sizes(r);
  }
  finish(r);
}

}  // namespace

void add_resize_converters(ConverterTable& table) {
  table.push_back({"Upsample", 1, convert_upsample_1});
  table.push_back({"Upsample", 7, convert_upsample});
  table.push_back({"Resize", 10, convert_upsample});
  table.push_back({"Resize", 11, convert_resize_11});
}

}  // namespace gantry
