// nn.conv: convolution of any spatial rank.
#include "host/ops/conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/ops/conv_forms.h"
#include "host/ops/families.h"
#include "host/ops/gemm.h"
#include "host/ops/support.h"
#include "host/ops/tiles.h"

namespace gantry {

void ConvAttrs::fields(AttrVisitor& visit) {
  visit("channels", channels);
  visit("kernel", kernel);
  visit.filled("strides", strides, kernel.size(), 1);
  visit.filled("dilations", dilations, kernel.size(), 1);
  visit.filled("padding", padding, 2 * kernel.size(), 0);
  visit("groups", groups);
  // In this order: keys of records have it.
  visit.choices([&] {
    visit("merged_groups", form.merged_groups);
    visit("weight_block", form.weight_block);
    visit("depthwise_packed", form.depthwise_packed);
    visit_order(visit);
    visit.enumeration("algorithm", form.algorithm,
                      {"direct", "gemm", "winograd2", "winograd4", "tiles", "winograd6"});
    visit("tile_parts", form.tile_parts);
    visit_tile_unit(visit, form.tile_unit);
    visit("tile_fold_width", form.tile_fold_width);
    visit("plain_data", form.plain_data);
  });
}

bool reads_each_point_once(const ConvAttrs& a) {
  const auto is_one = [](int64_t n) { return n == 1; };
  return std::ranges::all_of(a.kernel, is_one) && std::ranges::all_of(a.strides, is_one) &&
         std::ranges::all_of(a.padding, [](const Dim& d) { return d == Dim(0); });
}

bool joins_points(const ConvAttrs& a, const Dim& width) {
  return a.groups == 1 && a.spatial_rank() == 2 && !width.is_constant();
}

namespace {

using ops::input_type;
using ops::require;

void check_attrs(const ConvAttrs& a) {
  size_t n = a.spatial_rank();
  require(n >= 1 && a.strides.size() == n && a.dilations.size() == n && a.padding.size() == 2 * n,
          "kernel, strides, dilations and padding do not fit together");
  for (size_t i = 0; i < n; ++i) {
    require(a.kernel[i] > 0 && a.strides[i] > 0 && a.dilations[i] > 0,
            "kernel, strides and dilations must be positive");
  }
  require(a.groups > 0 && a.channels > 0 && a.channels % a.groups == 0,
          "{} output channels do not make {} groups", a.channels, a.groups);
}

/// Of attributes that check_attrs() takes.
void check_form(const ConvAttrs& a) {
  const ConvForm& form = a.form;
  require(form.merged_groups > 0, "merged_groups is {}, not 1 or more", form.merged_groups);
  require(a.channels / a.groups % form.merged_groups == 0,
          "merged_groups divides the {} output channels of a group, which {} does not", a.channels / a.groups,
          form.merged_groups);
  require(form.weight_block >= 0 && form.tile_parts >= 0,
          "weight_block ({}) and tile_parts ({}) must not be negative", form.weight_block, form.tile_parts);
  const bool direct = form.algorithm == ConvAlgorithm::kDirect,
             tiles = form.algorithm == ConvAlgorithm::kTiles;
  const bool winograd = winograd_tile(form.algorithm) > 0;
  require(form.plain_weight() || a.channels_last, "packed weights need channels_last");
  require(direct || !form.depthwise_packed, "an algorithm has one weight layout only");
  const bool reads_plain = a.groups == 1 && a.channels_last && direct && form.weight_block > 0;
  require(!form.plain_data || reads_plain,
          "this algorithm does not read plain data for channels-last results");
  require(form.algorithm != ConvAlgorithm::kGemm || form.weight_block == 0,
          "weights of gemm are not blocked");
  require(form.on_tiles() || form.tile_unit == TileUnit{},
          "tile_unit is for tile registers, with tile_parts");
  require(tiles || !form.tile_fold_width, "tile_fold_width is for the algorithm tiles");
  const bool takes_tiles = tiles || (winograd && form.weight_block == 0);
  require((form.tile_parts > 0 || !tiles) && (form.tile_parts == 0 || takes_tiles),
          "tile registers have weights of their own");
  require(!winograd || fits_winograd(a),
          "Winograd's algorithm is for windows that end in 3x3 of stride and dilation 1");
  const bool whole_blocks = form.weight_block > 0 && a.channels / a.groups % form.weight_block == 0;
  require(!winograd || a.groups == 1 || whole_blocks,
          "Winograd's algorithm takes groups in whole blocks of channels");
}

/// Shape that the weight must have for `channels_in` input channels.
Shape weight_shape(const ConvAttrs& a, const Dim& channels_in) {
  const ConvForm& form = a.form;
  Dim per_group = floordiv(channels_in, a.groups);
  Shape kernel(a.kernel.begin(), a.kernel.end());
  Shape shape;
  if (form.algorithm == ConvAlgorithm::kGemm) {
    Dim depth = per_group;
    for (int64_t extent : a.kernel) depth = depth * extent;
    shape = {depth, a.channels / a.groups};
    if (a.groups > 1) shape.insert(shape.begin(), a.groups);
  } else if (form.algorithm == ConvAlgorithm::kTiles) {
    require(channels_in.is_constant(), "tile registers need a constant number of channels");
    shape = tile_weight_shape(a, channels_in.value());
  } else if (const int64_t tile = winograd_tile(form.algorithm); tile > 0) {
    const int64_t positions = (tile + 2) * (tile + 2);
    const Dim inputs = per_group * winograd_slices(a);
    shape = {positions, inputs, a.channels};
    if (form.on_tiles())
      return winograd_tile_shape(tile, form.tile_parts, form.tile_unit, a.channels, inputs);
    if (form.weight_block > 0)
      shape = {ceildiv(Dim(a.channels), form.weight_block), positions, inputs, form.weight_block};
  } else if (form.depthwise_packed) {
    shape = kernel;
    shape.push_back(channels_in);
  } else if (form.weight_block == 0) {
    shape = {a.channels, per_group};
    shape.insert(shape.end(), kernel.begin(), kernel.end());
  } else {
    if (a.groups > 1) shape.push_back(a.groups);
    shape.push_back(ceildiv(Dim(a.channels / a.groups), form.weight_block));
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    shape.push_back(per_group);
    shape.push_back(form.weight_block);
  }
  return shape;
}

const Dim& data_channels(const ConvAttrs& a, const TensorType& data) {
  return data.shape[static_cast<size_t>(channel_axis(a.data_channels_last(), data.rank()))];
}

/// The data's channels, in whole groups. Where the data leave their number open and the weight lies as in the
/// model, they are as many as it says.
Dim channels_of_whole_groups(const Node& node, const ConvAttrs& a, Function& function) {
  const Dim& channels = data_channels(a, input_type(node, 0));
  const Shape& weight = input_type(node, 1).shape;
  require(!provably_different(mod(channels, a.groups), 0), "{} input channels do not make {} groups",
          channels.str(), a.groups);
  if (!channels.is_constant() && a.form.plain_weight() && weight.size() == a.spatial_rank() + 2) {
    const Dim read = weight[1] * a.groups;
    ops::unify(read, channels, function, node, "weight and data");
    return read;
  }
  ops::unify(mod(channels, a.groups), 0, function, node, "input channels beside whole groups");
  return channels;
}

std::vector<TensorType> infer_conv(const Node& node, Function& function) {
  const auto& a = node.attrs_as<ConvAttrs>();
  const TensorType &data = input_type(node, 0), &weight = input_type(node, 1);
  check_attrs(a);
  check_form(a);
  const ConvForm& form = a.form;
  const bool tiles = form.on_tiles();
  const bool half =
      data.dtype == DType::kF32 && weight.dtype == DType::kF16 && form.weight_block > 0 && !tiles;
  if (!tiles && !half) ops::require_same_dtype(node, 0, 1);
  require(!tiles || (fits_tiles(a, data.dtype) && weight.dtype == geometry_of(form.tile_unit).element &&
                     form.tile_parts >= 1 && form.tile_parts <= 3),
          "tile registers compute ungrouped f32 convolutions of images and sequences");
  size_t n = a.spatial_rank();
  require(data.shape.size() == n + 2, "the data {} must have {} dimensions for a kernel of {}", data.str(),
          n + 2, n);
  const Dim channels_in = channels_of_whole_groups(node, a, function);
  const int64_t block = geometry_of(form.tile_unit).block_depth;
  const bool whole_blocks = channels_in.is_constant() && channels_in.value() % block == 0;
  require(!tiles || winograd_tile(form.algorithm) == 0 || whole_blocks,
          "Winograd's algorithm on tile registers takes input channels in multiples of {}", block);
  require(!provably_different(mod(floordiv(channels_in, a.groups), form.merged_groups), 0),
          "merged_groups divides the {} input channels of a group, which {} does not",
          floordiv(channels_in, a.groups).str(), form.merged_groups);
  Shape expected = weight_shape(a, channels_in);
  require(weight.shape.size() == expected.size(), "the weight {} should have the shape {}", weight.str(),
          to_string(expected));
  for (size_t i = 0; i < expected.size(); ++i) {
    require(!provably_different(weight.shape[i], expected[i]),
            "the weight {} should have the shape {} for the data {}", weight.str(), to_string(expected),
            data.str());
    ops::unify(weight.shape[i], expected[i], function, node, "weight and data");
  }
  TensorType result = data;
  result.shape[static_cast<size_t>(channel_axis(a.channels_last, data.rank()))] = a.channels;
  for (size_t i = 0; i < n; ++i) {
    const Dim& extent = data.shape[static_cast<size_t>(first_spatial_axis(a.data_channels_last())) + i];
    Dim out =
        window_extent(extent, a.padding[i], a.padding[n + i], a.kernel[i], a.strides[i], a.dilations[i]);
    ops::require_at_least(out, 1, function, node,
                          fmt::format("the window does not fit into the data {}", data.str()));
    result.shape[static_cast<size_t>(first_spatial_axis(a.channels_last)) + i] = out;
  }
  return {result};
}

/// The input coordinates that kernel tap `k` of the result at `at` reads.
std::vector<Expr> window_at(const ConvAttrs& a, const std::vector<Expr>& index, size_t first,
                            const std::vector<IterVarPtr>& k) {
  std::vector<Expr> at;
  for (size_t i = 0; i < k.size(); ++i)
    at.push_back(index[first + i] * a.strides[i] + k[i]->var * a.dilations[i]);
  return at;
}

std::vector<Expr> join(std::vector<Expr> a, const std::vector<Expr>& b, std::vector<Expr> c = {}) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}
std::vector<Expr> vars(const std::vector<IterVarPtr>& axes) {
  std::vector<Expr> out;
  for (const IterVarPtr& axis : axes) out.push_back(axis->var);
  return out;
}
std::vector<IterVarPtr> with(std::vector<IterVarPtr> axes, IterVarPtr last) {
  axes.push_back(std::move(last));
  return axes;
}
std::vector<Expr> spatial_of(const Node& node, const ConvAttrs& a) {
  std::vector<Expr> shape = ops::result_shape(node);
  auto begin = shape.begin() + first_spatial_axis(a.channels_last);
  return {begin, begin + static_cast<std::ptrdiff_t>(a.spatial_rank())};
}
std::vector<IterVarPtr> kernel_axes(const ConvAttrs& a) {
  return ops::reduce_axes({a.kernel.begin(), a.kernel.end()}, "k");
}

Tensor conv_plain(const Node& node, const ConvAttrs& a, const Tensor& x, const Tensor& w) {
  auto k = kernel_axes(a);
  auto ic = reduce_axis(0, w.shape()[1], "ic");
  auto body = [&](const std::vector<Expr>& i) {
    Expr o = i[static_cast<size_t>(channel_axis(a.channels_last, x.rank()))];
    Expr c = ic->var;
    if (a.groups > 1) c = floordiv(o, a.channels / a.groups) * w.shape()[1] + c;
    auto at = window_at(a, i, static_cast<size_t>(first_spatial_axis(a.channels_last)), k);
    Expr element = a.channels_last ? x(join({i[0]}, at, {c})) : x(join({i[0], c}, at));
    return sum(
        ops::widen(element) * ops::widen(w(join({o, ic->var}, vars(k)))),
        a.channels_last ? with(k, ic) : [&] {
          std::vector<IterVarPtr> axes{ic};
          axes.insert(axes.end(), k.begin(), k.end());
          return axes;
        }());
  };
  return compute(ops::result_shape(node), body, "conv");
}

Tensor conv_packed(const Node& node, const ConvAttrs& a, const Tensor& x, const Tensor& w) {
  auto k = kernel_axes(a);
  const size_t n = k.size();
  const int64_t nb = a.form.weight_block;
  auto ic = reduce_axis(0, w.shape()[n + 1], "ic");
  auto sums = [&](const std::vector<Expr>& point, const Expr& block, const Expr& lane) {
    const std::vector<Expr> at = window_at(a, point, 1, k);
    Expr element = a.form.plain_data ? x(join({point[0], ic->var}, at)) : x(join({point[0]}, at, {ic->var}));
    return sum(ops::widen(element) * ops::widen(w(join({block}, vars(k), {ic->var, lane}))), with(k, ic));
  };
  const std::vector<Expr> points = join({x.shape()[0]}, spatial_of(node, a));
  const auto shape = ops::result_shape(node);
  if (!joins_points(a, node.result()->type.shape[n])) {
    auto body = [&](const std::vector<Expr>& i) {
      return sums({i.begin(), i.end() - 2}, i[n + 1], i[n + 2]);
    };
    Tensor blocks = compute(join(points, {w.shape()[0], Expr(nb)}), body, "conv", Role::kPackedConv);
    auto unpack = [&](const std::vector<Expr>& i) {
      const std::vector<Expr> at(i.begin(), i.end() - 1);
      return blocks(join(at, {floordiv(i.back(), nb), mod(i.back(), nb)}));
    };
    return compute(shape, unpack, "conv_unpack");
  }
  auto body = [&](const std::vector<Expr>& i) { return sums(ops::unflatten(i[0], points), i[1], i[2]); };
  Expr count = points[0];
  for (size_t i = 1; i <= n; ++i) count = count * points[i];
  Tensor blocks = compute({count, w.shape()[0], Expr(nb)}, body, "conv", Role::kPackedConv);
  auto row = [&](const std::vector<Expr>& i) { return blocks({i[0], floordiv(i[1], nb), mod(i[1], nb)}); };
  Tensor rows = compute({count, shape.back()}, row, "conv_rows");
  auto unpack = [&](const std::vector<Expr>& i) {
    return rows({ops::flatten({i.begin(), i.end() - 1}, points), i.back()});
  };
  return compute(shape, unpack, "conv_unpack");
}

Tensor conv_grouped(const Node& node, const ConvAttrs& a, const Tensor& x, const Tensor& w) {
  auto k = kernel_axes(a);
  size_t n = k.size();
  auto ic = reduce_axis(0, w.shape()[n + 2], "ic");
  auto body = [&](const std::vector<Expr>& i) {
    Expr g = i[n + 1], block = i[n + 2], lane = i[n + 3];
    Expr element = x(join({i[0]}, window_at(a, i, 1, k), {g * w.shape()[n + 2] + ic->var}));
    return sum(ops::widen(element) * ops::widen(w(join({g, block}, vars(k), {ic->var, lane}))), with(k, ic));
  };
  auto shape =
      join({x.shape()[0]}, spatial_of(node, a), {Expr(a.groups), w.shape()[1], Expr(a.form.weight_block)});
  Tensor blocks = compute(shape, body, "conv", Role::kGroupedConv);
  int64_t per_group = a.channels / a.groups;
  auto unpack = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at(i.begin(), i.end() - 1);
    Expr o = mod(i.back(), per_group);
    return blocks(join(
        at, {floordiv(i.back(), per_group), floordiv(o, a.form.weight_block), mod(o, a.form.weight_block)}));
  };
  return compute(ops::result_shape(node), unpack, "conv_unpack");
}

