// nn.roi_align and nn.max_roi_pool: loop nests by hand, as how many elements a result is of depends on the
// region.
#include "host/ops/roi.h"

#include <cmath>

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/readable.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

std::vector<TensorType> infer_roi(const Node& node, Function& function, int64_t columns, int64_t height,
                                  int64_t width) {
  const TensorType &x = input_type(node, 0), &regions = input_type(node, 1);
  ops::require_float(node, 0);
  ops::require_same_dtype(node, 0, 1);
  require(x.rank() == 4, "the data {} should have 4 dimensions", x.str());
  require(regions.rank() == 2 && !provably_different(regions.shape[1], columns),
          "regions {} should have {} columns", regions.str(), columns);
  ops::unify(regions.shape[1], columns, function, node, "columns of regions");
  require(height > 0 && width > 0, "a result of {} x {}", height, width);
  return {{x.dtype, {regions.shape[0], x.shape[1], height, width}}};
}

/// Places are brought into the data: axis `d` of those has an element, where there is a region.
void require_readable(size_t d, Function& function, const Node& node) {
  const TensorType &x = input_type(node, 0), &regions = input_type(node, 1);
  ops::require_readable(x.shape[d], {regions.shape[0]}, function, node,
                        fmt::format("axis {} of {} has nothing that a region could be of", d, x.str()));
}

std::vector<TensorType> infer_roi_align(const Node& node, Function& function) {
  const auto& a = node.attrs_as<RoiAlignAttrs>();
  const TensorType& images = input_type(node, 2);
  require(images.rank() == 1 && (images.dtype == DType::kI64 || images.dtype == DType::kI32),
          "the regions' images {} should be a vector of integers", images.str());
  std::vector<TensorType> types = infer_roi(node, function, 4, a.height, a.width);
  ops::unify(input_type(node, 1).shape[0], images.shape[0], function, node, "regions and their images");
  for (const size_t d : {0U, 2U, 3U}) require_readable(d, function, node);
  return types;
}

std::vector<TensorType> infer_roi_pool(const Node& node, Function& function) {
  const auto& a = node.attrs_as<RoiPoolAttrs>();
  std::vector<TensorType> types = infer_roi(node, function, 5, a.height, a.width);
  require_readable(0, function, node);  // parts without rows or columns are not read
  return types;
}

/// A result's place, and the data that it is of.
struct RoiNest {
  Expr images, channels, rows, columns;  ///< of the data
  Expr regions;
  int64_t height, width;  ///< of the result
  DType dtype, wide;

  RoiNest(const std::vector<Tensor>& in, int64_t result_height, int64_t result_width)
      : images(in[0].shape()[0]),
        channels(in[0].shape()[1]),
        rows(in[0].shape()[2]),
        columns(in[0].shape()[3]),
        regions(in[1].shape()[0]),
        height(result_height),
        width(result_width),
        dtype(in[0].dtype()),
        wide(ops::widened(in[0].dtype())) {}

  Expr number(double value) const { return float_imm(wide, value); }
  Expr count() const { return regions * channels * height * width; }
  /// What one result is of, by its row-major position.
  struct At {
    Expr region, channel, row, column;
  };
  At at(const Expr& i) const {
    const Expr plane = floordiv(i, height * width);
    return {floordiv(plane, channels), mod(plane, channels), mod(floordiv(i, width), height), mod(i, width)};
  }
  Expr coordinate(LoopBuilder& b, const Expr& region, int64_t columns_of_region, int64_t column) const {
    return ops::widen(load(b.input(1), region * columns_of_region + column));
  }
  Expr plane(const Expr& image, const Expr& channel) const {
    return (ops::clamped_position(image, images) * channels + channel) * rows * columns;
  }
};

using Result = std::function<void(LoopBuilder&, const Expr& i)>;

