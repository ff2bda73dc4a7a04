// Helpers for declaring ops: type rules and tensor expressions that many families share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/support/unsupported.h"

namespace gantry::ops {

// --- declaring

/// The declaration of an op with its classes and inputs; of the inputs the last `optional` may be absent.
inline OpDef define(const OpHandle& handle, FusionClass fusion, LayoutBehaviour layout,
                    std::vector<std::string> inputs, int optional = 0) {
  OpDef op;
  op.handle = &handle;
  op.name = handle.name();
  op.fusion = fusion;
  op.layout = layout;
  if (fusion == FusionClass::kBroadcast && layout == LayoutBehaviour::kAny) op.axes_apart = 0;
  op.max_inputs = static_cast<int>(inputs.size());
  op.min_inputs = op.max_inputs - optional;
  op.input_names = std::move(inputs);
  return op;
}
/// A remap_axes that rewrites a copy of the attributes in place; `rewrite` returns false if it cannot.
template <typename AttrsType, typename Rewrite>
auto remapper(Rewrite rewrite) {
  return [rewrite](const Node& node, const std::vector<int>& new_axis_of) -> std::shared_ptr<Attrs> {
    auto copy = std::make_shared<AttrsType>(node.attrs_as<AttrsType>());
    return rewrite(*copy, new_axis_of) ? copy : nullptr;
  };
}

/// The remap_axes of attributes that name one axis, `axis`.
template <typename AttrsType>
auto axis_remapper() {
  return remapper<AttrsType>([](AttrsType& a, const std::vector<int>& new_axis_of) {
    a.axis = new_axis_of[static_cast<size_t>(a.axis)];
    return true;
  });
}

// --- type rules

/// Type of input i, which must be present.
const TensorType& input_type(const Node& node, size_t i);
bool has_input(const Node& node, size_t i);
/// The user's names for the node, for constraints.
std::string origin_of(const Node& node);
/// Throws a user error unless the condition holds.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) user_error(format, std::forward<Args>(args)...);
}
/// Throws Unsupported unless `taken`: an element type that the op does not compute in.
void require_dtype(bool taken, DType dtype);
/// Throws Unsupported unless `known`: a value that is needed when compiling.
void require_known(bool known, const char* what);
/// Both dimensions must be equal: a user error with `what` if they cannot be; a constraint of the function
/// where that is not certain. Returns the one that says more.
Dim unify(const Dim& a, const Dim& b, Function& function, const Node& node, const char* what);
/// The dimension must be `least` or more: a user error with `what` if it cannot be; constraints of the
/// function where that is not certain.
void require_at_least(const Dim& dim, int64_t least, Function& function, const Node& node,
                      const std::string& what);
void require_float(const Node& node, size_t i);
/// Inputs i and j have the same dtype.
void require_same_dtype(const Node& node, size_t i, size_t j);
/// Checks 0 <= axis < rank.
void require_axis(int64_t axis, int rank);
/// The rule of ops whose result has the type of their first input.
std::vector<TensorType> same_as_first(const Node& node, Function& function);

// --- tensor expressions

/// The extents of the node's first result.
std::vector<Expr> result_shape(const Node& node);
/// An index read from data as a position on an axis: negative ones count from the end, and what is outside is
/// clamped, so that nothing reads or writes outside its tensor.
Expr clamped_position(Expr index, const Expr& extent);
/// Element of `t` that numpy broadcasting pairs with the result's element at `index`.
Expr broadcast_read(const Tensor& t, const std::vector<Expr>& index);
/// f16 and bf16 as f32, others as they are.
Expr widen(Expr x);
DType widened(DType dtype);
/// A stage that casts to `dtype`, or `t` itself if it has it.
Tensor narrow(const Tensor& t, DType dtype);
/// The f32 operand of a product with f16 weights, rounded to f16 in the stage "half_operand", which has its
/// axes; `t` itself if it has the weights' dtype.
Tensor half_operand(const Tensor& t, DType weight);
/// Stage that applies `f` (on the widened element) to every element; the result is cast to `dtype`.
Tensor map_elements(const Tensor& x, DType dtype, const std::string& name,
                    const std::function<Expr(Expr)>& f);
/// The number of elements of a product of extents, as a value of that dtype.
Expr count_as(DType dtype, const std::vector<Expr>& extents);
/// Stage "pad": `padding` (begins, then ends) around the axes from `first_axis`, filled with `value`; `x`
/// itself if all are 0.
Tensor pad_spatial(const Tensor& x, const Shape& padding, int first_axis, const Expr& value);
/// One reduction axis for each extent.
std::vector<IterVarPtr> reduce_axes(const std::vector<Expr>& extents, const std::string& prefix);

}  // namespace gantry::ops
