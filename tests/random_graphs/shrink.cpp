#include "tests/random_graphs/shrink.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

/// Adds to what is needed, of each symbol that only unneeded parameters have as an axis, one of these.
void keep_symbols(const Function& f, std::set<const Value*>& needed) {
  for (const Value* parameter : f.parameters) {
    for (const Dim& dim : parameter->type.shape) {
      if (!dim.is_symbol()) continue;
      std::vector<Value*> kept = f.parameters;
      std::erase_if(kept, [&](const Value* v) { return !needed.contains(v); });
      if (!parameter_of_symbol(kept, dim.str())) needed.insert(parameter);
    }
  }
}

/// Nodes that no output needs, and constants and parameters that nothing reads, go, but for those that alone
/// have a symbol as an axis.
void drop_unused(Function& f) {
  std::set<const Value*> needed(f.outputs.begin(), f.outputs.end());
  for (size_t i = f.nodes().size(); i-- > 0;) {
    const Node& node = *f.nodes()[i];
    if (std::ranges::any_of(node.results, [&](const Value* v) { return needed.contains(v); }))
      needed.insert(node.inputs.begin(), node.inputs.end());
  }
  f.remove_nodes([&](const Node& node) {
    return std::ranges::none_of(node.results, [&](const Value* v) { return needed.contains(v); });
  });
  f.drop_unused_constants();
  keep_symbols(f, needed);
  std::erase_if(f.parameters, [&](const Value* v) { return !needed.contains(v); });
}

/// Extents that become other ones, wherever they stand.
using Extents = std::map<int64_t, int64_t>;

class ExtentChanger : public AttrVisitor {
 public:
  explicit ExtentChanger(const Extents& extents) : extents_(extents) {}
  void operator()(std::string_view name, int64_t& value) override {
    if (name == "channels" || name == "units") change(value);
  }
  void operator()(std::string_view, double&) override {}
  void operator()(std::string_view, bool&) override {}
  void operator()(std::string_view, std::string&) override {}
  void operator()(std::string_view, DType&) override {}
  void operator()(std::string_view, Dim& value) override { change(value); }
  void operator()(std::string_view, std::vector<int64_t>&) override {}
  void operator()(std::string_view, std::vector<double>&) override {}
  void operator()(std::string_view name, Shape& value) override {
    if (name != "padding" && name != "before" && name != "after" && name != "begin") change(value);
  }

  void change(int64_t& extent) const {
    if (const auto found = extents_.find(extent); found != extents_.end()) extent = found->second;
  }
  void change(Dim& dim) const {
    if (!dim.is_constant()) return;
    int64_t extent = dim.value();
    change(extent);
    dim = Dim(extent);
  }
  void change(Shape& shape) const {
    for (Dim& dim : shape) change(dim);
  }

 protected:
  void enumeration_index(std::string_view, int64_t&, std::span<const std::string_view>) override {}

 private:
  const Extents& extents_;
};

/// The first elements along each axis.
ConstantPtr cut(const ConstantData& data, const Shape& shape) {
  const std::vector<int64_t> from = *constant_shape(data.type.shape), to = *constant_shape(shape);
  std::byte* bytes = nullptr;
  auto result = allocate_constant({data.type.dtype, shape}, &bytes);
  const auto width = static_cast<int64_t>(byte_width(data.type.dtype));
  for (int64_t i = 0; i < static_cast<int64_t>(result->size) / width; ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t d = to.size(); d-- > 0;) {
      at += rest % to[d] * stride;
      rest /= to[d];
      stride *= from[d];
    }
    std::copy_n(data.bytes + at * width, width, bytes + i * width);
  }
  return result;
}

/// The graph with other extents, built anew. A user error where it has no meaning then.
Graph resized(const Graph& graph, const Extents& extents) {
  const ExtentChanger shapes(extents);
  Graph result{graph.model_name, Function(graph.main.name)};
  Function& f = result.main;
  std::map<const Value*, Value*> values{{nullptr, nullptr}};
  for (const Value* parameter : graph.main.parameters) {
    TensorType type = parameter->type;
    shapes.change(type.shape);
    values[parameter] = f.add_parameter(parameter->name, type);
  }
  for (const Value* constant : graph.main.constants()) {
    Shape shape = constant->type.shape;
    shapes.change(shape);
    values[constant] = f.add_constant(constant->name, cut(*constant->constant, shape));
  }
  for (const Node* node : graph.main.nodes()) {
    std::vector<Value*> inputs;
    for (const Value* input : node->inputs) inputs.push_back(values.at(input));
    auto attrs = node->attrs->clone();
    ExtentChanger changer(extents);
    attrs->fields(changer);
    const Node* made = add_op(f, node->op->name, attrs, inputs);
    for (size_t i = 0; i < made->results.size(); ++i) values[node->results[i]] = made->results[i];
  }
  for (const Value* output : graph.main.outputs) f.outputs.push_back(values.at(output));
  f.output_names = graph.main.output_names;
  return result;
}

class Shrinker {
 public:
  Shrinker(const Case& test, const std::function<bool(const Case&)>& fails, int limit)
      : best_(test.clone()), fails_(fails), left_(limit) {
    drop_unused(best_.graph.main);
    // Parameters' data are their names' own, so that dropping some changes no others.
    needs_unread_ = !still_fails(best_);
    if (needs_unread_) best_ = test.clone();
  }