std::vector<Tensor> roi_kernel(const Node& node, const std::vector<Tensor>& in, const RoiNest& nest,
                               const char* name, const Result& result) {
  const auto on_cpu = [=](LoopBuilder& b) {
    b.loop(
        "plane", nest.regions * nest.channels,
        [&](const Expr& plane) {
          const int64_t each = nest.height * nest.width;
          b.loop("i", each, [&](const Expr& i) { result(b, plane * each + i); });
        },
        LoopKind::kParallel);
  };
  const auto on_gpu = [=](LoopBuilder& b) {
    b.launch_flat(nest.count(), [&](const Expr& i) { result(b, i); });
  };
  return extern_kernel(in, {ops::result_shape(node)}, {nest.dtype}, on_cpu, name, on_gpu);
}

// --- nn.roi_align

/// One axis of a region's part: where it begins, how long it is, and its points.
struct Part {
  Expr begin, length, points;
};

/// Along an axis between coordinates `low` and `high`, cut into `parts`.
Part part_of(const RoiNest& nest, const RoiAlignAttrs& a, const Expr& low, const Expr& high, int64_t parts,
             const Expr& index) {
  const Expr shift = nest.number(a.half_pixel ? 0.5 : 0), scale = nest.number(a.scale);
  const Expr begin = low * scale - shift;
  Expr extent = high * scale - shift - begin;
  if (!a.half_pixel) extent = max(extent, nest.number(1));
  const Expr length = extent / nest.number(static_cast<double>(parts));
  Expr points = Expr(a.sampling_ratio);
  if (a.sampling_ratio <= 0) points = max(Expr(0), cast(DType::kI64, call(MathFn::kCeil, {length})));
  return {begin + cast(nest.wide, index) * length, length, points};
}

/// The elements around a position, and how much the second weighs; positions an element or more outside count
/// as 0.
struct Neighbours {
  Expr low, high, fraction, inside;
};
Neighbours neighbours(const RoiNest& nest, const Expr& position, const Expr& extent) {
  Neighbours at;
  at.inside = ge(position, nest.number(-1)) && le(position, cast(nest.wide, extent));
  const Expr inner = max(position, nest.number(0));
  at.low = max(Expr(0), min(cast(DType::kI64, inner), extent - 1));
  at.high = min(at.low + 1, extent - 1);
  at.fraction = select(ge(at.low, extent - 1), nest.number(0), inner - cast(nest.wide, at.low));
  return at;
}

void emit_roi_align(LoopBuilder& b, const RoiNest& nest, const RoiAlignAttrs& a, const Expr& i) {
  const RoiNest::At at = nest.at(i);
  const Buffer total = b.local("total", nest.wide, 1);
  const auto corner = [&](int64_t column) { return nest.coordinate(b, at.region, 4, column); };
  const Part y = part_of(nest, a, corner(1), corner(3), a.height, at.row);
  const Part x = part_of(nest, a, corner(0), corner(2), a.width, at.column);
  const Expr lowest = identity_of(ReduceKind::kMax, nest.wide);
  b.emit(store(total, 0, a.takes_largest ? lowest : nest.number(0)));
  const auto point = [&](const Part& part, const Expr& index) {
    return part.begin +
           (cast(nest.wide, index) + nest.number(0.5)) * part.length / cast(nest.wide, part.points);
  };
  b.let("image", nest.plane(load(b.input(2), at.region), at.channel), [&](const Expr& plane) {
    b.loop("py", y.points, [&](const Expr& py) {
      b.loop("px", x.points, [&](const Expr& px) {
        const Neighbours v = neighbours(nest, point(y, py), nest.rows),
                         h = neighbours(nest, point(x, px), nest.columns);
        const Expr one = nest.number(1);
        const auto tap = [&](const Expr& row, const Expr& column, const Expr& weight) {
          return weight * ops::widen(load(b.input(0), plane + row * nest.columns + column));
        };
        const Expr taps[] = {tap(v.low, h.low, (one - v.fraction) * (one - h.fraction)),
                             tap(v.low, h.high, (one - v.fraction) * h.fraction),
                             tap(v.high, h.low, v.fraction * (one - h.fraction)),
                             tap(v.high, h.high, v.fraction * h.fraction)};
        const Expr all = a.takes_largest ? max(max(taps[0], taps[1]), max(taps[2], taps[3]))
                                         : taps[0] + taps[1] + taps[2] + taps[3];
        const Expr value = select(v.inside && h.inside, all, nest.number(0));
        const Expr sum = load(total, 0);
        b.emit(store(total, 0, a.takes_largest ? max(sum, value) : sum + value));
      });
    });
  });
  const Expr points = max(y.points * x.points, Expr(1));
  Expr result = load(total, 0);
  if (a.takes_largest)
    result = select(gt(y.points * x.points, Expr(0)), result, nest.number(0));
  else
    result = result / cast(nest.wide, points);
  b.emit(store(b.result(0), i, cast(nest.dtype, result)));
}

