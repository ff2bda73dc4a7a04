// Operations whose loop nest is written by hand, in Python.
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>

#include "host/python/expressions.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

struct LoopBuffer {
  Buffer buffer;
};

/// The host's builder for as long as the host wants it: Python may keep what it was given.
struct Nest {
  LoopBuilder* builder;  ///< null: the body has returned, or failed
  int inputs, results;
  /// What the place where code is now written knows.
  std::vector<const VarNode*> variables;
  std::vector<Buffer> buffers;
};
using NestPtr = std::shared_ptr<Nest>;

LoopBuilder& builder_of(const NestPtr& nest) {
  if (nest->builder == nullptr) user_error("a loop builder is used after its body has returned or failed");
  return *nest->builder;
}

LoopBuffer known(const NestPtr& nest, const Buffer& buffer) {
  nest->buffers.push_back(buffer);
  return {buffer};
}

void check_buffer(const NestPtr& nest, const BufferNode* buffer) {
  if (std::ranges::none_of(nest->buffers, [&](const Buffer& other) { return other.get() == buffer; }))
    user_error("the buffer {} is of another nest, or of a parallel loop that has ended", buffer->name);
}

/// User errors: parts that are not known where code is now written.
Expression checked(const NestPtr& nest, const Expression& value) {
  walk(value.expr, [&](const Expr& e) {
    if (const auto* read = e.as<ReadNode>())
      user_error("{} is an element of a tensor expression; loop nests by hand read the builder's buffers",
                 read->op->name);
    if (e.as<ReduceNode>())
      user_error("loop nests by hand sum in loops of theirs, not by te.sum and its like");
    if (const auto* load = e.as<LoadNode>()) check_buffer(nest, load->buffer.get());
    if (const auto* variable = e.as<VarNode>();
        variable && std::ranges::count(nest->variables, variable) == 0)
      user_error("{} is no variable of a loop around this", variable->name);
  });
  return value;
}

Expr whole(const NestPtr& nest, const py::handle& value, const std::string& what) {
  return checked(nest, index_operand(value, what)).expr;
}

Expr truth(const NestPtr& nest, const py::handle& value) {
  const Expression made = checked(nest, operand(value, DType::kBool));
  if (made.expr.type().dtype != DType::kBool)
    user_error("the condition {} is {}, not bool", to_string(made.expr), name_of(made.expr.type().dtype));
  return made.expr;
}

/// Has Python write what stands inside of something, where `variable`, if it is one, is known.
template <typename... Arguments>
void write_inside(const NestPtr& nest, const py::function& body, const Expr& variable,
                  const Arguments&... arguments) {
  const size_t variables = nest->variables.size();
  if (variable) nest->variables.push_back(variable.as<VarNode>());
  try {
    body(arguments...);
  } catch (...) {
    nest->builder = nullptr;  // what was written so far is lost
    throw;
  }
  nest->variables.resize(variables);
}

LoopKind kind_of(const std::string& name) {
  if (name == "serial") return LoopKind::kSerial;
  if (name == "parallel") return LoopKind::kParallel;
  if (name == "vectorized") return LoopKind::kVectorized;
  if (name == "unrolled") return LoopKind::kUnrolled;
  user_error("kind '{}' is none of 'serial', 'parallel', 'vectorized', 'unrolled'", name);
}

void store_value(const NestPtr& nest, const LoopBuffer& to, const py::object& index,
                 const py::object& value) {
  check_buffer(nest, to.buffer.get());
  const Expr at = whole(nest, index, to.buffer->name);
  const Expression what = checked(nest, operand(value, to.buffer->dtype));
  request([&] { builder_of(nest).emit(store(to.buffer, at, what.expr)); });
}

void loop(const NestPtr& nest, const std::string& name, const py::object& extent, const py::function& body,
          const std::string& kind) {
  const Expr count = whole(nest, extent, "the loop " + name);
  const LoopKind how = kind_of(kind);
  const size_t buffers = nest->buffers.size();
  request([&] {
    builder_of(nest).loop(
        name, count, [&](const Expr& index) { write_inside(nest, body, index, Expression{index}); }, how);
  });
  if (how != LoopKind::kParallel) return;
  const auto inside = nest->buffers.begin() + static_cast<std::ptrdiff_t>(buffers);
  nest->buffers.erase(
      std::remove_if(inside, nest->buffers.end(),
                     [](const Buffer& buffer) { return buffer->scope == BufferScope::kLocal; }),
      nest->buffers.end());
}

void when(const NestPtr& nest, const py::object& condition, const py::function& body) {
  const Expr test = truth(nest, condition);
  request([&] { builder_of(nest).when(test, [&] { write_inside(nest, body, Expr()); }); });
}

void let(const NestPtr& nest, const std::string& name, const py::object& value, const py::function& body) {
  const Expression named = checked(nest, operand(value));
  request([&] {
    builder_of(nest).let(name, named.expr, [&](const Expr& variable) {
      write_inside(nest, body, variable, Expression{variable});
    });
  });
}

LoopBuffer numbered(const NestPtr& nest, int index, bool input) {
  const int count = input ? nest->inputs : nest->results;
  if (index < 0 || index >= count) user_error("{} {} of {}", input ? "input" : "result", index, count);
  const LoopBuilder& builder = builder_of(nest);
  return known(nest, input ? builder.input(index) : builder.result(index));
}

