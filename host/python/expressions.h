// Tensor expressions, schedules and loop nests of Python: handles of the host's, which is where they are
// made.
//
// Expressions, axes and tensors are the host's immutable values, shared by all who hold them; a Stage of
// Python's holds its schedule. What the host finds wrong in them is for the caller to mend and becomes an
// InputError, also where the host, whose callers are its own rules, has an internal error.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/loops/stmt.h"
#include "host/support/error.h"
#include "host/tensor/schedule.h"
#include "host/tensor/tensor.h"

namespace gantry::python {

/// Terms of an expression, and of a stage's with those that are inlined into it; see Expression.
inline constexpr int64_t kMostTerms = int64_t{1} << 18;

/// A scalar expression. The host follows expressions by recursion: how deep they may be is bounded, so that
/// no stack overflows. It prints and checks a part anew wherever it is used: how many nodes that makes is
/// bounded too, for a value used twice a level would make 2 to the power of the levels.
struct Expression {
  Expr expr;
  int depth = 1;       ///< levels of nodes
  int read_depth = 0;  ///< levels of what it reads, tensors of tensors
  int64_t terms = 1;   ///< nodes, those of parts used several times as often; within the bound
};
struct Axis {
  IterVarPtr axis;
};
struct TensorExpression {
  Tensor tensor;
  int read_depth = 0;  ///< see Expression
};

/// Calls the host with what the caller has made.
template <typename Work>
decltype(auto) request(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInternal) throw;
    throw Error(ErrorKind::kUser, error.what());
  }
}

/// An Expression, an Axis that a reduction or a compute has, or a number, which becomes one of type `dtype`.
/// User errors: it is nothing of these, or a number that the type does not have.
Expression operand(const pybind11::handle& value, std::optional<DType> dtype = {});
/// Of whole numbers of type i64, as indices are. `what` is for messages.
Expression index_operand(const pybind11::handle& value, const std::string& what);
/// A tuple's operands, or the single one.
std::vector<Expr> index_operands(const pybind11::handle& indices, const std::string& what);
/// A new expression over others. User errors: it would be too deep, or too large.
Expression over(Expr expr, std::initializer_list<const Expression*> parts);

/// "f32", or as NumPy calls it: "float32".
DType dtype_of(const std::string& name);
/// Sizes above 0 of a tensor that a machine can hold.
std::vector<Expr> shape_of(const pybind11::handle& shape, const std::string& name);
/// A whole number from `least` to 2^40.
int64_t size_of(const pybind11::handle& value, const std::string& what, int64_t least = 1);
/// One or a sequence of them.
std::vector<TensorExpression> tensors_of(const pybind11::handle& tensors, const std::string& what);
std::vector<Tensor> host_tensors(const std::vector<TensorExpression>& tensors);
pybind11::tuple axes_tuple(const std::vector<IterVarPtr>& axes);
std::vector<IterVarPtr> host_axes(const pybind11::tuple& axes);

/// User errors name `what` and: a variable that is none of `axes`, an element of a loop nest's buffer, an
/// element of a tensor that certainly lies outside of it.
void check_body(const Expr& body, const std::vector<IterVarPtr>& axes, const std::string& what);
/// User errors name a stage that inlines others, and has more than kMostTerms with them.
void check_inlined(const Schedule& schedule);

void add_expressions(pybind11::module_& module);
void add_expression_functions(pybind11::module_& module);
void add_schedules(pybind11::module_& module);
/// Loop nests by hand.
void add_loop_builder(pybind11::module_& module);
/// lower and build.
void add_lowering(pybind11::module_& module);

}  // namespace gantry::python
