// nn.max_positions: where in the data the largest element of each window lies, by its position among all
// elements of the tensor. Of equal ones the first; that of a NaN only where there is nothing else.
#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/pool.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

std::vector<TensorType> infer_max_positions(const Node& node, Function& function) {
  const auto& a = node.attrs_as<PoolAttrs>();
  ops::require(!a.channels_last, "takes channels before the spatial axes only");
  TensorType type = op_set().get(nn::max_pool).infer(node, function).front();
  type.dtype = DType::kI64;
  return {type};
}

struct PositionNest {
  PoolAttrs attrs;
  std::vector<Expr> in, out;  ///< shapes
  DType dtype;
  Expr planes() const { return in[0] * in[1]; }
  Expr places() const {
    Expr count = 1;
    for (size_t d = 2; d < out.size(); ++d) count = count * out[d];
    return count;
  }
};

/// Whether a later element is the largest in the place of `best`: any number is in that of a NaN.
Expr precedes(const Expr& value, const Expr& best) {
  const Expr larger = gt(value, best);
  if (!is_float(value.type().dtype)) return larger;
  const auto is_nan = [](const Expr& x) { return call(MathFn::kIsNan, {ops::widen(x)}); };
  return larger || (is_nan(best) && logical_not(is_nan(value)));
}

void emit_window(LoopBuilder& b, const PositionNest& nest, const Expr& plane, Expr place) {
  const PoolAttrs& a = nest.attrs;
  const size_t n = a.kernel.size();
  const Buffer best = b.local("best", nest.dtype, 1), where = b.local("where", DType::kI64, 1);
  std::vector<Expr> first(n);  // of the window, in the data
  const Expr to = plane * nest.places() + place;
  for (size_t d = n; d-- > 0;) {
    first[d] = mod(place, nest.out[2 + d]) * a.strides[d] - Expr(a.padding[d]);
    place = floordiv(place, nest.out[2 + d]);
  }
  b.emit(store(where, 0, Expr(-1)));
  b.emit(store(best, 0, identity_of(ReduceKind::kMax, nest.dtype)));
  const std::function<void(size_t, Expr)> visit = [&](size_t d, const Expr& offset) {
    if (d < n) {
      b.loop("k" + std::to_string(d), Expr(a.kernel[d]), [&](const Expr& k) {
        const Expr at = first[d] + k * a.dilations[d];
        b.when(ge(at, 0) && lt(at, nest.in[2 + d]), [&] { visit(d + 1, offset * nest.in[2 + d] + at); });
      });
      return;
    }
    b.let("value", load(b.input(0), offset), [&](const Expr& value) {
      b.when(lt(load(where, 0), Expr(0)) || precedes(value, load(best, 0)), [&] {
        b.emit(store(best, 0, value));
        b.emit(store(where, 0, offset));
      });
    });
  };
  visit(0, plane);
  b.emit(store(b.result(0), to, load(where, 0)));
}

std::vector<Tensor> compute_max_positions(const Node& node, const std::vector<Tensor>& in) {
  const PositionNest nest{node.attrs_as<PoolAttrs>(), in[0].shape(), ops::result_shape(node), in[0].dtype()};
  const auto on_cpu = [nest](LoopBuilder& b) {
    b.loop(
        "plane", nest.planes(),
        [&](const Expr& plane) {
          b.loop("place", nest.places(), [&](const Expr& place) { emit_window(b, nest, plane, place); });
        },
        LoopKind::kParallel);
  };
  const auto on_gpu = [nest](LoopBuilder& b) {
    b.launch_flat(nest.planes() * nest.places(), [&](const Expr& i) {
      emit_window(b, nest, floordiv(i, nest.places()), mod(i, nest.places()));
    });
  };
  return extern_kernel(in, {nest.out}, {DType::kI64}, on_cpu, "max_positions", on_gpu);
}

}  // namespace

void add_max_positions_ops(OpSet& set) {
  OpDef op = ops::define(nn::max_positions, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
  op.infer = infer_max_positions;
  op.compute = compute_max_positions;
  set.add(std::move(op));
}

}  // namespace gantry
