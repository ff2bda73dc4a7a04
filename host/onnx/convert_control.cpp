// Constants, identities, and branches whose condition is known.
#include <onnx/onnx_pb.h>

#include "host/graph/strings.h"
#include "host/onnx/branches.h"
#include "host/onnx/converters.h"
#include "host/onnx/importer.h"
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

/// Both branches are functions of the program, which calls one of them.
void convert_if_on_data(NodeImport& n) {
  Value* condition = n.input(0);
  const Choice choice = n.next_choice();
  if (choice.taken) return n.inline_branch(n.graph(*choice.taken ? "then_branch" : "else_branch"));
  const auto [then_body, else_body] = import_branches(n);
  const auto &first = then_body.outputs, &second = else_body.outputs;
  if (first.size() != second.size() || first.size() < n.output_count())
    n.fail("its branches have {} and {} outputs, not {}", first.size(), second.size(), n.output_count());
  if (first == second && ranks_differ(then_body, else_body)) {
    n.drop_body(else_body);
    n.drop_body(then_body);
    throw BranchesDiffer{n.name(), condition, &n.function(), choice.number};
  }
  std::vector<Binding> results = add_branches(n, condition, then_body, else_body);
  for (size_t i = 0; i < n.output_count(); ++i) n.set_binding(i, std::move(results[i]));
}

void convert_if(NodeImport& n) {
  auto condition = n.contents(0);
  if (!condition || condition->dims.size() != 1 || !condition->dims[0].is_constant()) return convert_if_on_data(n);
  n.inline_branch(n.graph(condition->dims[0].value() != 0 ? "then_branch" : "else_branch"));
}

}  // namespace

void add_control_converters(ConverterTable& table) {
  table.push_back({"Constant", 1, convert_constant});
  table.push_back({"Identity", 1, convert_identity});
  table.push_back({"If", 1, convert_if});
}

}  // namespace gantry
