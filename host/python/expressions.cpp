#include "host/python/expressions.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>

#include "host/tensor/fold.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

constexpr int kMostDepth = 1000, kMostReadDepth = 10000;
constexpr int64_t kMostElements = int64_t{1} << 40;

std::string type_name(const py::handle& value) {
  return py::str(py::type::handle_of(value).attr("__name__"));
}

bool is_number(const py::handle& value) {
  return !py::isinstance<Expression>(value) && !py::isinstance<Axis>(value);
}

/// Of a whole number that an int64 does not hold; null: the type does not have it.
Expr large_number(const py::object& number, DType type) {
  Expr made;
  if (type == DType::kU64)
    made = int_imm(type, static_cast<int64_t>(PyLong_AsUnsignedLongLong(number.ptr())));
  if (is_float(type)) made = float_imm(type, PyLong_AsDouble(number.ptr()));
  if (PyErr_Occurred() == nullptr) return made;
  if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw py::error_already_set();
  PyErr_Clear();
  return {};
}

Expr whole_number(const py::handle& value, std::optional<DType> dtype) {
  int overflow = 0;
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  const int64_t whole = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  const DType type = dtype.value_or(DType::kI64);
  if (overflow != 0) {
    if (const Expr made = large_number(number, type)) return made;
  } else if (is_float(type)) {
    return float_imm(type, static_cast<double>(whole));
  } else if (type != DType::kBool) {
    const Expr made = int_imm(type, whole);
    if (made.as<IntImmNode>()->value == whole && (whole >= 0 || !is_unsigned_int(type))) return made;
  }
  user_error("{} is no {}", std::string(py::str(number)), name_of(type));
}

Expr number(const py::handle& value, std::optional<DType> dtype) {
  if (PyBool_Check(value.ptr())) {
    if (dtype.value_or(DType::kBool) != DType::kBool)
      user_error("{} stands where a number of type {} does", std::string(py::str(value)), name_of(*dtype));
    return int_imm(DType::kBool, value.ptr() == Py_True ? 1 : 0);
  }
  if (PyIndex_Check(value.ptr())) return whole_number(value, dtype);
  const bool fraction =
      PyFloat_Check(value.ptr()) || (PyNumber_Check(value.ptr()) && py::hasattr(value, "__float__"));
  if (!fraction)
    user_error("a {} is no scalar expression: those are elements of tensors, axes and numbers",
               type_name(value));
  if (!dtype)
    user_error("{} may be of several types: say which, as in te.const({}, 'f32')",
               std::string(py::str(value)), std::string(py::str(value)));
  if (!is_float(*dtype)) user_error("{} is no {}", std::string(py::str(value)), name_of(*dtype));
  return float_imm(*dtype, py::float_(py::reinterpret_borrow<py::object>(value)));
}

/// Schedules make loops whose extent is known when they are lowered.
const Expr& variable_of(const Axis& axis) {
  if (!axis.axis->extent)
    user_error(
        "{} is a loop that a schedule has made; expressions are of the axes of computes and reductions",
        axis.axis->name());
  return axis.axis->var;
}

bool is_arithmetic(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
    case BinaryOp::kXor:
    case BinaryOp::kEq:
    case BinaryOp::kNe:
      return false;
    default:
      return true;
  }
}

/// What no code is generated for, or other than it says in Python.
void check_operator(BinaryOp op, DType dtype) {
  if (dtype == DType::kBool && is_arithmetic(op))
    user_error(
        "truth values are joined by &, | and ^, and cast before they are counted: te.cast(value, 'i32')");
  if (op == BinaryOp::kDiv && !is_float(dtype))
    user_error("/ divides floating-point numbers; of {} it is //, which rounds down", name_of(dtype));
  const bool bits = op == BinaryOp::kAnd || op == BinaryOp::kOr || op == BinaryOp::kXor ||
                    op == BinaryOp::kShl || op == BinaryOp::kShr;
  if (is_float(dtype) && bits)
    user_error("&, |, ^, << and >> are of whole numbers, and these are {}", name_of(dtype));
  if (is_float(dtype) && op == BinaryOp::kFloorDiv)
    user_error("// is of whole numbers; of {}, te.floor(a / b)", name_of(dtype));
}

/// The unsigned type of as many bits; none of types narrower than a byte.
std::optional<DType> bits_of(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
      return DType::kU8;
    case DType::kI16:
    case DType::kU16:
      return DType::kU16;
    case DType::kI32:
    case DType::kU32:
      return DType::kU32;
    case DType::kI64:
    case DType::kU64:
      return DType::kU64;
    default:
      return {};
  }
}

