// What is called by name in gantry.te's expressions: placeholder, compute, reductions, functions of scalars.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "host/python/expressions.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

TensorExpression make_placeholder(const py::object& shape, const std::string& dtype,
                                  const std::string& name) {
  return {placeholder(shape_of(shape, name), dtype_of(dtype), name), 0};
}

TensorExpression make_compute(const py::object& shape, const py::function& body, const std::string& name) {
  const std::vector<Expr> sizes = shape_of(shape, name);
  Expression root;
  const auto write = [&](const std::vector<Expr>& variables) {
    py::tuple indices(variables.size());
    for (size_t i = 0; i < variables.size(); ++i) indices[i] = Expression{variables[i]};
    const py::object result = body(*indices);
    if (!py::isinstance<Expression>(result)) {
      user_error(
          "compute {}: its body gave a {}, which is no expression (numbers are, as te.const(0, 'f32'))", name,
          std::string(py::str(py::type::handle_of(result).attr("__name__"))));
    }
    root = result.cast<Expression>();
    return root.expr;
  };
  const Tensor tensor = request([&] { return compute(sizes, write, name); });
  std::vector<IterVarPtr> axes = tensor.op()->axes;
  axes.insert(axes.end(), tensor.op()->reduce_axes.begin(), tensor.op()->reduce_axes.end());
  check_body(tensor.op()->body, axes, "compute " + name);
  return {tensor, root.depth + root.read_depth};
}

Axis make_reduce_axis(const py::object& extent, const std::string& name, const py::object& low) {
  const int64_t iterations = size_of(extent, "the extent of the reduction axis " + name);
  const int64_t first =
      low.is_none() ? 0 : size_of(low, "the beginning of the reduction axis " + name, -(int64_t{1} << 40));
  return {reduce_axis(first, iterations, name)};
}

const char* name_in_python(ReduceKind kind) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "any", "all"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<IterVarPtr> reduction_axes(ReduceKind kind, const py::object& axes) {
  const char* name = name_in_python(kind);
  const std::vector<IterVarPtr> found =
      host_axes(py::isinstance<py::sequence>(axes) ? py::tuple(axes) : py::make_tuple(axes));
  for (const IterVarPtr& axis : found) {
    if (axis->kind != IterVar::Kind::kReduce || !axis->extent)
      user_error("te.{}: {} is no axis of te.reduce_axis", name, axis->name());
    if (std::ranges::count(found, axis) > 1) user_error("te.{}: goes over {} twice", name, axis->name());
  }
  return found;
}

Expression make_reduction(ReduceKind kind, const py::object& value, const py::object& axes,
                          const py::object& where) {
  const std::vector<IterVarPtr> over_axes = reduction_axes(kind, axes);
  const Expression of = operand(value);
  const bool truth = kind == ReduceKind::kAny || kind == ReduceKind::kAll;
  if (truth != (of.expr.type().dtype == DType::kBool))
    user_error("te.{}: is of {}, not of {}", name_in_python(kind), truth ? "truth values" : "numbers",
               name_of(of.expr.type().dtype));
  Expression condition;
  if (!where.is_none()) condition = operand(where, DType::kBool);
  if (!where.is_none() && condition.expr.type().dtype != DType::kBool)
    user_error("te.{}: where= is of type {}, not bool", name_in_python(kind),
               name_of(condition.expr.type().dtype));
  return over(request([&] { return reduce(kind, of.expr, over_axes, condition.expr); }), {&of, &condition});
}

/// Two or three operands of one type, of which numbers have that of the others.
template <size_t kCount>
std::array<Expression, kCount> of_one_type(const std::array<py::object, kCount>& values) {
  std::optional<DType> dtype;
  for (const py::object& value : values) {
    if (py::isinstance<Expression>(value) || py::isinstance<Axis>(value))
      dtype = operand(value).expr.type().dtype;
  }
  std::array<Expression, kCount> found;
  for (size_t i = 0; i < kCount; ++i) found[i] = operand(values[i], dtype);
  return found;
}

