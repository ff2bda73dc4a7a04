#include "host/custom_ops/composition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "host/graph/parse.h"
#include "host/graph/substitute_sizes.h"
#include "host/graph/text.h"
#include "host/ops/bind_dims.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// An attribute's value as graph text has it.
std::string value_text(const CustomAttribute& attribute) {
  std::vector<std::string> values;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute.values)) {
    for (const int64_t value : *integers) values.push_back(std::to_string(value));
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&attribute.values)) {
    for (const double value : *numbers) values.push_back(fmt::format("{}", value));
  } else {
    for (const std::string& value : std::get<std::vector<std::string>>(attribute.values))
      values.push_back(quote(value));
  }
  return attribute.is_list ? fmt::format("[{}]", fmt::join(values, ", ")) : values.front();
}

std::string placeholder_text(std::string_view name, std::string_view member,
                             const std::vector<CompositionInput>& inputs,
                             const std::vector<CustomAttribute>& attributes) {
  if (member.empty()) {
    const auto found = std::ranges::find(attributes, name, &CustomAttribute::name);
    if (found == attributes.end()) user_error("${} is no attribute that has a value", name);
    return value_text(*found);
  }
  const auto found = std::ranges::find(inputs, name, &CompositionInput::name);
  if (found == inputs.end()) user_error("${}.{}: there is no input {}", name, member, name);
  if (member == "type") return found->type.str();
  if (member == "dtype") return std::string(name_of(found->type.dtype));
  if (member == "shape") return to_string(found->type.shape);
  if (member == "rank") return std::to_string(found->type.rank());
  if (member == "last") return std::to_string(found->type.rank() - 1);
  user_error("${}.{}: of an input there are .type, .dtype, .shape, .rank and .last", name, member);
}

/// Texts of compositions hold their constants.
class NoWeights : public WeightSource {
 public:
  void open(const std::string&) override { refuse(); }
  ConstantPtr find(const std::string&, const TensorType&) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    user_error("a composition's constants stand in its text, as const(…)");
  }
};

/// A node's inputs under other names for the model's symbols: what a text calls so is its own.
struct MarkedInputs {
  std::string mark;  ///< with which the names begin, and nothing in the text
  std::vector<CompositionInput> inputs;
  std::map<std::string, Dim> symbols;  ///< by these names
  std::map<std::string, Dim> models;   ///< the model's, by these names

  /// As the model has it.
  TensorType shown(TensorType type) const {
    for (Dim& dim : type.shape) dim = dim.substitute(models);
    return type;
  }
};

MarkedInputs marked_inputs(const std::vector<CompositionInput>& inputs, std::string_view text) {
  MarkedInputs marked{"model.", inputs, {}, {}};
  while (text.find(marked.mark) != std::string_view::npos) marked.mark += "_";
  for (CompositionInput& input : marked.inputs) {
    for (Dim& dim : input.type.shape) {
      std::map<std::string, Dim> names;
      for (const auto& [symbol, range] : dim.symbol_ranges()) {
        const std::string name = marked.mark + symbol;
        names.emplace(symbol, Dim::symbol(name, range));
        marked.symbols.emplace(name, Dim::symbol(name, range));
        marked.models.emplace(name, Dim::symbol(symbol, range));
      }
      dim = dim.substitute(names);
    }
  }
  return marked;
}

/// Dimensions that symbols stand for: the model's for themselves, others for what the inputs have where the
/// parameters have them.
std::map<std::string, Dim> sizes_of(const std::vector<Value*>& parameters, const MarkedInputs& given) {
  std::map<std::string, Dim> sizes = given.symbols;
  for (size_t i = 0; i < std::min(parameters.size(), given.inputs.size()); ++i) {
    const Shape &wanted = parameters[i]->type.shape, &has = given.inputs[i].type.shape;
    if (wanted.size() != has.size()) continue;
    for (size_t d = 0; d < wanted.size(); ++d) {
      if (wanted[d].is_symbol()) sizes.try_emplace(wanted[d].str(), has[d]);
    }
  }
  return sizes;
}

void collect_bound(const Function& function, std::vector<std::string>& symbols) {
  for (const Node* node : function.nodes()) {
    std::ranges::copy(op_set().bound_symbols(*node), std::back_inserter(symbols));
    for (const auto& body : node->bodies) collect_bound(*body, symbols);
  }
}

/// Symbols in its types, attributes and constraints that its nodes do not bind.
std::set<std::string> free_symbols(const Function& function) {
  std::set<std::string> symbols;
  const auto add = [&](const Dim& dim) {
    for (std::string& name : dim.symbols()) symbols.insert(std::move(name));
  };
  for (const Value* parameter : function.parameters) std::ranges::for_each(parameter->type.shape, add);
  for (const DimConstraint& constraint : function.constraints) {
    add(constraint.left);
    add(constraint.right);
  }
  for (const Node* node : function.nodes()) add_mentioned_symbols(*node, symbols);
  std::vector<std::string> bound;
  collect_bound(function, bound);
  for (const std::string& name : bound) symbols.erase(name);
  return symbols;
}

std::vector<std::string> names_of(const std::vector<CompositionInput>& inputs) {
  std::vector<std::string> names;
  for (const CompositionInput& input : inputs) names.push_back(input.name);
  return names;
}

class Composer {
  /// Ends the reading of a text whose parameters are others.
  struct Unfitting {};