bool has_data(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& part) { found |= part.as<ReadNode>() || part.as<LoadNode>(); });
  return found;
}

/// What whole numbers are divided by: 1 in place of a 0, for which the instruction of a CPU ends the process.
/// Also where it is made of axes alone, which begin at 0; the check goes where loops are known to keep it
/// above. Data are used once, or divisors within divisors would double with every level: of numbers without
/// a sign 0 alone is less than 1.
Expression safe_divisor(const Expression& b) {
  const DType dtype = b.expr.type().dtype;
  if (const auto value = constant_of(b.expr)) {
    if (*value == 0) user_error("a division by 0");
    return b;
  }
  if (const auto bits = bits_of(dtype); bits && has_data(b.expr)) {
    const Expression number = over(cast(*bits, b.expr), {&b});
    return over(cast(dtype, max(number.expr, int_imm(*bits, 1))), {&number});
  }
  const Expression is_zero = over(eq(b.expr, int_imm(dtype, 0)), {&b});
  return over(select(is_zero.expr, int_imm(dtype, 1), b.expr), {&is_zero, &b});
}

Expression join(BinaryOp op, const py::handle& a, const py::handle& b) {
  std::optional<Expression> x, y;
  if (!is_number(a)) x = operand(a);
  y = operand(b, x ? std::optional(x->expr.type().dtype) : std::nullopt);
  if (!x) x = operand(a, y->expr.type().dtype);
  if (x->expr.type() == y->expr.type()) {
    check_operator(op, x->expr.type().dtype);
    const bool divides = op == BinaryOp::kFloorDiv || op == BinaryOp::kMod;
    if (divides && !is_float(x->expr.type().dtype)) y = safe_divisor(*y);
  }
  return over(request([&] { return binary(op, x->expr, y->expr); }), {&*x, &*y});
}

/// Both sides of an operator, for expressions and axes alike.
template <typename Class>
void add_operators(Class& type) {
  const auto both = [&](const char* name, const char* reflected, BinaryOp op) {
    type.def(name, [op](const py::object& a, const py::object& b) { return join(op, a, b); });
    type.def(reflected, [op](const py::object& b, const py::object& a) { return join(op, a, b); });
  };
  both("__add__", "__radd__", BinaryOp::kAdd);
  both("__sub__", "__rsub__", BinaryOp::kSub);
  both("__mul__", "__rmul__", BinaryOp::kMul);
  both("__truediv__", "__rtruediv__", BinaryOp::kDiv);
  both("__floordiv__", "__rfloordiv__", BinaryOp::kFloorDiv);
  both("__mod__", "__rmod__", BinaryOp::kMod);
  both("__and__", "__rand__", BinaryOp::kAnd);
  both("__or__", "__ror__", BinaryOp::kOr);
  both("__xor__", "__rxor__", BinaryOp::kXor);
  both("__lshift__", "__rlshift__", BinaryOp::kShl);
  both("__rshift__", "__rrshift__", BinaryOp::kShr);
  both("__lt__", "__gt__", BinaryOp::kLt);
  both("__le__", "__ge__", BinaryOp::kLe);
  const auto symmetric = [&](const char* name, BinaryOp op) {
    type.def(name, [op](const py::object& a, const py::object& b) { return join(op, a, b); });
  };
  symmetric("__eq__", BinaryOp::kEq);
  symmetric("__ne__", BinaryOp::kNe);
  type.def("__neg__", [](const py::object& self) {
    const Expression a = operand(self);
    if (a.expr.type().dtype == DType::kBool) user_error("- of a truth value: ~ negates it");
    return over(-a.expr, {&a});
  });
  type.def("__invert__", [](const py::object& self) {
    const Expression a = operand(self);
    if (is_float(a.expr.type().dtype)) user_error("~ is of whole numbers and truth values");
    return over(logical_not(a.expr), {&a});
  });
  type.def("__bool__", [](const py::object&) -> bool {
    user_error(
        "an expression has no truth value before it runs: write &, |, ~ and te.select instead of and, or, "
        "not and if");
  });
  // NumPy's numbers leave the operator to the other operand.
  type.attr("__array_ufunc__") = py::none();
}

py::object extent_of(const IterVarPtr& axis) {
  const auto extent = axis->extent ? constant_of(axis->extent) : std::nullopt;
  return extent ? py::object(py::int_(*extent)) : py::none();
}

py::tuple sizes_of(const Tensor& tensor) {
  py::tuple sizes(tensor.shape().size());
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = constant_of(tensor.shape()[i]).value();
  return sizes;
}