void check_float(MathFn fn, const Expression& value) {
  if (!is_float(value.expr.type().dtype))
    user_error("{} is of floating-point numbers, and {} is {}: te.cast(…, 'f32')", name_of(fn),
               to_string(value.expr), name_of(value.expr.type().dtype));
}

void add_math(py::module_& module) {
  struct Function {
    const char* name;
    MathFn fn;
    const char* about;
  };
  constexpr Function kFunctions[] = {
      {"exp", MathFn::kExp, "e to the power of the value."},
      {"log", MathFn::kLog, "The natural logarithm."},
      {"sqrt", MathFn::kSqrt, "The square root."},
      {"rsqrt", MathFn::kRsqrt, "1 / sqrt(value)."},
      {"tanh", MathFn::kTanh, "The hyperbolic tangent."},
      {"erf", MathFn::kErf, "The error function."},
      {"sigmoid", MathFn::kSigmoid, "1 / (1 + exp(-value))."},
      {"floor", MathFn::kFloor,
       "The greatest whole number that is not above it, as a floating-point number."},
      {"ceil", MathFn::kCeil, "The least whole number that is not below it."},
      {"round", MathFn::kRound, "The nearest whole number; of two, the even one."},
      {"trunc", MathFn::kTrunc, "The whole number towards zero."},
      {"sin", MathFn::kSin, "The sine."},
      {"cos", MathFn::kCos, "The cosine."},
      {"tan", MathFn::kTan, "The tangent."},
      {"asin", MathFn::kAsin, "The inverse sine."},
      {"acos", MathFn::kAcos, "The inverse cosine."},
      {"atan", MathFn::kAtan, "The inverse tangent."},
      {"sinh", MathFn::kSinh, "The hyperbolic sine."},
      {"cosh", MathFn::kCosh, "The hyperbolic cosine."},
      {"asinh", MathFn::kAsinh, "The inverse hyperbolic sine."},
      {"acosh", MathFn::kAcosh, "The inverse hyperbolic cosine."},
      {"atanh", MathFn::kAtanh, "The inverse hyperbolic tangent."},
      {"isnan", MathFn::kIsNan, "Whether it is not a number."},
      {"isinf", MathFn::kIsInf, "Whether it is infinite."},
  };
  for (const Function& function : kFunctions) {
    const auto apply = [fn = function.fn](const py::object& value) {
      const Expression of = operand(value);
      check_float(fn, of);
      return over(request([&] { return call(fn, {of.expr}); }), {&of});
    };
    module.def(function.name, apply, py::arg("value"), function.about);
  }
  module.def(
      "abs",
      [](const py::object& value) {
        const Expression of = operand(value);
        if (of.expr.type().dtype == DType::kBool) user_error("abs is of numbers, not of truth values");
        return over(request([&] { return call(MathFn::kAbs, {of.expr}); }), {&of});
      },
      py::arg("value"), "The magnitude.");
  module.def(
      "pow",
      [](const py::object& base, const py::object& exponent) {
        const auto [x, y] = of_one_type<2>({base, exponent});
        check_float(MathFn::kPow, x);
        return over(request([&] { return call(MathFn::kPow, {x.expr, y.expr}); }), {&x, &y});
      },
      py::arg("base"), py::arg("exponent"), "``base`` to the power of ``exponent``.");
  module.def(
      "fma",
      [](const py::object& a, const py::object& b, const py::object& c) {
        const auto [x, y, z] = of_one_type<3>({a, b, c});
        check_float(MathFn::kFma, x);
        return over(request([&] { return call(MathFn::kFma, {x.expr, y.expr, z.expr}); }), {&x, &y, &z});
      },
      py::arg("a"), py::arg("b"), py::arg("c"), "``a * b + c``.");
}

