#include <algorithm>
#include <cctype>
#include <set>

#include "host/graph/graph.h"
#include "host/graph/parse.h"
#include "host/graph/text.h"
#include "host/support/error.h"

namespace gantry {
namespace {

std::string printed_name(std::string_view name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), is_plain_name_char) &&
                     name.find("//") == std::string_view::npos;  // where a comment begins
  return plain ? std::string(name) : quote(name);
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

/// Finds the names under which constants stand beside the text.
class EntryNames {
 public:
  explicit EntryNames(WeightEntries& entries) : entries_(entries) {}

  std::string entry_of(const std::string& name, const ConstantPtr& constant) {
    const auto known = names_.find(constant.get());
    if (known != names_.end()) return known->second;
    const std::string plain = in_ascii(name);
    std::string entry = plain;
    for (int i = 1; entry == kReserved || !taken_.insert(entry).second; ++i)
      entry = fmt::format("{}_{}", plain, i);
    entries_.emplace_back(entry, constant);
    return names_[constant.get()] = entry;
  }

 private:
  /// JSON has no other bytes than those of UTF-8, which names need not be.
  static std::string in_ascii(std::string name) {
    for (char& c : name) c = c >= ' ' && c <= '~' ? c : '_';
    return name;
  }

  static constexpr std::string_view kReserved = "__metadata__";  // safetensors' own

  WeightEntries& entries_;
  std::map<const ConstantData*, std::string> names_;
  std::set<std::string> taken_;
};

class FunctionPrinter {
 public:
  /// `entries`: of a text that is to read back as the same graph; null for one that people read.
  FunctionPrinter(const Function& function, const OpTable& ops, int indent, EntryNames* entries = nullptr)
      : function_(function),
        ops_(ops),
        indent_(static_cast<size_t>(indent), ' '),
        entries_(entries),
        counts_(function.use_counts()) {}

  /// From "fn" to the closing brace, without the line end behind it.
  std::string print() {
    text_ = fmt::format("fn @{}(", printed_name(function_.name));
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
      const Value& parameter = *function_.parameters[i];
      text_ += fmt::format("{}%{}: {}", i ? ", " : "", printed_name(parameter.name), parameter.type.str());
    }
    text_ += fmt::format(") -> {} {{\n", result_types());
    if (indent_.empty()) {  // of a body, the function around it has said so
      for (const auto& [symbol, range] : function_.ranges())
        text_ += fmt::format("  where {} in {}\n", symbol, to_string(range));
    }
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
    // The weights beside a text hold numbers alone.
    const bool is_inline = entries_ != nullptr && value->type.dtype == DType::kString;
    if (!count || (*count > kMaxInlineElements && !is_inline))
      return fmt::format("{}: {}{}", name, value->type.str(), entry_text(*value));
    const std::string bytes = print_constant(*value->constant);
    return counts_[value] > 1 || entries_ != nullptr ? fmt::format("{}: {}", name, bytes) : bytes;
  }

  std::string entry_text(const Value& constant) {
    if (entries_ == nullptr) return "";
    const std::string entry = entries_->entry_of(constant.name, constant.constant);
    return entry == constant.name ? "" : " from " + quote(entry);
  }

  /// What the op's type rule says; nothing where it refuses the node.
  std::vector<TensorType> inferred(const Node& node) {
    Function scratch;  // takes the constraints that the rule notes
    try {
      return ops_.infer(node, scratch);
    } catch (const Error&) {
      return {};
    }
  }

  std::string results_text(const Node& node) {
    const std::vector<TensorType> types = entries_ != nullptr ? inferred(node) : std::vector<TensorType>();
    std::string text;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value& result = *node.results[i];
      text += fmt::format("{}%{}", i ? ", " : "", printed_name(result.name));
      if (i < types.size() && !(types[i] == result.type)) text += ": " + result.type.str();
    }
    return text;
  }

  void print_node(const Node& node) {
    text_ += indent_ + "  " + results_text(node);
    text_ += fmt::format(" = {}(", node.op->name);
    for (size_t i = 0; i < node.inputs.size(); ++i) text_ += (i ? ", " : "") + use(node.inputs[i]);
    const auto defaults = node.op->handle->make_attrs();
    const AttrTexts attrs = defaults ? texts(*node.attrs, *defaults) : AttrTexts{to_string(*node.attrs), ""};
    if (!attrs.meaning.empty()) text_ += (node.inputs.empty() ? "" : ", ") + attrs.meaning;
    text_ += ")";
    if (!attrs.choices.empty()) text_ += " by (" + attrs.choices + ")";
    for (const auto& body : node.bodies) {
      text_ += " " + FunctionPrinter(*body, ops_, static_cast<int>(indent_.size()) + 2, entries_).print();
    }
    text_ += placement_text(node.placement);
    if (node.decision) text_ += " " + to_string(*node.decision);
    if (!node.origin.empty()) text_ += "  // " + origin_text(node.origin);
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
  EntryNames* entries_;
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

std::string print_program(const Graph& graph, const OpTable& ops, const std::string& weights_file,
                          WeightEntries& weights) {
  weights.clear();
  EntryNames entries(weights);
  const std::string main = FunctionPrinter(graph.main, ops, 0, &entries).print();
  std::string head = fmt::format("gir {}\n", kTextVersion);
  if (!graph.model_name.empty()) head += fmt::format("model {}\n", quote(graph.model_name));
  if (!weights.empty()) head += fmt::format("weights {}\n", quote(weights_file));
  if (!graph.passes.empty()) head += fmt::format("passes {}\n", fmt::join(graph.passes, ", "));
  return head + main + "\n";
}

}  // namespace gantry