// --- nn.max_roi_pool

/// Elements [begin, end) of a part of a region.
struct Span {
  Expr begin, end;
};
Span span_of(const RoiNest& nest, double scale, const Expr& low, const Expr& high, int64_t parts,
             const Expr& index, const Expr& extent) {
  // Half away from zero, as the original has it. What is added is the number before a half: it makes one of a
  // half, but not of what is just below.
  const bool is_double = nest.wide == DType::kF64;
  const double half = is_double ? std::nextafter(0.5, 0.0) : double{std::nextafter(0.5F, 0.0F)};
  const auto rounded = [&](const Expr& v) {
    const Expr x = v * nest.number(scale);
    return call(MathFn::kTrunc, {x + select(lt(x, nest.number(0)), nest.number(-half), nest.number(half))});
  };
  const Expr first = rounded(low), length = max(rounded(high) - first + nest.number(1), nest.number(1));
  const Expr each = length / nest.number(static_cast<double>(parts));
  const auto edge = [&](MathFn fn, const Expr& at) {
    const Expr position = call(fn, {cast(nest.wide, at) * each}) + first;
    return max(Expr(0), min(cast(DType::kI64, position), extent));
  };
  return {edge(MathFn::kFloor, index), edge(MathFn::kCeil, index + 1)};
}

void emit_roi_pool(LoopBuilder& b, const RoiNest& nest, const RoiPoolAttrs& a, const Expr& i) {
  const RoiNest::At at = nest.at(i);
  const Buffer top = b.local("top", nest.wide, 1);
  const auto value = [&](int64_t column) { return nest.coordinate(b, at.region, 5, column); };
  const Span y = span_of(nest, a.scale, value(2), value(4), a.height, at.row, nest.rows);
  const Span x = span_of(nest, a.scale, value(1), value(3), a.width, at.column, nest.columns);
  b.emit(store(top, 0, identity_of(ReduceKind::kMax, nest.wide)));
  const Expr height = max(y.end - y.begin, Expr(0)), width = max(x.end - x.begin, Expr(0));
  b.let("image", nest.plane(cast(DType::kI64, value(0)), at.channel), [&](const Expr& plane) {
    b.loop("y", height, [&](const Expr& row) {
      b.loop("x", width, [&](const Expr& column) {
        const Expr element = load(b.input(0), plane + (y.begin + row) * nest.columns + x.begin + column);
        b.emit(store(top, 0, max(load(top, 0), ops::widen(element))));
      });
    });
  });
  const Expr found = select(gt(height * width, Expr(0)), load(top, 0), nest.number(0));
  b.emit(store(b.result(0), i, cast(nest.dtype, found)));
}

}  // namespace

void add_roi_ops(OpSet& set) {
  OpDef align =
      ops::define(nn::roi_align, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data", "regions", "images"});
  align.infer = infer_roi_align;
  align.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto a = node.attrs_as<RoiAlignAttrs>();
    const RoiNest nest(in, a.height, a.width);
    return roi_kernel(node, in, nest, "roi_align",
                      [=](LoopBuilder& b, const Expr& i) { emit_roi_align(b, nest, a, i); });
  };
  set.add(std::move(align));

  OpDef pool =
      ops::define(nn::max_roi_pool, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data", "regions"});
  pool.infer = infer_roi_pool;
  pool.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto a = node.attrs_as<RoiPoolAttrs>();
    const RoiNest nest(in, a.height, a.width);
    return roi_kernel(node, in, nest, "max_roi_pool",
                      [=](LoopBuilder& b, const Expr& i) { emit_roi_pool(b, nest, a, i); });
  };
  set.add(std::move(pool));
}

}  // namespace gantry
