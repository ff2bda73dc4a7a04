// Ops that change the shape, not the elements.
#include <algorithm>

#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/dim_bounds.h"
#include "host/onnx/open_operands.h"
#include "host/onnx/required_dims.h"
#include "host/ops/movement.h"
#include "host/ops/repeat.h"
#include "host/ops/shape_data.h"

namespace gantry {
namespace {

/// Resolves 0 (copy) and -1 (the rest) of a Reshape.
Shape resolve_shape(NodeImport& n, const Shape& wanted, bool zero_copies) {
  Shape in = n.type(0).shape, out;
  Dim rest = 1;
  int open = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    Dim d = wanted[i];
    if (d == Dim(0) && zero_copies) {
      if (i >= in.size())
        n.fail("shape {} copies axis {}, which {} does not have", to_string(wanted), i, n.type(0).str());
      d = in[i];
    }
    if (d == Dim(-1)) {
      if (open >= 0) n.fail("shape {} has more than one -1", to_string(wanted));
      open = static_cast<int>(i);
      d = 1;
    }
    if (d.is_constant() && d.value() < 0) n.fail("shape {} has a negative dimension", to_string(wanted));
    rest = rest * d;
    out.push_back(d);
  }
  if (open >= 0) {
    Dim total = element_count(in);
    if (rest == Dim(0)) n.fail("cannot tell what -1 stands for in {}", to_string(wanted));
    if (rest.is_constant() && total.is_constant() && total.value() % rest.value() != 0) {
      n.fail("{} does not reshape to {}", n.type(0).str(), to_string(wanted));
    }
    out[static_cast<size_t>(open)] = floordiv(total, rest);
  }
  return out;
}

void set_reshaped(NodeImport& n, Shape shape) {
  auto attrs = std::make_shared<ReshapeAttrs>();
  attrs->shape = std::move(shape);
  n.set(0, n.add(op::reshape, {n.input(0)}, attrs));
}

void convert_reshape_1(NodeImport& n) {
  std::vector<int64_t> shape = n.integer_list("shape");
  set_reshaped(n, resolve_shape(n, {shape.begin(), shape.end()}, true));
}
void convert_reshape_5(NodeImport& n) {
  n.assume_length(1, n.declared_rank(0));
  const auto known = n.contents(1);
  if (!known || std::ranges::any_of(known->dims, [&](const Dim& d) { return n.may_be_negative(d); }))
    return set_reshaped(n, reshape_dims_by_data(n, n.integer("allowzero", 0) == 0));
  set_reshaped(n, resolve_shape(n, n.dims(1, "shape"), n.integer("allowzero", 0) == 0));
}

void convert_flatten(NodeImport& n) {
  Shape shape = n.type(0).shape;
  int rank = static_cast<int>(shape.size());
  int64_t axis = n.integer("axis", 1);
  axis = axis == rank ? axis : n.axis(axis, std::max(rank, 1));
  set_reshaped(n, {element_count({shape.begin(), shape.begin() + axis}),
                   element_count({shape.begin() + axis, shape.end()})});
}

std::vector<int64_t> read_axes(NodeImport& n) {
  return n.has(1) ? n.integers(1, "axes") : n.integer_list("axes");
}

/// Of axes that nobody names those of 1 are squeezed: how many are left must not depend on an open dimension,
/// so that one is 1 always or never. `kept`: how many should be left, where the model says so.
bool is_taken_to_be_1(NodeImport& n, const Shape& shape, size_t axis, std::optional<int> kept) {
  const Dim& d = shape[axis];
  if (d.is_constant()) return d == Dim(1);
  if (certainly_at_most(2, d)) return false;
  const auto other_than_1 =
      std::ranges::count_if(shape, [](const Dim& each) { return provably_different(each, 1); });
  const bool one = n.assume(kept && *kept == other_than_1);
  if (one) {
    n.warn(fmt::format("node {} ({}) drops axis {} of {}: {} is taken to be 1; for another size fix it with --shape", n.name(), n.op_type(), axis,
                       n.type(0).str(), d.str()));
    require_equal(n, d, 1);
  } else {
    n.function().constraints.push_back({min(1, (d - 1) * (d - 1)), 1, n.name()});
  }
  return one;
}

void convert_squeeze(NodeImport& n) {
  if (n.has(1) && !is_known_list(n, 1)) {
    Value* axes = as_index_list(n, 1);
    return set_reshaped(n, matrix_over_axes(n, n.input(0), axes, {.keepdims = false}).reduced);
  }
  Shape in = n.type(0).shape, out;
  std::vector<int64_t> axes = read_axes(n);
  for (int64_t& axis : axes) {
    axis = n.axis(axis, static_cast<int>(in.size()));
    const Dim& d = in[static_cast<size_t>(axis)];
    if (provably_different(d, 1)) n.fail("axis {} of {} is not 1", axis, n.type(0).str());
  }
  bool all = axes.empty() && !n.has(1) && !n.has_attribute("axes");
  for (size_t i = 0; i < in.size(); ++i) {
    const bool squeezed = all ? is_taken_to_be_1(n, in, i, n.declared_rank(0))
                              : std::count(axes.begin(), axes.end(), static_cast<int64_t>(i)) != 0;
    if (!squeezed) out.push_back(in[i]);
  }
  set_reshaped(n, out);
}

void convert_unsqueeze(NodeImport& n) {
  if (n.has(1) && !is_known_list(n, 1)) {
    auto attrs = std::make_shared<ExtentsAttrs>();
    attrs->extents = n.type(0).shape;
    if (const auto rank = n.declared_rank(0)) n.assume_length(1, *rank - n.rank(0));
    return set_reshaped(n, n.bind(n.add(op::unsqueeze_dims, {as_index_vector(n, 1)}, attrs), "axes"));
  }
  Shape in = n.type(0).shape;
  std::vector<int64_t> axes = read_axes(n);
  int rank = static_cast<int>(in.size() + axes.size());
  Shape out(static_cast<size_t>(rank));
  std::vector<bool> fresh(static_cast<size_t>(rank));
  for (int64_t axis : axes) {
    auto at = static_cast<size_t>(n.axis(axis, rank));
    if (fresh[at]) n.fail("axis {} occurs twice", axis);
    fresh[at] = true;
  }
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i) out[i] = fresh[i] ? Dim(1) : in[next++];
  set_reshaped(n, out);
}