 public:
  Composer(const CustomOp& op, const std::vector<CompositionInput>& inputs, const std::vector<std::string>& passes)
      : op_(op), inputs_(inputs), passes_(passes) {}

  /// Null if its parameters are others than the inputs. The model's symbols are still marked.
  std::optional<Graph> read(const Composition& composition, const std::string& text,
                            const MarkedInputs& given) {
    NoWeights weights;
    ProgramSource source;
    source.name = composition.file;
    source.weights = &weights;
    source.mark = given.mark;
    source.fix_sizes = [&](const std::vector<Value*>& parameters) {
      std::vector<std::string> names;
      for (const Value* parameter : parameters) names.push_back(parameter->name);
      if (names != names_of(inputs_)) {
        others_.push_back(fmt::format("{} takes ({})", composition.file, fmt::join(names, ", ")));
        throw Unfitting{};
      }
      return sizes_of(parameters, given);
    };
    try {
      Graph graph = parse_program(text, op_set(), passes_, source);
      expect_types(composition, given, graph.main);
      return graph;
    } catch (const Unfitting&) {
      return std::nullopt;
    }
  }

  /// The composition cannot be taken.
  void refuse(const Composition& composition, const std::string& why) {
    others_.push_back(fmt::format("{}: {}", composition.file, why));
  }

  [[noreturn]] void fail_unfitting() const {
    user_error("{}: {} has no composition of the inputs ({}): {}", op_.source, op_.full_name(),
               fmt::join(names_of(inputs_), ", "), fmt::join(others_, "; "));
  }

 private:
  void expect_types(const Composition& composition, const MarkedInputs& given, Function& function) const {
    if (function.outputs.size() != op_.signature.outputs.size()) {
      user_error("{}: returns {} values, and {} has {} outputs", composition.file, function.outputs.size(),
                 op_.full_name(), op_.signature.outputs.size());
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorType &wanted = function.parameters[i]->type, &has = given.inputs[i].type;
      if (!may_be_equal(wanted, has))
        user_error("{}: takes {} as %{}, and the node has {}", composition.file, given.shown(wanted).str(),
                   inputs_[i].name, inputs_[i].type.str());
      for (size_t d = 0; d < wanted.shape.size(); ++d) {
        if (wanted.shape[d] != has.shape[d])
          function.constraints.push_back({wanted.shape[d], has.shape[d], ""});
      }
    }
  }

  const CustomOp& op_;
  const std::vector<CompositionInput>& inputs_;
  const std::vector<std::string>& passes_;
  std::vector<std::string> others_;  ///< compositions that were not taken, and why
};

/// Gives the model's symbols their names, and those that the text's nodes bind new ones. A user error: one to
/// which nothing gives a value, or more than one thing does.
void name_symbols(const Composition& composition, const MarkedInputs& given,
                  const std::function<std::string(const std::string&)>& new_symbol, Graph& graph) {
  std::map<std::string, Dim> names = given.models;
  for (const std::string& symbol : free_symbols(graph.main)) {
    if (!names.contains(symbol))
      user_error("{}: nothing says what {} is: no parameter has it for a dimension, and no node binds it",
                 composition.file, symbol);
  }
  std::vector<std::string> bound;
  collect_bound(graph.main, bound);
  for (const std::string& symbol : bound) {
    if (const auto model = given.models.find(symbol); model != given.models.end())
      user_error("{}: a node binds {}, which is a dimension of an input", composition.file,
                 model->second.str());
    if (!names.contains(symbol)) names.emplace(symbol, Dim::symbol(new_symbol(symbol)));
  }
  internal_check(equate_dims(graph, names), "{}: symbols under other names break a constraint",
                 composition.file);
}

}  // namespace

std::string fill_in(std::string_view text, const std::vector<CompositionInput>& inputs,
                    const std::vector<CustomAttribute>& attributes) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    // Inside of a name a $ is a letter as others.
    const bool begins =
        text[at] == '$' &&
        (at == 0 || !(is_plain_name_char(text[at - 1]) || text[at - 1] == '%' || text[at - 1] == '@'));
    size_t end = at + 1;
    if (begins) {
      while (end < text.size() && is_name_char(text[end])) ++end;
    }
    if (!begins || end == at + 1) {
      filled += text[at++];
      continue;
    }
    const std::string_view name = text.substr(at + 1, end - at - 1);
    std::string_view member;
    if (end + 1 < text.size() && text[end] == '.' && is_name_char(text[end + 1])) {
      const size_t begin = ++end;
      while (end < text.size() && is_name_char(text[end])) ++end;
      member = text.substr(begin, end - begin);
    }
    filled += placeholder_text(name, member, inputs, attributes);
    at = end;
  }
  return filled;
}

Graph compose(const CustomOp& op, const std::vector<CompositionInput>& inputs,
              const std::vector<CustomAttribute>& attributes, const std::vector<std::string>& passes,
              const std::function<std::string(const std::string&)>& new_symbol) {
  Composer composer(op, inputs, passes);
  for (const Composition& composition : op.compositions) {
    MarkedInputs given;
    std::string text;
    try {
      given = marked_inputs(inputs, fill_in(composition.text, inputs, attributes));
      text = fill_in(composition.text, given.inputs, attributes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      composer.refuse(composition, error.what());
      continue;
    }
    std::optional<Graph> graph = composer.read(composition, text, given);
    if (!graph) continue;
    name_symbols(composition, given, new_symbol, *graph);
    return std::move(*graph);
  }
  composer.fail_unfitting();
}

}  // namespace gantry