Tensor conv_depthwise(const Node& node, const ConvAttrs& a, const Tensor& x, const Tensor& w) {
  auto k = kernel_axes(a);
  auto body = [&](const std::vector<Expr>& i) {
    Expr element = x(join({i[0]}, window_at(a, i, 1, k), {i.back()}));
    return sum(ops::widen(element) * ops::widen(w(join(vars(k), {i.back()}))), k);
  };
  return compute(ops::result_shape(node), body, "conv");
}

std::vector<Tensor> compute_conv(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<ConvAttrs>();
  const ConvForm& form = a.form;
  DType dtype = in[0].dtype();
  if (form.algorithm == ConvAlgorithm::kGemm) return {ops::narrow(conv_gemm(node, a, in[0], in[1]), dtype)};
  if (form.algorithm == ConvAlgorithm::kTiles) return {conv_tiles(node, a, in[0], in[1])};
  if (winograd_tile(form.algorithm) > 0) return {ops::narrow(conv_winograd(node, a, in[0], in[1]), dtype)};
  const Tensor operand = ops::half_operand(in[0], in[1].dtype());
  Tensor x = ops::pad_spatial(operand, a.padding, first_spatial_axis(a.data_channels_last()),
                              const_of(operand.dtype(), 0));
  Tensor y = form.depthwise_packed    ? conv_depthwise(node, a, x, in[1])
             : form.weight_block == 0 ? conv_plain(node, a, x, in[1])
             : a.groups == 1          ? conv_packed(node, a, x, in[1])
                                      : conv_grouped(node, a, x, in[1]);
  return {ops::narrow(y, dtype)};
}

