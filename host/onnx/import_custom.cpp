// Nodes of ops that the user brings: calls of a kernel, or the nodes of a composition.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>

#include "host/custom_ops/composition.h"
#include "host/custom_ops/custom_ops.h"
#include "host/onnx/converters.h"
#include "host/onnx/importer.h"
#include "host/ops/custom.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using Kind = AttributeSpec::Kind;

CustomAttribute value_of(const NodeImport& node, const AttributeSpec& spec) {
  const char* name = spec.name.c_str();
  CustomAttribute attribute{spec.name, {}, spec.is_list};
  switch (spec.kind) {
    case Kind::kInteger:
      attribute.values = spec.is_list ? node.integer_list(name) : std::vector<int64_t>{node.integer(name, 0)};
      return attribute;
    case Kind::kFloat:
      attribute.values = spec.is_list ? node.number_list(name) : std::vector<double>{node.number(name, 0)};
      return attribute;
    case Kind::kString:
      attribute.values = spec.is_list ? node.text_list(name) : std::vector<std::string>{node.text(name, "")};
      return attribute;
  }
  internal_error("unknown kind of attribute");
}

std::vector<CustomAttribute> attributes_of(const CustomOp& op, const onnx::NodeProto& proto,
                                           const NodeImport& node) {
  const std::vector<AttributeSpec>& specs = op.signature.attributes;
  for (const onnx::AttributeProto& attribute : proto.attribute()) {
    if (std::ranges::find(specs, attribute.name(), &AttributeSpec::name) == specs.end())
      node.fail("has the attribute {}, which {} does not list for {}", attribute.name(), op.source,
                op.full_name());
  }
  std::vector<CustomAttribute> attributes;
  for (const AttributeSpec& spec : specs) {
    if (node.has_attribute(spec.name.c_str())) {
      attributes.push_back(value_of(node, spec));
    } else if (spec.otherwise) {
      attributes.push_back(*spec.otherwise);
    } else if (spec.required) {
      node.fail("lacks the attribute {}", spec.name);
    }
  }
  return attributes;
}

std::vector<Value*> inputs_of(const CustomOp& op, NodeImport& node) {
  const std::vector<TensorPattern>& patterns = op.signature.inputs;
  if (node.input_count() > patterns.size())
    node.fail("has {} inputs, and {} lists {} for {}", node.input_count(), op.source, patterns.size(),
              op.full_name());
  std::vector<Value*> inputs;
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (!node.has(i) && !patterns[i].optional) node.fail("lacks its input {}", patterns[i].name);
    inputs.push_back(node.optional_input(i));
  }
  return inputs;
}

/// What `work` throws, with the node in front.
template <typename Work>
auto at_node(const NodeImport& node, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    node.fail("{}", error.what());
  }
}

/// A node that says what the type rule looks at.
Node draft_of(const std::vector<Value*>& inputs, const std::string& name) {
  Node draft;
  draft.op = &op_set().get(op::custom);
  draft.inputs = inputs;
  draft.origin = {name};
  return draft;
}

/// Puts a composition's nodes into the function; what it returns.
std::vector<Value*> add_graph(Graph& graph, const std::vector<Value*>& arguments, const std::string& origin,
                              Function& function) {
  Function& body = graph.main;
  std::map<const Value*, Value*> made;
  for (size_t i = 0; i < arguments.size(); ++i) made[body.parameters[i]] = arguments[i];
  for (const Value* constant : body.constants())
    made[constant] = function.add_constant(constant->name, constant->constant);
  for (Node* node : body.nodes()) {
    std::vector<Value*> inputs;
    for (const Value* input : node->inputs) inputs.push_back(input == nullptr ? nullptr : made.at(input));
    std::vector<TensorType> types;
    for (const Value* result : node->results) types.push_back(result->type);
    Node* added = function.add_node(node->op, node->attrs, std::move(inputs), std::move(types), {origin});
    added->bodies = std::move(node->bodies);
    added->decision = node->decision;
    for (size_t i = 0; i < node->results.size(); ++i) made[node->results[i]] = added->results[i];
  }
  for (const DimConstraint& constraint : body.constraints)
    function.constraints.push_back({constraint.left, constraint.right, origin});
  std::vector<Value*> results;
  for (const Value* output : body.outputs) results.push_back(made.at(output));
  return results;
}

}  // namespace

const CustomOp* Importer::custom_op_of(const onnx::NodeProto& node) const {
  if (options_.custom_ops == nullptr) return nullptr;
  return options_.custom_ops->find(node.domain(), node.op_type(), opset_of(node.domain()));
}

void Importer::check_custom_ops() const {
  if (options_.custom_ops == nullptr) return;
  for (const CustomOp& op : options_.custom_ops->all()) {
    if (is_default_domain(op.domain) ||
        find_converter(domain_name(op.domain), op.name, std::numeric_limits<int64_t>::max()) != nullptr) {
      user_error(
          "{}: {} is an op that gantry has itself, or of ONNX's own domain: give yours a domain of its own",
          op.source, op.full_name());
    }
  }
}

void Importer::convert_custom(const CustomOp& op, const onnx::NodeProto& node, NodeImport& import) {
  const std::vector<Value*> inputs = inputs_of(op, import);
  const std::vector<CustomAttribute> attributes = attributes_of(op, node, import);
  if (import.output_count() > op.signature.outputs.size())
    import.fail("has {} outputs, and {} lists {}", import.output_count(), op.source,
                op.signature.outputs.size());
  const SignatureResult types = at_node(import, [&] {
    return apply_signature(op.signature, draft_of(inputs, import.name()), attributes, function());
  });
  std::vector<Value*> results;
  if (op.kernel != nullptr) {
    const auto attrs = custom_attrs(op.kernel, types.outputs, attributes, types.scratch);
    attrs->blocks = types.blocks;
    attrs->sizes = types.sizes;
    results = import.add_any(op::custom, inputs, attrs);
  } else {
    std::vector<CompositionInput> given;
    std::vector<Value*> arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr) continue;
      given.push_back({op.signature.inputs[i].name, inputs[i]->type});
      arguments.push_back(inputs[i]);
    }
    const auto named = [&](const std::string& wanted) { return new_symbol(wanted); };
    Graph graph =
        at_node(import, [&] { return compose(op, given, attributes, options_.custom_ops->passes(), named); });
    results = add_graph(graph, arguments, import.name(), function());
    for (size_t i = 0; i < results.size(); ++i) {
      const TensorPattern& output = op.signature.outputs[i];
      if (!output.type.empty() && !may_be_equal(types.outputs[i], results[i]->type)) {
        import.fail("its composition gives {} as {}, and {} says {}", results[i]->type.str(), output.name,
                    op.source, types.outputs[i].str());
      }
    }
  }
  for (size_t i = 0; i < import.output_count(); ++i) {
    if (import.wants(i)) import.set(i, results[i]);
  }
}

}  // namespace gantry