Expression element_of(const TensorExpression& from, const py::handle& indices) {
  const Tensor& tensor = from.tensor;
  const std::vector<Expr> at = index_operands(indices, tensor.op()->name);
  Expression read{request([&] { return tensor(at); }), 1, from.read_depth};
  for (const py::handle& index : py::isinstance<py::tuple>(indices)
                                     ? py::reinterpret_borrow<py::tuple>(indices)
                                     : py::make_tuple(indices)) {
    const Expression part = operand(index);
    read = over(read.expr, {&read, &part});
  }
  return read;
}

}  // namespace

Expression operand(const py::handle& value, std::optional<DType> dtype) {
  if (py::isinstance<Expression>(value)) return value.cast<Expression>();
  if (py::isinstance<Axis>(value)) return {variable_of(value.cast<Axis>())};
  return {number(value, dtype)};
}

Expression index_operand(const py::handle& value, const std::string& what) {
  const Expression index = operand(value, DType::kI64);
  if (index.expr.type().dtype != DType::kI64) {
    user_error("{}: its index {} is {}; indices are i64: te.cast(…, 'i64')", what, to_string(index.expr),
               name_of(index.expr.type().dtype));
  }
  return index;
}

std::vector<Expr> index_operands(const py::handle& indices, const std::string& what) {
  if (!py::isinstance<py::tuple>(indices)) return {index_operand(indices, what).expr};
  std::vector<Expr> found;
  for (const py::handle& index : py::reinterpret_borrow<py::tuple>(indices))
    found.push_back(index_operand(index, what).expr);
  return found;
}

Expression over(Expr expr, std::initializer_list<const Expression*> parts) {
  Expression made{std::move(expr), 0, 0};
  for (const Expression* part : parts) {
    made.depth = std::max(made.depth, part->depth);
    made.read_depth = std::max(made.read_depth, part->read_depth);
    made.terms += part->terms;
  }
  ++made.depth;
  if (made.terms > kMostTerms)
    user_error(
        "an expression of more than {} terms, those of parts that it uses again counted again: a tensor can "
        "hold such a part",
        kMostTerms);
  if (made.depth > kMostDepth)
    user_error(
        "an expression of more than {} levels: a reduction sums over an axis, and a tensor can hold a part",
        kMostDepth);
  if (made.depth + made.read_depth > kMostReadDepth)
    user_error("tensors of tensors, more than {} levels of expressions deep: build them in parts",
               kMostReadDepth);
  return made;
}

DType dtype_of(const std::string& name) {
  static const std::map<std::string, DType> numpy{
      {"float32", DType::kF32},   {"float64", DType::kF64}, {"float16", DType::kF16},
      {"bfloat16", DType::kBF16}, {"int8", DType::kI8},     {"int16", DType::kI16},
      {"int32", DType::kI32},     {"int64", DType::kI64},   {"uint8", DType::kU8},
      {"uint16", DType::kU16},    {"uint32", DType::kU32},  {"uint64", DType::kU64}};
  if (const auto dtype = parse_dtype(name)) return *dtype;
  if (const auto found = numpy.find(name); found != numpy.end()) return found->second;
  user_error(
      "dtype '{}' is none of f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool, NumPy's names of "
      "these, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu, f6e2m3fn, f6e3m2fn, f4e2m1fn, i4, u4, i2 or u2",
      name);
}

int64_t size_of(const py::handle& value, const std::string& what, int64_t least) {
  if (PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr())) {
    int overflow = 0;
    const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    if (!number) throw py::error_already_set();
    const int64_t size = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow == 0 && size >= least && size <= kMostElements) return size;
  }
  user_error("{} is {}, which is no whole number from {} to 2^40", what, std::string(py::repr(value)), least);
}

std::vector<Expr> shape_of(const py::handle& shape, const std::string& name) {
  std::vector<Expr> sizes;
  int64_t elements = 1;
  const bool single = PyIndex_Check(shape.ptr());
  if (!single && !py::isinstance<py::sequence>(shape))
    user_error("{}: a {} is no shape: that is a tuple of whole numbers", name, type_name(shape));
  for (const py::handle& entry :
       single ? py::make_tuple(shape) : py::tuple(py::reinterpret_borrow<py::object>(shape))) {
    const int64_t size = size_of(entry, fmt::format("{}: dimension {} of its shape", name, sizes.size()));
    if (size > kMostElements / elements) user_error("{}: has more than 2^40 elements", name);
    elements *= size;
    sizes.emplace_back(size);
  }
  return sizes;
}

