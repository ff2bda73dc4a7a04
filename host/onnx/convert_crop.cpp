// com.microsoft's CropAndResize, as TensorFlow's converter writes it: parts of images, all brought to one
// size. Semantics: ONNX Runtime's kernel for CPUs.
#include "host/onnx/converters.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"

namespace gantry {
namespace {

/// f32 (boxes, count): where elements of a crop lie along an axis whose last element is at `last`. It begins
/// and ends at these fractions of the axis, (boxes).
Term positions(const Term& begin, const Term& end, int64_t count, const Term& last) {
  NodeImport& n = begin.node();
  if (count == 1) return ((begin + end) * 0.5 * last).unsqueezed(1);
  const Term index = Term::range(n, count), step = (end - begin) * last / static_cast<double>(count - 1);
  const Term place = (begin * last).unsqueezed(1) + index.cast(DType::kF32) * step.unsqueezed(1);
  const Term final_one = equal(index, index.number_like(static_cast<double>(count - 1)));
  return where(final_one, (end * last).unsqueezed(1), place);
}

struct Crops {
  Term images;          ///< (N, H, W, C)
  Term batch;           ///< (boxes) i64
  Term y, x;            ///< (boxes, height), (boxes, width)
  Term last_y, last_x;  ///< (1)
};

/// (boxes, height, width, C) at whole positions, those outside brought to the nearest there is.
Term at(const Crops& crops, const Term& y, const Term& x) {
  const Dim boxes = y.dim(0), height = y.dim(1), width = x.dim(1);
  const auto spread = [&](const Term& index, const Shape& shape) {
    return index.cast(DType::kI64).reshaped(shape).broadcast({boxes, height, width, 1});
  };
  const auto within = [](const Term& position, const Term& last) {
    return minimum(maximum(position, 0), last);
  };
  return gather_nd(crops.images,
                   concatenated({spread(crops.batch, {boxes, 1, 1, 1}),
                                 spread(within(y, crops.last_y), {boxes, height, 1, 1}),
                                 spread(within(x, crops.last_x), {boxes, 1, width, 1})},
                                -1),
                   0);
}

Term nearest(const Crops& crops) {
  return at(crops, floor(crops.y + 0.5), floor(crops.x + 0.5));
}

Term bilinear(const Crops& crops) {
  const DType dtype = crops.images.dtype();
  const Term top = floor(crops.y), left = floor(crops.x), bottom = ceil(crops.y), right = ceil(crops.x);
  const Term down = (crops.y - top).cast(dtype).unsqueezed(-1).unsqueezed(-1);
  const Term along = (crops.x - left).cast(dtype).unsqueezed(1).unsqueezed(-1);
  const auto row = [&](const Term& y) {
    const Term a = at(crops, y, left);
    return a + (at(crops, y, right) - a) * along;
  };
  const Term above = row(top);
  return above + (row(bottom) - above) * down;
}

/// Inputs: images (N, C, H, W), boxes (boxes, 4) of y1, x1, y2, x2, the image of each (boxes), and (height,
/// width).
void convert_crop_and_resize(NodeImport& n) {
  const Term given = Term::input(n, 0), corners = Term::input(n, 1).cast(DType::kF32);
  const Term batch = Term::input(n, 2).cast(DType::kI64);
  const std::string wrong = fmt::format(
      "its images {}, boxes {} and their images {} should be (N, C, H, W), (boxes, 4) and (boxes)",
      n.type(0).str(), n.type(1).str(), n.type(2).str());
  if (given.rank() != 4 || corners.rank() != 2 || batch.rank() != 1) n.fail("{}", wrong);
  require_equal(n, corners.dim(1), 4, "{}", wrong);
  require_equal(n, corners.dim(0), batch.dim(0), "{}", wrong);
  const std::vector<int64_t> size = n.integers(3, "size of its crops");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1)
    n.fail("its size of crops [{}] should be two positive numbers", fmt::join(size, ", "));
  const std::string mode = n.text("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest") n.fail("its mode is '{}', not bilinear or nearest", mode);
  const auto last = [&](int64_t axis) {
    return Term::dimensions(n, {given.dim(axis) - 1}).cast(DType::kF32);
  };
  const auto corner = [&](int64_t i) { return corners.sliced(1, i, i + 1).squeezed(1); };
  const Term last_y = last(2), last_x = last(3);
  const Crops crops{given.widened().transposed({0, 2, 3, 1}),
                    batch,
                    positions(corner(0), corner(2), size[0], last_y),
                    positions(corner(1), corner(3), size[1], last_x),
                    last_y,
                    last_x};
  const Term values = mode == "nearest" ? nearest(crops) : bilinear(crops);
  const auto inside = [](const Term& p, const Term& end) {
    return both(less_equal(p.number_like(0), p), less_equal(p, end));
  };
  const Term in_rows = inside(crops.y, last_y).unsqueezed(-1).unsqueezed(-1);
  const Term in_columns = inside(crops.x, last_x).unsqueezed(1).unsqueezed(-1);
  const Term y = where(both(in_rows, in_columns), values, n.number("extrapolation_value", 0));
  n.set(0, y.transposed({0, 3, 1, 2}).cast(given.dtype()));
}

}  // namespace

void add_crop_converters(ConverterTable& table) {
  table.push_back({"CropAndResize", 1, convert_crop_and_resize, kMicrosoft});
}

}  // namespace gantry
