#include <algorithm>
#include <cctype>
#include <set>

#include "host/graph/graph.h"
#include "host/graph/text.h"
#include "host/support/error.h"

namespace gantry {
namespace {

std::string printed_name(std::string_view name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), is_plain_name_char);
  return plain ? std::string(name) : quote(name);
}

// An origin as it stands in the comment behind a node.
std::string printed_origin(const std::string& name) {
  const bool plain = !name.empty() && name.front() != ' ' && name.back() != ' ' &&
                     name.find_first_of("\",\\") == std::string::npos &&
                     std::none_of(name.begin(), name.end(),
                                  [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; });
  return plain ? name : quote(name);
}

std::string_view placement_text(Placement placement) {
  switch (placement) {
    case Placement::kDefault:
      return "";
    case Placement::kCpu:
      return " on cpu";
    case Placement::kGpu:
      return " on gpu";
  }
  internal_error("unknown placement");
}

class FunctionPrinter {
 public:
  FunctionPrinter(const Function& function, const OpTable& ops, int indent)
      : function_(function),
        ops_(ops),
        indent_(static_cast<size_t>(indent), ' '),
        counts_(function.use_counts()) {}

  /// From "fn" to the closing brace, without the line end behind it.
  std::string print() {
    text_ = fmt::format("fn @{}(", printed_name(function_.name));
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      const Value& parameter = *function_.parameters[i];
      text_ += fmt::format("{}%{}: {}", i ? ", " : "", printed_name(parameter.name), parameter.type.str());
    }
    text_ += fmt::format(") -> {} {{\n", result_types());
    for (const DimConstraint& c : function_.constraints) {
      text_ +=
          fmt::format("{}  where {} == {} from {}\n", indent_, c.left.str(), c.right.str(), quote(c.origin));
    }
    for (const Node* node : function_.nodes()) print_node(*node);
    print_return();
    return text_ + indent_ + "}";
  }

  std::string print_some(const std::vector<const Node*>& nodes) {
    for (const Node* node : nodes) print_node(*node);
    return text_;
  }

 private:
  std::string result_types() const {
    if (function_.outputs.size() == 1) return function_.outputs[0]->type.str();
    std::string text = "(";
    for (size_t i = 0; i < function_.outputs.size(); ++i)
      text += (i ? ", " : "") + function_.outputs[i]->type.str();
    return text + ")";
  }

  std::string use(const Value* value) {
    if (value == nullptr) return "none";
    if (!value->is_constant()) return "%" + printed_name(value->name);
    const std::string name = "@" + printed_name(value->name);
    if (!declared_.insert(value).second) return name;
    const auto count = element_count(value->type.shape).constant();
    if (!count || *count > kMaxInlineElements) return fmt::format("{}: {}", name, value->type.str());
    const std::string bytes = print_constant(*value->constant);
    return counts_[value] > 1 ? fmt::format("{}: {}", name, bytes) : bytes;
  }

  void print_node(const Node& node) {
    text_ += indent_ + "  ";
    for (size_t i = 0; i < node.results.size(); ++i) {
      text_ += fmt::format("{}%{}", i ? ", " : "", printed_name(node.results[i]->name));
    }
    text_ += fmt::format(" = {}(", node.op->name);
    for (size_t i = 0; i < node.inputs.size(); ++i) text_ += (i ? ", " : "") + use(node.inputs[i]);
    const auto defaults = node.op->handle->make_attrs();
    const std::string attrs = defaults ? to_string(*node.attrs, *defaults) : to_string(*node.attrs);
    if (!attrs.empty()) text_ += (node.inputs.empty() ? "" : ", ") + attrs;
    text_ += ")";
    for (const auto& body : node.bodies) {
      text_ += " " + FunctionPrinter(*body, ops_, static_cast<int>(indent_.size()) + 2).print();
    }
    text_ += placement_text(node.placement);
    for (size_t i = 0; i < node.origin.size(); ++i)
      text_ += (i ? ", " : "  // ") + printed_origin(node.origin[i]);
    text_ += "\n";
  }

  void print_return() {
    text_ += indent_ + "  return";
    for (size_t i = 0; i < function_.outputs.size(); ++i) {
      text_ += (i ? ", " : " ") + use(function_.outputs[i]);
      if (i < function_.output_names.size()) text_ += " as " + quote(function_.output_names[i]);
    }
    text_ += "\n";
  }

  const Function& function_;
  const OpTable& ops_;
  std::string indent_;
  std::map<const Value*, int> counts_;
  std::set<const Value*> declared_;
  std::string text_;
};

}  // namespace

bool is_plain_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '$' || c == '/' || c == '-';
}

std::string print(const Function& function, const OpTable& ops) {
  return FunctionPrinter(function, ops, 0).print() + "\n";
}

std::string print_nodes(const Function& function, const std::vector<const Node*>& nodes, const OpTable& ops) {
  return FunctionPrinter(function, ops, 0).print_some(nodes);
}

std::string print(const Graph& graph, const OpTable& ops) {
  const std::string head = graph.model_name.empty() ? "" : fmt::format("model {}\n", quote(graph.model_name));
  return head + print(graph.main, ops);
}

}  // namespace gantry
