// Constants, identities, and branches whose condition is known.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <tuple>

#include "host/graph/strings.h"
#include "host/onnx/branches.h"
#include "host/onnx/carried.h"
#include "host/onnx/converters.h"
#include "host/onnx/importer.h"
#include "host/onnx/malformed.h"
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
  if (n.has_attribute("sparse_value")) return n.set_constant(0, n.sparse_tensor("sparse_value"));
  if (n.has_attribute("value_string"))
    return n.set_constant(0, make_strings({}, {n.text("value_string", "")}));
  if (n.has_attribute("value_strings")) {
    const std::vector<std::string> texts = n.text_list("value_strings");
    return n.set_constant(0, make_strings({static_cast<int64_t>(texts.size())}, texts));
  }
  n.fail("its value is missing");
}

void convert_identity(NodeImport& n) {
  if (const Binding& given = n.binding(0); given.sequence || given.late || given.absent || given.has_value != nullptr)
    return n.set_binding(0, given);
  if (ConstantPtr known = n.constant(0)) return n.set_constant(0, known);
  n.set(0, n.add(op::identity, {n.input(0)}));
}

/// As what branches' results are asked for; null: as what they are.
struct Wanted {
  const std::vector<Carried>* carried = nullptr;
  /// Of the tensors that carry them, of which those of one element may have others.
  const std::vector<int>* ranks = nullptr;
};

Branch import_branch(NodeImport& n, const char* name, const Wanted& wanted) {
  Branch branch;
  const auto give = [&](const std::vector<Binding>& results) {
    branch.results.clear();
    for (const Binding& result : results) branch.results.push_back(carried_as(n, result));
    if (wanted.carried != nullptr) branch.results = *wanted.carried;
    std::vector<Value*> values;
    for (size_t i = 0; i < results.size(); ++i) {
      const std::vector<Value*> own = carry(n, results[i], branch.results[i]);
      values.insert(values.end(), own.begin(), own.end());
    }
    for (size_t i = 0; wanted.ranks != nullptr && i < values.size(); ++i) {
      const int rank = (*wanted.ranks)[i];
      if (values[i]->type.rank() != rank)
        values[i] = n.reshape(values[i], Shape(static_cast<size_t>(rank), Dim(1)));
    }
    return values;
  };
  const onnx::GraphProto& graph = n.graph(name);
  try {
    branch.body = n.import_body(graph, {}, give);
  } catch (const Unsupported&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    branch.errors = texts_of(error);
    branch.broken = is_broken(error);
  }
  return branch;
}

[[noreturn]] void refuse(const NodeImport& n, const Branch& then_branch, const Branch& else_branch) {
  std::vector<std::string> texts;
  for (const auto& [name, branch] : {std::pair("then_branch", &then_branch), {"else_branch", &else_branch}}) {
    for (const std::string& text : branch->errors)
      texts.push_back(names_node(text, n.name())
                          ? text
                          : fmt::format("node {} (If): in its {}: {}", n.name(), name, text));
  }
  throw MalformedModel(std::move(texts), "nodes", then_branch.broken || else_branch.broken);
}

/// Both branches; one of them may be impossible for the model's shapes.
std::pair<Branch, Branch> import_branches(NodeImport& n, const Wanted& wanted) {
  Branch then_branch;
  try {
    then_branch = import_branch(n, "then_branch", wanted);
  } catch (const ReadsUnknown&) {
    n.probe_branch(n.graph("else_branch"));  // what is not supported there is named too
    throw;
  }
  Branch else_branch = import_branch(n, "else_branch", wanted);
  if ((!then_branch.body && !else_branch.body) || then_branch.broken || else_branch.broken)
    refuse(n, then_branch, else_branch);
  const auto why = [&](const char* name, const Branch& branch) {
    const std::string text = fmt::format("node {} (If) takes its {}, which these shapes do not fit: {}",
                                         n.name(), name, branch.errors.front());
    n.warn(fmt::format("where {}, the run ends with an error", text));
    return text;
  };
  if (!then_branch.body)
    then_branch = impossible_branch(n, else_branch, why("then_branch", then_branch));
  else if (!else_branch.body)
    else_branch = impossible_branch(n, then_branch, why("else_branch", else_branch));
  return {std::move(then_branch), std::move(else_branch)};
}

/// Both branches, whose results are carried as the same: where one gives another number of tensors, or none, they are
/// converted again.
std::pair<Branch, Branch> import_alike_branches(NodeImport& n) {
  auto branches = import_branches(n, {});
  const auto &first = branches.first.results, &second = branches.second.results;
  if (first.size() != second.size() || first.size() < n.output_count())
    n.fail("its branches have {} and {} outputs, not {}", first.size(), second.size(), n.output_count());
  std::vector<Carried> both;
  for (size_t i = 0; i < first.size(); ++i) both.push_back(joined(n, first[i], second[i]));
  if (first == both && second == both) return branches;
  n.drop_body(*branches.second.body);
  n.drop_body(*branches.first.body);
  return import_branches(n, {.carried = &both});
}

bool has_one_element(const Value& value) {
  return element_count(value.type.shape) == Dim(1);
}

/// Ranks for the results of branches where those that differ are of one element: what broadcasts reads either
/// alike. Nothing where others differ.
std::optional<std::vector<int>> joined_ranks(NodeImport& n, const ImportedBody& first,
                                             const ImportedBody& second) {
  std::vector<int> ranks;
  for (size_t i = 0; i < first.function->outputs.size(); ++i) {
    const Value &a = *first.function->outputs[i], &b = *second.function->outputs[i];
    if (a.type.rank() != b.type.rank() && !(has_one_element(a) && has_one_element(b))) return std::nullopt;
    ranks.push_back(std::max(a.type.rank(), b.type.rank()));
  }
  n.warn(fmt::format(
      "node {} (If) gives one element, in branches of different ranks: the higher one is taken", n.name()));
  return ranks;
}

/// Both branches are functions of the program, which calls one of them.
void convert_if_on_data(NodeImport& n) {
  Value* condition = n.input(0);
  const Choice choice = n.next_choice();
  if (choice.taken) return n.inline_branch(n.graph(*choice.taken ? "then_branch" : "else_branch"));
  auto [then_branch, else_branch] = import_alike_branches(n);
  if (ranks_differ(*then_branch.body, *else_branch.body)) {
    n.drop_body(*else_branch.body);
    n.drop_body(*then_branch.body);
    const auto ranks =
        choice.joins_ranks ? joined_ranks(n, *then_branch.body, *else_branch.body) : std::nullopt;
    if (!ranks) throw BranchesDiffer{n.name(), condition, &n.function(), choice.number};
    const std::vector<Carried> carried = then_branch.results;
    std::tie(then_branch, else_branch) = import_branches(n, {.carried = &carried, .ranks = &*ranks});
  }
  std::vector<Binding> results = add_branches(n, condition, then_branch, else_branch);
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
