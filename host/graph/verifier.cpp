#include <map>
#include <set>

#include "host/graph/graph.h"
#include "host/support/error.h"

namespace gantry {
namespace {

class Verifier {
 public:
  /// `inside`: of a node's body, which sees the symbols around it.
  Verifier(Function& function, const OpTable& ops, std::string_view after, bool inside = false)
      : function_(function), ops_(ops), after_(after), inside_(inside) {}

  void run() {
    for (const Value* parameter : function_.parameters) {
      check(parameter->kind == Value::Kind::kParameter, "%{} is listed as a parameter but is none",
            parameter->name);
      define(parameter);
    }
    for (const Value* constant : function_.constants()) check_constant(*constant);
    for (Node* node : function_.nodes()) check_node(*node);
    if (!inside_) check_symbols();
    check_users();
    check_outputs();
  }

 private:
  template <typename... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (condition) return;
    internal_error("after {}, @{}{}: {}", after_, function_.name, where_,
                   fmt::format(format, std::forward<Args>(args)...));
  }

  void define(const Value* value) {
    check(defined_.insert(value).second, "%{} is defined twice", value->name);
    check(names_.insert(value->name).second, "the name %{} stands for two values", value->name);
  }

  void check_constant(const Value& value) {
    check(value.constant != nullptr, "the constant @{} has no data", value.name);
    check(value.constant->type == value.type, "the constant @{} holds a {} but is typed {}", value.name,
          value.constant->type.str(), value.type.str());
    check(value.type.byte_size() == Dim(static_cast<int64_t>(value.constant->size)),
          "the constant @{} of type {} holds {} bytes", value.name, value.type.str(), value.constant->size);
    define(&value);
  }

  void check_node(Node& node) {
    check(node.op != nullptr && node.attrs != nullptr, "a node has no op or no attributes");
    where_ = fmt::format(", node {}{}", node.op->name,
                         node.origin.empty() ? "" : fmt::format(" ({})", fmt::join(node.origin, ", ")));
    for (const Value* input : node.inputs) {
      check(input == nullptr || defined_.count(input) != 0, "an input is used before it is defined");
    }
    for (const auto& body : node.bodies) Verifier(*body, ops_, after_, true).run();
    check_types(node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value* result = node.results[i];
      check(result->kind == Value::Kind::kResult && result->producer == &node &&
                result->result_index == static_cast<int>(i),
            "the result %{} does not point back to its node", result->name);
      define(result);
    }
    where_.clear();
  }

  // Type rules may note constraints on the way; the function keeps those that it has.
  std::vector<TensorType> inferred(const Node& node) {
    const std::vector<DimConstraint> constraints = function_.constraints;
    std::vector<TensorType> types;
    try {
      types = ops_.infer(node, function_);
    } catch (const Error& error) {
      check(false, "its type rule refuses it: {}", error.what());
    }
    function_.constraints = constraints;
    return types;
  }

  void check_types(const Node& node) {
    const std::vector<TensorType> types = inferred(node);
    check(types.size() == node.results.size(), "it has {} results instead of {}", node.results.size(),
          types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      const TensorType& actual = node.results[i]->type;
      bool same = actual.dtype == types[i].dtype && actual.rank() == types[i].rank();
      // Equal dimensions may have different canonical forms.
      for (size_t d = 0; same && d < actual.shape.size(); ++d) {
        same = !provably_different(actual.shape[d], types[i].shape[d]);
      }
      check(same, "the result %{} is typed {} but its type rule says {}", node.results[i]->name, actual.str(),
            types[i].str());
    }
  }

  // Where nodes bind symbols, each is bound once. Passes may leave what mentions them in front of them: see
  // order_by_symbols.
  void check_symbols() {
    std::set<std::string> known;
    for (const Value* parameter : function_.parameters) {
      for (const Dim& dim : parameter->type.shape) {
        for (std::string& name : dim.symbols()) known.insert(std::move(name));
      }
    }
    bool any = false;
    for (const Node* node : function_.nodes()) {
      for (const std::string& name : ops_.bound_symbols(*node)) {
        any = true;
        check(known.insert(name).second, "the symbol {} is bound twice", name);
      }
    }
    for (const Node* node : function_.nodes()) {
      for (const Value* result : node->results) {
        for (const Dim& dim : result->type.shape) {
          for (const std::string& name : dim.symbols())
            check(!any || known.count(name) != 0, "nothing binds the symbol {} of %{}", name, result->name);
        }
      }
    }
  }

  void check_users() {
    std::map<const Value*, std::set<const Node*>> readers;
    for (const Node* node : function_.nodes()) {
      for (const Value* input : node->inputs) {
        if (input != nullptr) readers[input].insert(node);
      }
    }
    for (const Value* value : defined_) {
      const std::set<const Node*> kept(value->users.begin(), value->users.end());
      check(kept.size() == value->users.size() && kept == readers[value],
            "the users of %{} are not those that read it", value->name);
    }
  }

  void check_outputs() {
    for (const Value* output : function_.outputs) {
      check(output != nullptr && defined_.count(output) != 0, "it returns a value that is not its own");
    }
    if (function_.output_names.empty()) return;
    check(function_.output_names.size() == function_.outputs.size(), "it has {} outputs but {} output names",
          function_.outputs.size(), function_.output_names.size());
    const std::set<std::string> names(function_.output_names.begin(), function_.output_names.end());
    check(names.size() == function_.output_names.size(), "two of its outputs have the same name");
  }

  Function& function_;
  const OpTable& ops_;
  std::string_view after_;
  bool inside_;
  std::string where_;
  std::set<const Value*> defined_;
  std::set<std::string> names_;
};

}  // namespace

void verify(Graph& graph, const OpTable& ops, std::string_view after) {
  // A program is @main; other functions are bodies, which passes see alone.
  Verifier(graph.main, ops, after, graph.main.name != "main").run();
}

}  // namespace gantry