void convert_transpose(NodeImport& n) {
  std::vector<int64_t> axes = n.integer_list("perm");
  int rank = n.rank(0);
  if (axes.empty()) {
    for (int64_t i = rank; i-- > 0;) axes.push_back(i);
  }
  n.set(0, n.transpose(n.input(0), axes));
}

void convert_concat(NodeImport& n) {
  auto attrs = std::make_shared<AxisAttrs>();
  if (n.input_count() == 0) n.fail("has no inputs");
  if (n.opset() >= 4 && !n.has_attribute("axis")) n.fail("its attribute axis is missing");
  attrs->axis = n.axis(n.integer("axis", 1), n.rank(0));
  n.set(0, n.add(op::concatenate, n.inputs(), attrs));
}

/// A size that only the running model knows is 1 or that of the data, where that is another one than 1.
void keep_larger(NodeImport& n, const Shape& shape, Shape& wanted) {
  for (size_t i = 1; i <= std::min(shape.size(), wanted.size()); ++i) {
    const Dim& own = shape[shape.size() - i];
    Dim& asked = wanted[wanted.size() - i];
    if (asked.is_constant() || !own.is_constant() || own == Dim(1)) continue;
    n.function().constraints.push_back({(asked - 1) * (asked - own), 0, n.name()});
    asked = own;
  }
}

void convert_expand(NodeImport& n) {
  // A shorter list would change nothing in the result's rank.
  if (const auto rank = n.declared_rank(0); rank && *rank > n.rank(0)) n.assume_length(1, *rank);
  Shape wanted = n.dims(1, "shape");
  for (const Dim& d : wanted) {
    if (d.is_constant() && d.value() < 0) n.fail("shape {} has a negative dimension", to_string(wanted));
  }
  Value* x = n.input(0);
  keep_larger(n, x->type.shape, wanted);
  Shape shape = expanded_shape(n, x->type.shape, std::move(wanted));
  n.set(0, n.add(op::broadcast_to, {x}, ops::broadcast_attrs(x->type.shape, std::move(shape))));
}

void convert_tile(NodeImport& n) {
  auto attrs = std::make_shared<TileAttrs>();
  n.assume_length(1, n.rank(0));
  attrs->repeats = n.dims(1, "repeats");
  n.set(0, n.add(op::tile, {n.input(0)}, attrs));
}

/// Operator sets 1 to 5 repeat one axis; how often and which, two more inputs say, of the data's type.
void convert_tile_1(NodeImport& n) {
  const std::vector<double> tiles = n.numbers(1, "tiles"), axis = n.numbers(2, "axis");
  if (tiles.size() != 1 || axis.size() != 1) n.fail("its tiles and axis should be a number each");
  if (!(tiles[0] >= 0 && tiles[0] < 1e15)) n.fail("cannot repeat an axis {} times", tiles[0]);
  auto attrs = std::make_shared<TileAttrs>();
  attrs->repeats.assign(static_cast<size_t>(n.rank(0)), 1);
  attrs->repeats[static_cast<size_t>(n.axis(static_cast<int64_t>(axis[0]), n.rank(0)))] =
      static_cast<int64_t>(tiles[0]);
  n.set(0, n.add(op::tile, {n.input(0)}, attrs));
}

void convert_blocks(NodeImport& n) {
  auto attrs = std::make_shared<BlockAttrs>();
  attrs->block = n.integer("blocksize", 0);
  if (attrs->block < 1 || attrs->block > 4096) n.fail("its blocksize is {}", attrs->block);
  attrs->depth_major = n.text("mode", "DCR") == "DCR";
  n.set(0, n.add(n.op_type() == "DepthToSpace" ? nn::depth_to_space : nn::space_to_depth, {n.input(0)},
                 attrs));
}

/// Shape and Size are always known contents, so they never become data by conversion.
void convert_known(NodeImport& n) {
  internal_error("{} was not evaluated", n.op_type());
}

}  // namespace

void add_shape_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"Reshape", 1, convert_reshape_1},   {"Reshape", 5, convert_reshape_5},
      {"Flatten", 1, convert_flatten},     {"Squeeze", 1, convert_squeeze},
      {"Unsqueeze", 1, convert_unsqueeze}, {"Transpose", 1, convert_transpose},
      {"Concat", 1, convert_concat},       {"Expand", 8, convert_expand},
      {"Tile", 1, convert_tile_1},         {"Tile", 6, convert_tile},
      {"DepthToSpace", 1, convert_blocks}, {"SpaceToDepth", 1, convert_blocks},
      {"Shape", 1, convert_known},         {"Size", 1, convert_known},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