/// Lowering calls it without Python's lock, perhaps on a thread of its own; there too its last copy may end.
std::function<void(LoopBuilder&)> body_of(const py::function& body, int inputs, int results) {
  const std::shared_ptr<py::function> held(new py::function(body), [](py::function* function) {
    const py::gil_scoped_acquire lock;
    delete function;
  });
  return [held, inputs, results](LoopBuilder& builder) {
    const py::gil_scoped_acquire lock;
    const auto nest = std::make_shared<Nest>(Nest{&builder, inputs, results, {}, {}});
    struct End {
      Nest& nest;
      ~End() { nest.builder = nullptr; }
    } const end{*nest};
    (*held)(nest);
  };
}

std::vector<TensorExpression> make_extern(const py::object& inputs, const py::sequence& shapes,
                                          const std::vector<std::string>& dtypes, const py::function& body,
                                          const std::string& name) {
  const std::vector<TensorExpression> from = tensors_of(inputs, name);
  std::vector<std::vector<Expr>> sizes;
  for (const py::handle& shape : shapes) sizes.push_back(shape_of(shape, name));
  std::vector<DType> types;
  for (const std::string& dtype : dtypes) types.push_back(dtype_of(dtype));
  if (sizes.empty() || sizes.size() != types.size())
    user_error("{}: {} shapes and {} dtypes: there is one of each for every result", name, sizes.size(),
               types.size());
  int depth = 1;
  for (const TensorExpression& input : from) depth = std::max(depth, input.read_depth + 1);
  const auto results = request([&] {
    return extern_kernel(host_tensors(from), sizes, types,
                         body_of(body, static_cast<int>(from.size()), static_cast<int>(sizes.size())), name);
  });
  std::vector<TensorExpression> made;
  for (const Tensor& result : results) made.push_back({result, depth});
  return made;
}

void add_buffer(py::module_& module) {
  py::class_<LoopBuffer> buffer(
      module, "Buffer",
      "Memory that a loop nest reads and writes; a tensor's elements are in row-major\n"
      "order.\n\n"
      "``buffer[i]`` is its element i. Indices are not checked.");
  buffer.attr("__module__") = "gantry.te";
  buffer
      .def(
          "__getitem__",
          [](const LoopBuffer& self, const py::object& index) {
            const Expression at = index_operand(index, self.buffer->name);
            return over(request([&] { return load(self.buffer, at.expr); }), {&at});
          },
          py::arg("index"), "The element there, as an expression.")
      .def_property_readonly(
          "name", [](const LoopBuffer& self) { return self.buffer->name; }, "For printed loop nests.")
      .def_property_readonly(
          "dtype", [](const LoopBuffer& self) { return std::string(name_of(self.buffer->dtype)); },
          "\"f32\", …")
      .def("__repr__", [](const LoopBuffer& self) { return self.buffer->name; });
  buffer.attr("__iter__") = py::none();
}

}  // namespace

void add_loop_builder(py::module_& module) {
  add_buffer(module);
  py::class_<Nest, NestPtr> nest(
      module, "LoopBuilder",
      "Writes the loop nest of an extern_kernel; valid while its body runs.\n\n"
      "What is called in the body of a loop, of when or of let stands inside of it.");
  nest.attr("__module__") = "gantry.te";
  nest.def(
          "input", [](const NestPtr& self, int index) { return numbered(self, index, true); },
          py::arg("index"), "The elements of that input.")
      .def(
          "result", [](const NestPtr& self, int index) { return numbered(self, index, false); },
          py::arg("index"), "The elements of that result.")
      .def(
          "local",
          [](const NestPtr& self, const std::string& name, const std::string& dtype,
             const py::object& count) {
            return known(self, builder_of(self).local(name, dtype_of(dtype), Expr(size_of(count, name))));
          },
          py::arg("name"), py::arg("dtype"), py::arg("count"),
          "So many elements in registers or on the stack of the thread; made in a parallel loop, of an\n"
          "iteration. At most 64 KiB at a time are possible: what is larger is ``scratch``.")
      .def(
          "scratch",
          [](const NestPtr& self, const std::string& name, const std::string& dtype,
             const py::object& count) {
            return known(self, builder_of(self).scratch(name, dtype_of(dtype), Expr(size_of(count, name))));
          },
          py::arg("name"), py::arg("dtype"), py::arg("count"),
          "So many elements of workspace, which all threads share.")
      .def("store", &store_value, py::arg("buffer"), py::arg("index"), py::arg("value"),
           "``buffer[index] = value``, when it runs.")
      .def("loop", &loop, py::arg("name"), py::arg("extent"), py::arg("body"), py::kw_only(),
           py::arg("kind") = "serial",
           "A loop from 0 to ``extent`` - 1. ``body`` is called once, with the variable.\n"
           "``kind``: \"serial\", \"parallel\" (the outermost; iterations do not depend on\n"
           "each other), \"vectorized\" or \"unrolled\".")
      .def("when", &when, py::arg("condition"), py::arg("body"),
           "Runs what ``body``, called without arguments, writes where the condition holds.")
      .def("let", &let, py::arg("name"), py::arg("value"), py::arg("body"),
           "A value computed once. ``body`` is called with the variable that has it.");
  module.def("extern_kernel", &make_extern, py::arg("inputs"), py::arg("shapes"), py::arg("dtypes"),
             py::arg("body"), py::arg("name") = "extern",
             "Results, a list of them, of a loop nest written by hand, for what no expression\n"
             "says.\n\n"
             "``body`` is called with a LoopBuilder whenever the nest is lowered, perhaps on\n"
             "another thread; each time it writes the same. CPUs only.");
}

}  // namespace gantry::python