template <typename Make>
void add_choice(py::module_& module, const char* name, const Make& make, const char* about) {
  module.def(
      name,
      [make](const py::object& condition, const py::object& if_true, const py::object& if_false) {
        const Expression chosen = operand(condition, DType::kBool);
        const auto [x, y] = of_one_type<2>({if_true, if_false});
        return over(request([&] { return make(chosen.expr, x.expr, y.expr); }), {&chosen, &x, &y});
      },
      py::arg("condition"), py::arg("if_true"), py::arg("if_false"), about);
}

void add_choices(py::module_& module) {
  add_choice(
      module, "select", [](const Expr& c, const Expr& t, const Expr& f) { return select(c, t, f); },
      "One of two values; both are evaluated.");
  add_choice(
      module, "if_then_else",
      [](const Expr& c, const Expr& t, const Expr& f) { return if_then_else(c, t, f); },
      "One of two values, of which only that one is evaluated: the other may read outside of a tensor.");
  const auto extreme = [&](const char* name, Expr (*make)(Expr, Expr), const char* about) {
    module.def(
        name,
        [make](const py::object& a, const py::object& b) {
          const auto [x, y] = of_one_type<2>({a, b});
          if (x.expr.type().dtype == DType::kBool) user_error("truth values are joined by & and |");
          return over(request([&] { return make(x.expr, y.expr); }), {&x, &y});
        },
        py::arg("a"), py::arg("b"), about);
  };
  extreme("maximum", &max,
          "The greater of two values. Of a number and a NaN it is the number, beside a constant the NaN.");
  extreme("minimum", &min, "The lesser of two values; NaNs as maximum has them.");
}

void add_reductions(py::module_& module) {
  const auto add = [&](ReduceKind kind, const char* about) {
    module.def(
        name_in_python(kind),
        [kind](const py::object& value, const py::object& axes, const py::object& where) {
          return make_reduction(kind, value, axes, where);
        },
        py::arg("value"), py::arg("axes"), py::kw_only(), py::arg("where") = py::none(), about);
  };
  add(ReduceKind::kSum,
      "The sum over one or several axes of reduce_axis, where ``where`` holds. It is a compute's whole "
      "body.");
  add(ReduceKind::kProd, "The product over axes; see sum.");
  add(ReduceKind::kMax, "The greatest over axes; see sum. Of two elements: maximum.");
  add(ReduceKind::kMin, "The least over axes; see sum. Of two elements: minimum.");
  add(ReduceKind::kAny, "Whether one is true over axes; see sum.");
  add(ReduceKind::kAll, "Whether all are true over axes; see sum.");
}

}  // namespace

void add_expression_functions(py::module_& module) {
  module.def("placeholder", &make_placeholder, py::arg("shape"), py::arg("dtype") = "f32",
             py::arg("name") = "x", "An input, dense and row-major.");
  module.def("compute", &make_compute, py::arg("shape"), py::arg("body"), py::arg("name") = "y",
             "A tensor of this shape, element by element.\n\n"
             "``body`` is called once, with an expression a dimension that stands for the index;\n"
             "what it returns is the element there: an expression, or a reduction (sum, max, …)\n"
             "of one.");
  module.def("reduce_axis", &make_reduce_axis, py::arg("extent"), py::arg("name") = "k", py::kw_only(),
             py::arg("low") = py::none(),
             "What a reduction goes over: ``extent`` whole numbers from ``low`` (0) on.");
  module.def(
      "const",
      [](const py::object& value, const std::string& dtype) {
        if (py::isinstance<Expression>(value) || py::isinstance<Axis>(value))
          user_error("te.const is of numbers; te.cast makes an expression one of type {}", dtype);
        return operand(value, dtype_of(dtype));
      },
      py::arg("value"), py::arg("dtype"), "A number of that type.");
  module.def(
      "cast",
      [](const py::object& value, const std::string& dtype) {
        const Expression of = operand(value);
        return over(cast(dtype_of(dtype), of.expr), {&of});
      },
      py::arg("value"), py::arg("dtype"),
      "The value as another type. Floating-point numbers become whole ones towards zero, at most the type's "
      "greatest.");
  add_choices(module);
  add_reductions(module);
  add_math(module);
}

}  // namespace gantry::python
