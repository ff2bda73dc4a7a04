// Constants, identities, and branches whose condition is known.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "host/graph/strings.h"
#include "host/onnx/converters.h"
#include "host/onnx/importer.h"
#include "host/ops/bind_dims.h"
#include "host/ops/control.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

template <typename T>
ConstantPtr scalar_constant(DType dtype, T value) {
  return make_constant({dtype, {}}, &value);
}
template <typename T>
ConstantPtr vector_constant(DType dtype, const std::vector<T>& values) {
  T none{};
  return make_constant({dtype, {static_cast<int64_t>(values.size())}},
                       values.empty() ? &none : values.data());
}

void convert_constant(NodeImport& n) {
  if (n.has_attribute("value")) return n.set_constant(0, n.tensor("value"));
  if (n.has_attribute("value_float")) {
    return n.set_constant(0, scalar_constant(DType::kF32, static_cast<float>(n.number("value_float", 0))));
  }
  if (n.has_attribute("value_int"))
    return n.set_constant(0, scalar_constant(DType::kI64, n.integer("value_int", 0)));
  if (n.has_attribute("value_floats")) {
    std::vector<double> values = n.number_list("value_floats");
    return n.set_constant(0, vector_constant(DType::kF32, std::vector<float>(values.begin(), values.end())));
  }
  if (n.has_attribute("value_ints"))
    return n.set_constant(0, vector_constant(DType::kI64, n.integer_list("value_ints")));
  if (n.has_attribute("sparse_value")) n.unsupported(UnsupportedKind::kValueKind, "sparse tensor");
  if (n.has_attribute("value_string"))
    return n.set_constant(0, make_strings({}, {n.text("value_string", "")}));
  if (n.has_attribute("value_strings")) {
    const std::vector<std::string> texts = n.text_list("value_strings");
    return n.set_constant(0, make_strings({static_cast<int64_t>(texts.size())}, texts));
  }
  n.fail("its value is missing");
}

void convert_identity(NodeImport& n) {
  if (const Binding& given = n.binding(0); given.sequence || given.absent) return n.set_binding(0, given);
  if (ConstantPtr known = n.constant(0)) return n.set_constant(0, known);
  n.set(0, n.add(op::identity, {n.input(0)}));
}

/// The symbols that a body binds itself: nobody outside knows them.
std::set<std::string> symbols_bound_in(const Function& body) {
  std::set<std::string> bound;
  for (const Node* node : body.nodes()) {
    for (std::string& name : bound_symbols(*node)) bound.insert(std::move(name));
  }
  return bound;
}

bool is_seen_outside(const Dim& dim, const std::set<std::string>& inside) {
  return dim.is_constant() ||
         std::ranges::none_of(dim.symbols(), [&](const std::string& name) { return inside.count(name) != 0; });
}

/// Types of the results; dimensions that the branches do not have in common become symbols.
std::vector<TensorType> common_types(NodeImport& n, const Function& a, const Function& b, IfAttrs& attrs) {
  std::set<std::string> inside = symbols_bound_in(a);
  inside.merge(symbols_bound_in(b));
  std::vector<TensorType> types;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const TensorType &x = a.outputs[i]->type, &y = b.outputs[i]->type;
    TensorType& type = types.emplace_back(TensorType{x.dtype, {}});
    for (size_t d = 0; d < x.shape.size(); ++d) {
      const bool common = x.shape[d] == y.shape[d] && is_seen_outside(x.shape[d], inside);
      type.shape.push_back(common ? x.shape[d] : n.new_symbol(fmt::format("{}_{}_d{}", n.name(), i, d)));
      attrs.dims.push_back(type.shape.back());
      if (!common) attrs.symbols.push_back(type.shape.back());
    }
  }
  return types;
}

/// Results as they are outputs of a body.
void set_results(NodeImport& n, const std::vector<BodyOutput>& outputs, const std::vector<Value*>& results) {
  auto next = results.begin();
  for (size_t i = 0; i < n.output_count(); ++i) {
    std::vector<Binding> parts(outputs[i].count);
    for (Binding& part : parts) part.value = *next++;
    Binding absent;
    absent.absent = true;
    using Kind = BodyOutput::Kind;
    if (outputs[i].kind == Kind::kSequence) n.set_sequence(i, std::move(parts));
    if (outputs[i].kind == Kind::kTensor) n.set_binding(i, parts[0]);
    if (outputs[i].kind == Kind::kAbsent) n.set_binding(i, absent);
  }
}

/// A branch, or why there can be none for the shapes that it is given.
struct Branch {
  std::optional<ImportedBody> body;
  std::string error;
};

Branch import_branch(NodeImport& n, const char* name) {
  try {
    return {n.import_body(n.graph(name)), ""};
  } catch (const Unsupported&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    return {std::nullopt, error.what()};
  }
}

/// In place of a branch that cannot be for the shapes that it is given: models for inputs of several sizes have one for each.
/// A run that takes it ends with the error. Results like those of the other branch.
ImportedBody impossible_branch(NodeImport& n, const ImportedBody& other, const std::string& why) {
  const std::set<std::string> inside = symbols_bound_in(*other.function);
  const onnx::GraphProto nothing;
  ImportedBody body = n.import_body(nothing, [&](Function& function) {
    for (const Value* result : other.function->outputs) {
      Shape shape = result->type.shape;
      for (Dim& dim : shape) dim = is_seen_outside(dim, inside) ? dim : Dim(0);
      Value* zeros = n.broadcast(n.scalar(result->type.dtype, 0), std::move(shape));
      function.outputs.push_back(n.add(op::copy, {zeros}));
    }
    function.constraints.push_back({0, 1, why});
    return BodyStart{};
  });
  body.outputs = other.outputs;
  return body;
}

