// Functions of the model (FunctionProto): a node that calls one becomes the nodes of its body, in which
// formal inputs stand for the node's, and attributes that refer to the function's have the values that the
// node gives them.
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>

#include "host/onnx/converters.h"
#include "host/onnx/function_bodies.h"
#include "host/onnx/importer.h"
#include "host/onnx/malformed.h"

namespace gantry {
namespace {

using Attributes = std::map<std::string, onnx::AttributeProto>;

/// What a message has in a field of texts or messages that older releases of onnx do not know.
std::vector<std::string> unknown_texts(const google::protobuf::Message& message, int number) {
  std::vector<std::string> texts;
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      texts.push_back(field.length_delimited());
  }
  return texts;
}

/// Which of the functions of one name a node calls or a function is; `number` is that of the field.
template <typename Message>
std::string overload_of(const Message& message, int number) {
  if constexpr (requires { message.overload(); }) return message.overload();
  const std::vector<std::string> texts = unknown_texts(message, number);
  return texts.empty() ? "" : texts.back();
}
constexpr int kNodeOverload = 8, kFunctionOverload = 13;

/// The function's attributes that have a value where the node gives none.
template <typename Function>
Attributes default_attributes(const Function& function) {
  Attributes defaults;
  if constexpr (requires { function.attribute_proto(); }) {
    for (const auto& attribute : function.attribute_proto()) defaults[attribute.name()] = attribute;
  } else {
    constexpr int kAttributeProto = 11;
    for (const std::string& text : unknown_texts(function, kAttributeProto)) {
      onnx::AttributeProto attribute;
      if (attribute.ParseFromString(text)) defaults[attribute.name()] = attribute;
    }
  }
  return defaults;
}

/// Puts values in the place of attributes that refer to the function's; those without a value are absent.
void resolve_attributes(onnx::NodeProto& node, const Attributes& given) {
  onnx::NodeProto resolved;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *resolved.add_attribute() = attribute;
      continue;
    }
    const auto value = given.find(attribute.ref_attr_name());
    if (value == given.end()) continue;
    onnx::AttributeProto& added = *resolved.add_attribute();
    added = value->second;
    added.set_name(attribute.name());
  }
  node.mutable_attribute()->Swap(resolved.mutable_attribute());
}

/// The same in all nodes of a graph; inputs that the caller leaves out are absent in the body too.
void resolve(onnx::GraphProto& graph, const Attributes& given, const std::set<std::string>& absent) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    resolve_attributes(node, given);
    for (std::string& input : *node.mutable_input()) {
      if (absent.count(input) != 0) input.clear();
    }
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) resolve(*attribute.mutable_g(), given, absent);
      for (onnx::GraphProto& body : *attribute.mutable_graphs()) resolve(body, given, absent);
    }
  }
}

onnx::GraphProto body_of(const onnx::FunctionProto& function) {
  onnx::GraphProto body;
  *body.mutable_node() = function.node();
  for (const std::string& output : function.output()) body.add_output()->set_name(output);
  return body;
}

}  // namespace

/// While a function's body is read: its names and opsets are its own.
struct Importer::FunctionCall {
  FunctionCall(Importer& i, const onnx::FunctionProto& function)
      : importer(i), opset(i.opset_), opsets(i.opsets_), prefix(i.prefix_) {
    std::swap(importer.scopes_, scopes);
    std::swap(importer.graphs_, graphs);
    std::swap(importer.open_.back().first_scope, first_scope);
    std::swap(importer.declared_ranks_, declared_ranks);
    ++importer.depth_;
    for (const auto& import : function.opset_import()) {
      if (is_default_domain(import.domain()))
        importer.opset_ = import.version();
      else
        importer.opsets_[import.domain()] = import.version();
    }
  }
  ~FunctionCall() {
    std::swap(importer.scopes_, scopes);
    std::swap(importer.graphs_, graphs);
    std::swap(importer.open_.back().first_scope, first_scope);
    std::swap(importer.declared_ranks_, declared_ranks);
    importer.opset_ = opset;
    importer.opsets_ = std::move(opsets);
    importer.prefix_ = std::move(prefix);
    --importer.depth_;
  }
  FunctionCall(const FunctionCall&) = delete;
  FunctionCall& operator=(const FunctionCall&) = delete;

  Importer& importer;
  int64_t opset;
  std::map<std::string, int64_t> opsets;
  std::string prefix;
  std::deque<std::unordered_map<std::string, Binding>> scopes;
  std::vector<OpenGraph> graphs;
  size_t first_scope = 0;
  DeclaredRanks declared_ranks;  ///< of the caller
};

