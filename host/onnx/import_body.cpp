// Graphs inside of the model's: in place, or as functions with what they read of those around them as parameters.
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/onnx/importer.h"
#include "host/onnx/malformed.h"
#include "host/onnx/node_import.h"
#include "host/onnx/node_reads.h"
#include "host/ops/builder.h"
#include "host/ops/elementwise.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// What a function and those inside of it take of time and memory, in nodes.
int64_t cost_of(const Function& function) {
  constexpr int64_t kBesideNodes = 200;
  int64_t cost = kBesideNodes + static_cast<int64_t>(function.nodes().size());
  for (const Node* node : function.nodes()) {
    for (const auto& body : node->bodies) cost += cost_of(*body);
  }
  return cost;
}

}  // namespace

/// A user error where it would be too deep.
struct Importer::InnerScope {
  InnerScope(Importer& i, const std::string& owner) : importer(i) {
    if (importer.depth_ == kDeepestNesting)
      user_error("node {}: branches are nested more than {} deep", owner, kDeepestNesting);
    ++importer.depth_;
    importer.scopes_.emplace_back();
    importer.declared_ranks_.open();
  }
  ~InnerScope() {
    --importer.depth_;
    importer.scopes_.pop_back();
    importer.declared_ranks_.close();
  }
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;

  Importer& importer;
};

std::vector<Binding> Importer::inline_graph(const onnx::GraphProto& graph, const std::string& owner,
                                            std::vector<Binding> arguments) {
  const InnerScope scope(*this, owner);
  define_arguments(graph, std::move(arguments), owner);
  declared_ranks_.add(graph);
  add_initializers(graph);
  convert_nodes(graph);
  std::vector<Binding> outputs;
  for (const onnx::ValueInfoProto& output : graph.output()) outputs.push_back(lookup(output.name(), owner));
  return outputs;
}

Binding& Importer::capture(const Binding& outer, size_t scope, const std::string& name) {
  return scopes_[open_.back().first_scope].insert_or_assign(name, captured(outer, scope)).first->second;
}

Binding Importer::captured(Binding seen, size_t scope) {
  if (seen.sequence) {
    std::vector<Binding> elements;
    for (const Binding& element : *seen.sequence) elements.push_back(captured(element, scope));
    seen.sequence = std::make_shared<const std::vector<Binding>>(std::move(elements));
  }
  if (seen.late) {
    LateSequence sequence = *seen.late;
    sequence.elements = captured(sequence.elements, scope);
    sequence.dims = captured(sequence.dims, scope);
    seen.late = std::make_shared<const LateSequence>(sequence);
  }
  seen.has_value = captured(seen.has_value, scope);
  if (seen.value != nullptr && seen.value->is_constant()) {
    seen.constant = seen.value->constant;
    seen.value = nullptr;
  }
  seen.value = captured(seen.value, scope);
  return seen;
}

Value* Importer::captured(Value* value, size_t scope) {
  if (value == nullptr) return nullptr;
  if (value->is_constant()) return function().add_constant(value->name, value->constant);
  size_t owner = open_.size() - 1;
  while (open_[owner].first_scope > scope) --owner;
  return handed_in(value, owner);
}

Value* Importer::handed_in(Value* value, size_t owner) {
  for (size_t i = owner + 1; i < open_.size(); ++i) {
    Value*& parameter = open_[i].parameters[value];
    if (parameter == nullptr) {
      parameter = open_[i].function->add_parameter(value->name, value->type);
      open_[i].captured.push_back(value);
    }
    value = parameter;
  }
  return value;
}

std::vector<Turn> Importer::turns() {
  std::vector<Turn> all;
  for (size_t owner = 0; owner < open_.size(); ++owner) {
    for (Turn turn : open_[owner].turns) {
      if (turn.number != nullptr) turn.number = handed_in(turn.number, owner);
      all.push_back(turn);
    }
  }
  return all;
}

ImportedBody Importer::import_body(const onnx::GraphProto& graph, const std::string& owner, const StartBody& start,
                                   const GiveResults& give) {
  return import_body_by(owner, [&] {
    BodyStart begun;
    if (start) begun = start(function());
    define_arguments(graph, std::move(begun.arguments), owner);
    declared_ranks_.add(graph);
    add_initializers(graph);
    convert_nodes(graph);
    if (begun.first_output != nullptr)
      function().outputs.push_back(Builder(function(), {owner})(op::copy, {begun.first_output}));
    std::vector<Binding> results;
    for (const onnx::ValueInfoProto& output : graph.output()) results.push_back(lookup(output.name(), owner));
    for (Value* result : give(std::move(results))) return_value(result, owner);
  });
}

ImportedBody Importer::import_body_by(const std::string& owner, const std::function<void()>& convert) {
  const InnerScope scope(*this, owner);
  struct Inside {
    Inside(Importer& i, Function* function) : importer(i), outer_warnings(i.held_warnings_) {
      importer.held_warnings_ = &warnings;
      importer.open_.push_back(
          {function, importer.scopes_.size() - 1, {}, {}});  // its names are the innermost
    }
    ~Inside() {
      importer.open_.pop_back();
      importer.held_warnings_ = outer_warnings;
    }
    Importer& importer;
    std::vector<std::string>* outer_warnings;
    std::vector<std::string> warnings;
  };
  Function* body =
      made_bodies_.emplace_back(std::make_unique<Function>(fmt::format("body_{}", ++body_count_))).get();
  Inside inside(*this, body);
  const std::map<std::string, int> names_before = node_names_;
  convert();
  body->drop_unused_constants();
  return {body, open_.back().captured, names_before, std::move(inside.warnings)};
}

void Importer::define_arguments(const onnx::GraphProto& graph, std::vector<Binding> arguments,
                                const std::string& owner) {
  const std::vector<const onnx::ValueInfoProto*> inputs = given_inputs(graph);
  if (inputs.size() != arguments.size())
    user_error("node {}: its graph has {} inputs, not {}", owner, inputs.size(), arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) define(inputs[i]->name(), std::move(arguments[i]), owner);
}

void Importer::drop_body(const ImportedBody& body, const std::string& owner) {
  node_names_ = body.names_before;
  dropped_cost_ += cost_of(*body.function);
  if (dropped_cost_ <= kMostDroppedCost) return;
  throw BrokenModel(fmt::format(
      "node {}: there are too many loops and branches inside of each other for what they change of sizes: "
      "each is converted again with the one around it",
      owner));
}

std::unique_ptr<Function> Importer::take_body(const Function* body) {
  const auto found = std::ranges::find_if(made_bodies_, [&](const auto& made) { return made.get() == body; });
  internal_check(found != made_bodies_.end(), "the body @{} has been taken before", body->name);
  std::unique_ptr<Function> taken = std::move(*found);
  made_bodies_.erase(found);
  return taken;
}

void Importer::return_value(Value* value, const std::string& owner) {
  Function& f = function();
  const bool shared = std::count(f.outputs.begin(), f.outputs.end(), value) != 0;
  if (value->kind != Value::Kind::kResult || shared) value = Builder(f, {owner})(op::copy, {value});
  f.outputs.push_back(value);
}

}  // namespace gantry
