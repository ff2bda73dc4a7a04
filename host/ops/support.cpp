#include "host/ops/support.h"

#include <algorithm>

#include "host/graph/dim_at_least.h"
#include "host/ops/image.h"

namespace gantry {

Dim window_extent(const Dim& extent, const Dim& pad_begin, const Dim& pad_end, int64_t kernel, int64_t stride,
                  int64_t dilation, bool ceil_mode) {
  Dim reach = extent + pad_begin + pad_end - (Dim(dilation) * (kernel - 1) + 1);
  if (!ceil_mode) return floordiv(reach, stride) + 1;
  return min(ceildiv(reach, stride) + 1, floordiv(extent + pad_begin - 1, stride) + 1);
}

bool all_zero(const Shape& padding) {
  return std::all_of(padding.begin(), padding.end(), [](const Dim& d) { return d == Dim(0); });
}

}  // namespace gantry

namespace gantry::ops {

const TensorType& input_type(const Node& node, size_t i) {
  internal_check(has_input(node, i), "op {} reads its input {}, which is absent", node.op->name, i);
  return node.inputs[i]->type;
}

bool has_input(const Node& node, size_t i) {
  return i < node.inputs.size() && node.inputs[i] != nullptr;
}

std::string origin_of(const Node& node) {
  std::string text;
  for (const std::string& name : node.origin) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? node.op->name : text;
}

namespace {
void add_constraint(Function& function, const Dim& a, const Dim& b, const Node& node) {
  const auto says_so = [&](const DimConstraint& c) {
    return (c.left == a && c.right == b) || (c.left == b && c.right == a);
  };
  if (std::ranges::none_of(function.constraints, says_so))
    function.constraints.push_back({a, b, origin_of(node)});
}
}  // namespace

void require_dtype(bool taken, DType dtype) {
  if (taken) return;
  throw Unsupported(UnsupportedKind::kElementType, std::string(name_of(dtype)),
                    fmt::format("does not take {} data", name_of(dtype)));
}

void require_known(bool known, const char* what) {
  if (known) return;
  throw Unsupported(UnsupportedKind::kRunTimeValue, what,
                    fmt::format("needs to know the {} when compiling", what));
}

Dim unify(const Dim& a, const Dim& b, Function& function, const Node& node, const char* what) {
  if (a == b) return a;
  require(!provably_different(a, b), "{}: {} and {} differ", what, a.str(), b.str());
  add_constraint(function, a, b, node);
  if (a.is_constant() || b.is_constant()) return a.is_constant() ? a : b;
  if (a.is_symbol() || b.is_symbol()) return a.is_symbol() ? a : b;
  return a.str().size() <= b.str().size() ? a : b;
}

void require_at_least(const Dim& dim, int64_t least, Function& function, const Node& node,
                      const std::string& what) {
  require(!dim.is_constant() || dim.value() >= least, "{}", what);
  for (const DimAtLeast& bound : simplest_at_least(dim, least)) {
    require(!bound.dim.is_constant(), "{}", what);
    add_constraint(function, min(bound.dim, bound.least), bound.least, node);
  }
}

void require_float(const Node& node, size_t i) {
  const DType dtype = input_type(node, i).dtype;
  require_dtype(is_float(dtype), dtype);
}

void require_same_dtype(const Node& node, size_t i, size_t j) {
  DType a = input_type(node, i).dtype, b = input_type(node, j).dtype;
  require(a == b, "inputs {} and {} must have one dtype, not {} and {}", i, j, name_of(a), name_of(b));
}

void require_axis(int64_t axis, int rank) {
  require(axis >= 0 && axis < rank, "axis {} is outside a tensor of rank {}", axis, rank);
}

std::vector<TensorType> same_as_first(const Node& node, Function&) {
  return {input_type(node, 0)};
}

std::vector<Expr> result_shape(const Node& node) {
  return to_exprs(node.result()->type.shape);
}

namespace {
bool is_one(const Expr& e) {
  auto* imm = e.as<IntImmNode>();
  return imm && imm->value == 1;
}
}  // namespace

Expr clamped_position(Expr index, const Expr& extent) {
  index = cast(DType::kI64, index);
  index = select(lt(index, 0), index + extent, index);
  return max(Expr(0), min(index, extent - 1));
}

Expr broadcast_read(const Tensor& t, const std::vector<Expr>& index) {
  std::vector<Expr> own;
  size_t skip = index.size() - static_cast<size_t>(t.rank());
  for (size_t i = 0; i < t.shape().size(); ++i)
    own.push_back(is_one(t.shape()[i]) ? Expr(0) : index[skip + i]);
  return t(own);
}

DType widened(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 || is_small_float(dtype) ? DType::kF32 : dtype;
}

Expr widen(Expr x) {
  DType wide = widened(x.type().dtype);
  return wide == x.type().dtype ? x : cast(wide, x);
}

Tensor narrow(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  return compute(
      t.shape(), [&](const std::vector<Expr>& i) { return cast(dtype, t(i)); }, "narrow");
}

Tensor half_operand(const Tensor& t, DType weight) {
  if (weight == t.dtype()) return t;
  return compute(
      t.shape(), [&](const std::vector<Expr>& i) { return cast(weight, t(i)); }, "half_operand",
      Role::kHalfOperand);
}

Tensor map_elements(const Tensor& x, DType dtype, const std::string& name,
                    const std::function<Expr(Expr)>& f) {
  return compute(
      x.shape(),
      [&](const std::vector<Expr>& i) {
        Expr y = f(widen(x(i)));
        return y.type().dtype == dtype ? y : cast(dtype, y);
      },
      name);
}

Expr count_as(DType dtype, const std::vector<Expr>& extents) {
  Expr count = 1;
  for (const Expr& extent : extents) count = count * extent;
  if (auto* imm = count.as<IntImmNode>()) return const_of(dtype, static_cast<double>(imm->value));
  return cast(dtype, count);
}

Tensor pad_spatial(const Tensor& x, const Shape& padding, int first_axis, const Expr& value) {
  if (all_zero(padding)) return x;
  size_t count = padding.size() / 2, first = static_cast<size_t>(first_axis);
  std::vector<Expr> shape = x.shape();
  for (size_t k = 0; k < count; ++k)
    shape[first + k] = shape[first + k] + Expr(padding[k]) + Expr(padding[count + k]);
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    Expr inside;
    for (size_t k = 0; k < count; ++k) {
      if (padding[k] == Dim(0) && padding[count + k] == Dim(0)) continue;
      at[first + k] = i[first + k] - Expr(padding[k]);
      Expr here = ge(at[first + k], 0) && lt(at[first + k], x.shape()[first + k]);
      inside = inside ? inside && here : here;
    }
    return if_then_else(inside, x(at), value);
  };
  return compute(shape, body, "pad", Role::kPad);
}

std::vector<IterVarPtr> reduce_axes(const std::vector<Expr>& extents, const std::string& prefix) {
  std::vector<IterVarPtr> axes;
  for (size_t i = 0; i < extents.size(); ++i)
    axes.push_back(reduce_axis(0, extents[i], prefix + std::to_string(i)));
  return axes;
}

}  // namespace gantry::ops