  Case run() {
    for (bool smaller = true; smaller && left_ > 0;) {
      smaller = drop_outputs();
      smaller = drop_unread_nodes() || smaller;
      smaller = replace_nodes() || smaller;
      smaller = bind_symbols() || smaller;
      smaller = make_plain() || smaller;
      smaller = reduce_extents() || smaller;
    }
    return std::move(best_);
  }

 private:
  bool still_fails(const Case& candidate) {
    if (left_-- <= 0) return false;
    return fails_(candidate);
  }

  /// `change` applied to a copy; kept if that still fails. Changes that make no sense are none.
  bool try_to(const std::function<void(Case&)>& change) {
    Case candidate = best_.clone();
    try {
      change(candidate);
      if (!needs_unread_) drop_unused(candidate.graph.main);
      verify(candidate.graph, op_set(), "shrinking");
    } catch (const Error&) {
      return false;
    }
    if (!still_fails(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool drop_outputs() {
    bool smaller = false;
    for (size_t i = best_.graph.main.outputs.size(); i-- > 0;) {
      if (best_.graph.main.outputs.size() < 2) break;
      smaller = try_to([i](Case& c) {
                  Function& f = c.graph.main;
                  f.outputs.erase(f.outputs.begin() + static_cast<std::ptrdiff_t>(i));
                  f.output_names.erase(f.output_names.begin() + static_cast<std::ptrdiff_t>(i));
                }) ||
                smaller;
    }
    return smaller;
  }

  /// Nodes that nothing reads, the last first, where the failure is about some of them.
  bool drop_unread_nodes() {
    bool smaller = false;
    for (size_t i = needs_unread_ ? best_.graph.main.nodes().size() : 0; i-- > 0;) {
      smaller = try_to([i](Case& c) {
                  Function& f = c.graph.main;
                  const Node* node = f.nodes()[i];
                  for (const Value* result : node->results) {
                    if (!result->users.empty() || f.is_output(result)) user_error("it is read");
                  }
                  f.remove_nodes([node](const Node& n) { return &n == node; });
                  f.drop_unused_constants();
                }) ||
                smaller;
    }
    return smaller;
  }

  /// Nodes, the last first, by one of their operands, a parameter, or a constant.
  bool replace_nodes() {
    bool smaller = false;
    for (size_t i = best_.graph.main.nodes().size(); i-- > 0;) {
      if (i >= best_.graph.main.nodes().size()) continue;
      smaller = replace_node(i) || smaller;
    }
    return smaller;
  }

  bool replace_node(size_t at) {
    const Node& node = *best_.graph.main.nodes()[at];
    const auto is_read = [this](const Value* result) {
      return !result->users.empty() || best_.graph.main.is_output(result);
    };
    if (std::ranges::none_of(node.results, is_read)) return false;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input] == nullptr || !(node.inputs[input]->type == node.result()->type)) continue;
      if (try_to([=](Case& c) {
            Function& f = c.graph.main;
            f.replace_uses(f.nodes()[at]->result(), f.nodes()[at]->inputs[input]);
          }))
        return true;
    }
    // What is returned stays a result: of a graph that returns a parameter nothing can be wrong.
    return try_to([=](Case& c) {
      Function& f = c.graph.main;
      const std::vector<Value*> results = f.nodes()[at]->results;
      for (Value* result : results) {
        if (std::ranges::count(f.outputs, result) != 0) user_error("it is returned");
        f.replace_uses(result, f.add_parameter("p", result->type));
      }
    });
  }

  bool bind_symbols() {
    if (best_.symbols.empty()) return false;
    return try_to([](Case& c) {
      c.graph = bound(c.graph, c.symbols);
      c.symbols.clear();
    });
  }

  bool make_plain() {
    return best_.special && try_to([](Case& c) { c.special = false; });
  }

  std::set<int64_t> extents() const {
    std::set<int64_t> found;
    auto collect = [&](const Value* value) {
      for (const Dim& dim : value->type.shape) {
        if (dim.is_constant() && dim.value() > 1) found.insert(dim.value());
      }
    };
    for (const Value* parameter : best_.graph.main.parameters) collect(parameter);
    for (const Value* constant : best_.graph.main.constants()) collect(constant);
    return found;
  }

  bool reduce_extents() {
    bool smaller = false;
    for (const int64_t extent : extents()) {
      for (const int64_t to : {int64_t{1}, extent / 2, extent - 1}) {
        if (to < 1 || to >= extent) continue;
        if (try_to([&](Case& c) { c.graph = resized(c.graph, {{extent, to}}); })) {
          smaller = true;
          break;
        }
      }
    }
    for (auto& [name, value] : std::map<std::string, int64_t>(best_.symbols)) {
      const std::string& symbol = name;
      smaller = (value > 1 && try_to([&](Case& c) { c.symbols[symbol] = 1; })) || smaller;
    }
    return smaller;
  }

  Case best_;
  const std::function<bool(const Case&)>& fails_;
  int left_;
  bool needs_unread_ = false;  ///< the failure goes away with the nodes that no output needs
};

}  // namespace

Case shrunk(const Case& test, const std::function<bool(const Case&)>& fails, int limit) {
  return Shrinker(test, fails, limit).run();
}

}  // namespace gantry::random_graphs