/// Both branches; one of them may be impossible.
std::pair<ImportedBody, ImportedBody> import_branches(NodeImport& n) {
  Branch then_branch, else_branch;
  try {
    then_branch = import_branch(n, "then_branch");
  } catch (const ReadsUnknown&) {
    n.probe_branch(n.graph("else_branch"));  // what is not supported there is named too
    throw;
  }
  else_branch = import_branch(n, "else_branch");
  if (!then_branch.body && !else_branch.body) n.fail("neither of its branches can be: {}", then_branch.error);
  const auto why = [&](const char* name, const Branch& branch) {
    const std::string text =
        fmt::format("node {} (If) takes its {}, which these shapes do not fit: {}", n.name(), name, branch.error);
    n.warn(fmt::format("where {}, the run ends with an error", text));
    return text;
  };
  if (!then_branch.body)
    then_branch.body = impossible_branch(n, *else_branch.body, why("then_branch", then_branch));
  else if (!else_branch.body)
    else_branch.body = impossible_branch(n, *then_branch.body, why("else_branch", else_branch));
  return {*then_branch.body, *else_branch.body};
}

void expect_equal_types(const NodeImport& n, const Function& a, const Function& b) {
  if (!std::ranges::equal(a.outputs, b.outputs,
                          [](const Value* x, const Value* y) { return x->type.dtype == y->type.dtype; }))
    n.unsupported(UnsupportedKind::kControlFlow, "branches whose results differ in element type");
}

bool have_equal_ranks(const Function& a, const Function& b) {
  return std::ranges::equal(a.outputs, b.outputs,
                            [](const Value* x, const Value* y) { return x->type.rank() == y->type.rank(); });
}

/// Whether all results that the model declares have the ranks of the branch's.
bool fits_declared_ranks(const NodeImport& n, const Function& branch) {
  if (branch.outputs.size() != n.output_count()) return false;
  for (size_t i = 0; i < n.output_count(); ++i) {
    const std::optional<int> declared = n.declared_rank(i);
    if (declared && *declared != branch.outputs[i]->type.rank()) return false;
  }
  return true;
}

/// Of branches whose results differ in rank, whether the first is the one that runs.
bool assume_first(NodeImport& n, const Function& then_branch, const Function& else_branch) {
  const bool likely = fits_declared_ranks(n, then_branch) || !fits_declared_ranks(n, else_branch);
  const bool first = n.assume(likely);
  n.warn(fmt::format(
      "node {} (If) has branches whose results differ in rank: its {} is taken to be the one that runs, and "
      "data that ask for the other end the run with an error",
      n.name(), first ? "then_branch" : "else_branch"));
  return first;
}

constexpr const char* kOtherRank =
    "its results have another rank than those of the other branch, which the program is made for";

/// Both branches are functions of the program, which calls one of them. `known`: the condition, where it
/// follows from sizes.
void convert_if_on_data(NodeImport& n, const std::optional<Dim>& known) {
  auto [then_body, else_body] = import_branches(n);
  const auto &first = then_body.outputs, &second = else_body.outputs;
  if (first.size() != second.size() || first.size() < n.output_count())
    n.fail("its branches have {} and {} outputs, not {}", first.size(), second.size(), n.output_count());
  if (first != second)
    n.unsupported(UnsupportedKind::kControlFlow, "branches whose results differ in how many tensors they are");
  expect_equal_types(n, *then_body.function, *else_body.function);
  if (!have_equal_ranks(*then_body.function, *else_body.function)) {
    const bool runs_first = assume_first(n, *then_body.function, *else_body.function);
    if (known) {
      n.drop_body(then_body);
      n.function().constraints.push_back({*known, runs_first ? 1 : 0, n.name()});
      return n.inline_branch(n.graph(runs_first ? "then_branch" : "else_branch"));
    }
    ImportedBody& other = runs_first ? else_body : then_body;
    other = impossible_branch(n, runs_first ? then_body : else_body,
                              fmt::format("node {} (If) takes its {}: {}", n.name(),
                                          runs_first ? "else_branch" : "then_branch", kOtherRank));
  }
  auto attrs = std::make_shared<IfAttrs>();
  const std::vector<TensorType> types = common_types(n, *then_body.function, *else_body.function, *attrs);
  attrs->then_inputs = static_cast<int64_t>(then_body.captured.size());
  std::vector<Value*> inputs{n.input(0)};
  inputs.insert(inputs.end(), then_body.captured.begin(), then_body.captured.end());
  inputs.insert(inputs.end(), else_body.captured.begin(), else_body.captured.end());
  const Node* node = n.add_control(op::if_else, attrs, std::move(inputs), types, {then_body, else_body});
  set_results(n, then_body.outputs, node->results);
}

void convert_if(NodeImport& n) {
  const std::optional<Contents> condition = n.contents(0);
  if (!condition || condition->dims.size() != 1) return convert_if_on_data(n, std::nullopt);
  const Dim& known = condition->dims[0];
  if (!known.is_constant()) return convert_if_on_data(n, known);
  n.inline_branch(n.graph(known.value() != 0 ? "then_branch" : "else_branch"));
}

}  // namespace

void add_control_converters(ConverterTable& table) {
  table.push_back({"Constant", 1, convert_constant});
  table.push_back({"Identity", 1, convert_identity});
  table.push_back({"If", 1, convert_if});
}

}  // namespace gantry