int64_t Importer::opset_of(const std::string& domain) const {
  if (is_default_domain(domain)) return opset_;
  const auto known = opsets_.find(domain);
  return known == opsets_.end() ? 1 : known->second;
}

Convert Importer::converter_of(const onnx::NodeProto& node) const {
  return find_converter(domain_name(node.domain()), node.op_type(), opset_of(node.domain()));
}

const onnx::FunctionProto* Importer::function_of(const onnx::NodeProto& node) const {
  const auto& functions = model_->functions();
  const auto it = std::find_if(functions.begin(), functions.end(), [&](const onnx::FunctionProto& f) {
    return f.name() == node.op_type() && domain_name(f.domain()) == domain_name(node.domain()) &&
           overload_of(f, kFunctionOverload) == overload_of(node, kNodeOverload);
  });
  return it == functions.end() ? nullptr : &*it;
}

void Importer::count_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int depth,
                           int64_t& count) {
  for (const onnx::NodeProto& node : nodes) {
    if (count > kMostCalledNodes) return;
    ++count;
    if (const onnx::FunctionProto* function = function_of(node)) count += nodes_of_call(*function, depth);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count_nodes(attribute.g().node(), depth, count);
      for (const onnx::GraphProto& body : attribute.graphs()) count_nodes(body.node(), depth, count);
    }
  }
}

int64_t Importer::nodes_of_call(const onnx::FunctionProto& function, int depth) {
  constexpr int64_t kTooMany = kMostCalledNodes + 1;
  if (depth == kDeepestNesting) return kTooMany;
  // While its nodes are counted, a function has too many for those that call it.
  const auto [known, fresh] = called_nodes_.emplace(&function, kTooMany);
  if (!fresh) return known->second;
  int64_t count = 0;
  count_nodes(function.node(), depth + 1, count);
  count = std::min(count, kTooMany);
  // Too many may be those of its callers, or it is too deep for them alone.
  if (count == kTooMany && depth > 0)
    called_nodes_.erase(&function);
  else
    called_nodes_[&function] = count;
  return count;
}

void Importer::call_function(const onnx::FunctionProto& function, const onnx::NodeProto& node,
                             const std::string& name) {
  if (depth_ == kDeepestNesting)
    user_error("node {}: functions call each other more than {} deep", name, kDeepestNesting);
  if (nodes_of_call(function, 0) > kMostCalledNodes)
    user_error(
        "node {}: its function, with those that it calls, has more than {} nodes, calls itself, or is more "
        "than {} deep",
        name, kMostCalledNodes, kDeepestNesting);
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
    throw BrokenModel(
        fmt::format("node {} has {} inputs and {} outputs, but its function takes {} and gives {}", name,
                    node.input_size(), node.output_size(), function.input_size(), function.output_size()));
  std::unordered_map<std::string, Binding> arguments;
  std::set<std::string> absent;
  for (int i = 0; i < function.input_size(); ++i) {
    if (i >= node.input_size() || node.input(i).empty()) {
      absent.insert(function.input(i));
      continue;
    }
    Binding& argument = lookup(node.input(i), name);
    if (argument.constant) materialise(argument, node.input(i));  // once, however many read it
    arguments.emplace(function.input(i), argument);
  }
  Attributes given = default_attributes(function);
  for (const onnx::AttributeProto& attribute : node.attribute()) given[attribute.name()] = attribute;
  onnx::GraphProto& body = bodies_->instances.emplace_back(body_of(function));
  resolve(body, given, absent);

  std::vector<Binding> results;
  {
    const FunctionCall call(*this, function);
    scopes_.push_back(std::move(arguments));
    for (int i = 0; i < node.output_size(); ++i) {
      if (const auto rank = call.declared_ranks.of(node.output(i)))
        declared_ranks_.add(function.output(i), *rank);
    }
    prefix_ = name + "/";
    convert_nodes(body);
    for (int i = 0; i < node.output_size(); ++i) {
      const auto result = scopes_.back().find(function.output(i));
      if (result == scopes_.back().end())
        user_error("node {}: its function does not define its output '{}'", name, function.output(i));
      results.push_back(result->second);
    }
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) define(node.output(i), std::move(results[static_cast<size_t>(i)]), name);
  }
}

void Importer::add_unsupported_ops_of(const onnx::FunctionProto& function) {
  if (depth_ == kDeepestNesting || !listed_functions_.insert(&function).second) return;
  const FunctionCall call(*this, function);
  prefix_ = function.name() + "/";
  add_unsupported_ops(body_of(function));
}

}  // namespace gantry
