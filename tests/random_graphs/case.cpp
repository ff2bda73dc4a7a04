#include "tests/random_graphs/case.h"

#include <algorithm>
#include <limits>

#include "host/graph/text.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/tensor/element.h"
#include "host/tensor/fold.h"
#include "tests/random_graphs/choices.h"

namespace gantry::random_graphs {
namespace {

class SymbolBinder : public AttrVisitor {
 public:
  explicit SymbolBinder(const std::map<std::string, int64_t>& symbols) : symbols_(symbols) {}
  void operator()(std::string_view, int64_t&) override {}
  void operator()(std::string_view, double&) override {}
  void operator()(std::string_view, bool&) override {}
  void operator()(std::string_view, std::string&) override {}
  void operator()(std::string_view, DType&) override {}
  void operator()(std::string_view, Dim& value) override { bind(value); }
  void operator()(std::string_view, std::vector<int64_t>&) override {}
  void operator()(std::string_view, std::vector<double>&) override {}
  void operator()(std::string_view, Shape& value) override { bind(value); }

  void bind(Dim& dim) const { dim = Dim(dim.evaluate(symbols_)); }
  void bind(Shape& shape) const {
    for (Dim& dim : shape) bind(dim);
  }

 protected:
  void enumeration_index(std::string_view, int64_t&, std::span<const std::string_view>) override {}

 private:
  const std::map<std::string, int64_t>& symbols_;
};

void bind(Function& function, SymbolBinder& binder) {
  function.constraints.clear();
  for (Value* parameter : function.parameters) binder.bind(parameter->type.shape);
  for (Node* node : function.nodes()) {
    auto attrs = node->attrs->clone();
    attrs->fields(binder);
    node->attrs = attrs;
    for (Value* result : node->results) binder.bind(result->type.shape);
    for (auto& body : node->bodies) bind(*body, binder);
  }
}

double special_number(Choices& choices) {
  const double infinity = std::numeric_limits<double>::infinity();
  return choices.of(
      {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 0.0, -0.0, 1e-40, -1e-40});
}

double random_number(Choices& choices, bool special, double scale) {
  if (special && choices.chance(0.08)) return special_number(choices);
  // Whole numbers and halves make ties, which rounding and comparing must break alike.
  if (choices.chance(0.15)) return 0.5 * static_cast<double>(choices.between(-6, 6));
  return choices.normal() * scale;
}

}  // namespace

const Value* parameter_of_symbol(const std::vector<Value*>& parameters, const std::string& symbol) {
  const auto found = std::ranges::find_if(parameters, [&](const Value* parameter) {
    return std::ranges::find(parameter->type.shape, Dim::symbol(symbol)) != parameter->type.shape.end();
  });
  return found == parameters.end() ? nullptr : *found;
}

Graph bound(const Graph& graph, const std::map<std::string, int64_t>& symbols) {
  Graph result = clone_graph(graph);
  SymbolBinder binder(symbols);
  bind(result.main, binder);
  return result;
}

ConstantPtr random_data(const TensorType& type, uint64_t seed, const std::string& name, bool special,
                        double scale) {
  std::byte* bytes = nullptr;
  auto data = allocate_constant(type, &bytes);
  Choices choices(seed, name);
  const auto width = static_cast<size_t>(byte_width(type.dtype));
  for (size_t at = 0; at < data->size; at += width) {
    if (is_float(type.dtype)) {
      write_float(type.dtype, bytes + at, random_number(choices, special, scale));
    } else if (type.dtype == DType::kBool) {
      bytes[at] = static_cast<std::byte>(choices.below(2));
    } else {
      write_integer(type.dtype, bytes + at, choices.between(is_unsigned_int(type.dtype) ? 0 : -4, 9));
    }
  }
  return data;
}

std::vector<ConstantPtr> inputs_of(const Case& test, const Graph& bound) {
  std::vector<ConstantPtr> inputs;
  for (const Value* parameter : bound.main.parameters)
    inputs.push_back(random_data(parameter->type, test.seed, parameter->name, test.special));
  return inputs;
}

std::string text_of(const Graph& graph) {
  std::string text = print(graph, op_set());
  for (const Value* constant : graph.main.constants()) {
    const std::string name = "@" + constant->name + ": ", declared = name + constant->type.str();
    const size_t at = text.find(declared);
    if (at != std::string::npos)
      text.replace(at, declared.size(), name + print_constant(*constant->constant));
  }
  return text;
}

}  // namespace gantry::random_graphs