std::vector<TensorExpression> tensors_of(const py::handle& tensors, const std::string& what) {
  if (py::isinstance<TensorExpression>(tensors)) return {tensors.cast<TensorExpression>()};
  std::vector<TensorExpression> found;
  if (py::isinstance<py::sequence>(tensors)) {
    for (const py::handle& tensor : py::reinterpret_borrow<py::sequence>(tensors)) {
      if (!py::isinstance<TensorExpression>(tensor))
        user_error("{}: a {} is no tensor expression", what, type_name(tensor));
      found.push_back(tensor.cast<TensorExpression>());
    }
    return found;
  }
  user_error("{}: a {} is neither a tensor expression nor a list of them", what, type_name(tensors));
}

std::vector<Tensor> host_tensors(const std::vector<TensorExpression>& tensors) {
  std::vector<Tensor> found;
  for (const TensorExpression& tensor : tensors) found.push_back(tensor.tensor);
  return found;
}

py::tuple axes_tuple(const std::vector<IterVarPtr>& axes) {
  py::tuple made(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) made[i] = Axis{axes[i]};
  return made;
}

std::vector<IterVarPtr> host_axes(const py::tuple& axes) {
  std::vector<IterVarPtr> found;
  for (const py::handle& axis : axes) {
    if (!py::isinstance<Axis>(axis)) user_error("a {} is no axis", type_name(axis));
    found.push_back(axis.cast<Axis>().axis);
  }
  return found;
}

void add_expressions(py::module_& module) {
  py::class_<Expression> expression(
      module, "Expr",
      "A scalar expression: what an element of a tensor is.\n\n"
      "Made of elements of tensors, axes and numbers, with Python's operators and the\n"
      "functions of this module. Numbers have the type of the operand beside them; other\n"
      "operands must be of one type (cast).");
  expression.attr("__module__") = "gantry.te";
  add_operators(expression);
  expression
      .def_property_readonly(
          "dtype", [](const Expression& self) { return std::string(name_of(self.expr.type().dtype)); },
          "\"f32\", …")
      .def("__repr__", [](const Expression& self) { return to_string(self.expr); });

  py::class_<Axis> axis(module, "Axis",
                        "A loop: of a compute's result, of a reduction, or one that a schedule has made.\n\n"
                        "The first two stand for their index in expressions.");
  axis.attr("__module__") = "gantry.te";
  add_operators(axis);
  axis.def_property_readonly(
          "name", [](const Axis& self) { return self.axis->name(); }, "For printed loop nests.")
      .def_property_readonly(
          "extent", [](const Axis& self) { return extent_of(self.axis); },
          "How many iterations; None where a schedule has made it.")
      .def("__repr__", [](const Axis& self) { return self.axis->name(); });

  py::class_<TensorExpression> tensor(
      module, "TensorExpression",
      "A tensor: an input, or the result of a computation.\n\n"
      "``x[i, j]`` is its element at these indices, which must lie inside of it whenever\n"
      "that is evaluated: te.if_then_else evaluates its chosen side alone.");
  tensor.attr("__module__") = "gantry.te";
  tensor
      .def(
          "__getitem__",
          [](const TensorExpression& self, const py::object& at) { return element_of(self, at); },
          py::arg("indices"), "The element at these indices, one a dimension; of a scalar: ``x[()]``.")
      .def_property_readonly(
          "name", [](const TensorExpression& self) { return self.tensor.op()->name; },
          "Inputs and outputs of modules are called so.")
      .def_property_readonly(
          "dtype", [](const TensorExpression& self) { return std::string(name_of(self.tensor.dtype())); },
          "\"f32\", …")
      .def_property_readonly(
          "shape", [](const TensorExpression& self) { return sizes_of(self.tensor); },
          "A size each dimension.")
      .def("__eq__",
           [](const TensorExpression& self, const py::object& other) {
             return py::isinstance<TensorExpression>(other) &&
                    self.tensor == other.cast<TensorExpression>().tensor;
           })
      .def("__hash__",
           [](const TensorExpression& self) {
             return std::hash<const void*>()(self.tensor.op().get()) +
                    static_cast<size_t>(self.tensor.result());
           })
      .def("__repr__", [](const TensorExpression& self) {
        return fmt::format("<gantry.te tensor {}: {} {}>", self.tensor.op()->name,
                           name_of(self.tensor.dtype()), std::string(py::str(sizes_of(self.tensor))));
      });
  // Python would else count indices up without end.
  tensor.attr("__iter__") = py::none();
}

}  // namespace gantry::python