Dim conv_flops(const Node& node) {
  const auto& a = node.attrs_as<ConvAttrs>();
  const TensorType& data = node.inputs[0]->type;
  Dim taps = floordiv(data_channels(a, data), a.groups);
  for (int64_t k : a.kernel) taps = taps * k;
  return floordiv(element_count(node.result()->type.shape) * taps * 2, a.form.merged_groups);
}

std::string conv_algorithm(const Node& node) {
  const auto& a = node.attrs_as<ConvAttrs>();
  const ConvForm& form = a.form;
  if (const int64_t tile = winograd_tile(form.algorithm); tile > 0)
    return fmt::format("winograd{}{}", tile, form.on_tiles() ? " on tiles" : "");
  if (form.algorithm == ConvAlgorithm::kTiles) return fmt::format("tiles, {} parts", form.tile_parts);
  if (form.algorithm == ConvAlgorithm::kGemm) return "gemm";
  if (form.depthwise_packed) return "depthwise";
  if (a.groups > 1) return "grouped";
  const bool pointwise = std::ranges::all_of(a.kernel, [](int64_t k) { return k == 1; });
  return pointwise ? "pointwise" : "direct";
}

}  // namespace

void add_conv_ops(OpSet& set) {
  OpDef op = ops::define(nn::conv, FusionClass::kOutElementwiseFusable,
                                    LayoutBehaviour::kChannelAware, {"data", "weight"});
  op.infer = infer_conv;
  op.compute = compute_conv;
  op.flops = conv_flops;
  op.algorithm = conv_algorithm;
  op.stages_input = [](const Node& node, size_t input) {
    // Tile registers read an operand's row as one piece: a transposition on the way would be slower than by
    // itself.
    const ConvAlgorithm algorithm = node.attrs_as<ConvAttrs>().form.algorithm;
    return input == 0 && algorithm != ConvAlgorithm::kDirect && algorithm != ConvAlgorithm::kTiles;
  };
  op.copies_input = [](const Node& node, size_t input) {
    const auto& a = node.attrs_as<ConvAttrs>();
    return input == 0 && a.form.algorithm == ConvAlgorithm::kTiles && reads_each_point_once(a);
  };
  set.add(std::move(op));
}

}  // namespace gantry
