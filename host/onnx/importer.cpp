// The course of an import: names, initialisers, nodes.
#include "host/onnx/importer.h"

#include <onnx/onnx_pb.h>
#ifndef GANTRY_NO_ONNX_CHECKER
#include <onnx/checker.h>
#endif

#include <fmt/format.h>

#include <algorithm>

#include "host/onnx/converters.h"
#include "host/onnx/function_bodies.h"
#include "host/onnx/lean_model.h"
#include "host/onnx/malformed.h"
#include "host/onnx/node_reads.h"
#include "host/onnx/op_arity.h"
#include "host/onnx/op_attributes.h"
#include "host/onnx/sparse_tensor.h"
#include "host/support/error.h"

namespace gantry {

Importer::Importer(std::shared_ptr<onnx::ModelProto> model, DataFolder directory,
                   std::shared_ptr<RawData> raw_data, const ImportOptions& options, Assumptions assumptions)
    : model_(model),
      options_(options),
      bodies_(std::make_shared<FunctionBodies>(model)),
      tensors_(bodies_, std::move(directory), options.reads, std::move(raw_data)),
      assumptions_(std::move(assumptions)),
      constant_budget_(options.constant_budget) {}

Graph Importer::import() {
  read_opsets();
  check_with_onnx();
  check_custom_ops();
  try {
    return import_supported();
  } catch (const UnsupportedModel&) {
    throw;
  } catch (const Error& malformed) {
    if (malformed.kind() == ErrorKind::kUser) throw_unsupported(malformed.what());
    throw;
  }
}

Graph Importer::import_supported() {
  const onnx::GraphProto& graph = model_->graph();
  graph_.model_name = graph.name();
  open_.push_back({&graph_.main, 0, {}, {}});
  scopes_.emplace_back();
  declared_ranks_.add(graph);
  WrongParts wrong;
  wrong.run("initialisers", [&] { take_initializers(*model_->mutable_graph()); });
  wrong.run("inputs", [&] { add_inputs(graph); });
  // Where they are wrong, some are not defined.
  for (const onnx::ValueInfoProto& input : graph.input()) define_unknown(input.name(), "the model");
  wrong.run("nodes", [&] { convert_nodes(graph); });
  wrong.run("outputs", [&] { add_outputs(graph); });
  wrong.throw_any();
  throw_unsupported("");
  graph_.main.drop_unused_constants();
  return std::move(graph_);
}

void Importer::read_opsets() {
  for (const auto& import : model_->opset_import()) {
    if (is_default_domain(import.domain()))
      opset_ = std::max<int64_t>(opset_, import.version());
    else
      opsets_[import.domain()] = import.version();
  }
  if (opset_ == 0) opset_ = 1;  // files before IR version 3 do not say
  if (opset_ > kNewestOpset && options_.warn) {
    options_.warn(
        fmt::format("the model uses opset {}; gantry knows definitions up to {}", opset_, kNewestOpset));
  }
}

void Importer::check_with_onnx() const {
#ifndef GANTRY_NO_ONNX_CHECKER
  if (!options_.warn || model_->ir_version() > 8 || model_->ir_version() < 3 || opset_ > 17) return;
  try {
    const CheckableModel checkable(*model_);
    onnx::checker::check_model(*model_);
  } catch (const std::exception& error) {
    options_.warn(fmt::format("the onnx checker complains: {}", error.what()));
  }
#endif
}

// --- names

Binding& Importer::lookup(const std::string& name, const std::string& reader) {
  for (size_t scope = scopes_.size(); scope-- > 0;) {
    auto it = scopes_[scope].find(name);
    if (it == scopes_[scope].end()) continue;
    if (!it->second.missing.empty()) {
      unsupported_.add_node(UnsupportedKind::kOutput, it->second.missing, it->second.missing_of);
      it->second.unknown = true;
      it->second.missing.clear();
    }
    if (it->second.unknown) throw ReadsUnknown{};
    return scope >= open_.back().first_scope ? it->second : capture(it->second, scope, name);
  }
  throw BrokenModel(fmt::format("{} uses '{}', which nothing before it defines", reader, name));
}

void Importer::define(const std::string& name, Binding binding, const std::string& definer) {
  bool fresh = scopes_.back().emplace(name, std::move(binding)).second;
  if (!fresh) throw BrokenModel(fmt::format("{} defines '{}', which is defined already", definer, name));
}

Value* Importer::materialise(Binding& binding, const std::string& name) {
  if (binding.value) return binding.value;
  Function& f = function();
  if (!binding.constant && binding.contents) binding.constant = constant_of(*binding.contents);
  if (binding.constant) {
    binding.value = f.add_constant(name, binding.constant);
    return binding.value;
  }
  internal_check(binding.contents.has_value(), "'{}' has neither data nor known contents", name);
  return binding.value = dims_as_data(*binding.contents, name);
}

void Importer::add_sparse_initializers(const onnx::GraphProto& graph, bool may_stay_open,
                                       Malformed& malformed) {
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
    if (&graph == &model_->graph() && kept_inputs_.count(tensor.values().name()) != 0) continue;
    add_initializer(
        tensor.values().name(), may_stay_open,
        [&](const std::string& what) { return dense_tensor(tensors_, tensor, what); }, malformed);
  }
}

void Importer::keep_inputs(const onnx::GraphProto& graph) {
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (options_.kept_inputs.count(input.name()) != 0) kept_inputs_.insert(input.name());
  }
}

void Importer::take_initializers(onnx::GraphProto& graph) {
  keep_inputs(graph);
  Malformed malformed;
  add_sparse_initializers(graph, !options_.freeze, malformed);
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    if (kept_inputs_.count(tensor.name()) != 0) continue;
    add_initializer(
        tensor.name(), !options_.freeze, [&](const std::string& what) { return tensors_.take(tensor, what); },
        malformed);
  }
  malformed.throw_any("initialisers");
}

void Importer::add_initializers(const onnx::GraphProto& graph) {
  Malformed malformed;
  add_sparse_initializers(graph, false, malformed);
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    add_initializer(
        tensor.name(), false, [&](const std::string& what) { return tensors_.read(tensor, what); },
        malformed);
  }
  malformed.throw_any("initialisers");
}

void Importer::add_initializer(const std::string& name, bool may_stay_open,
                               const std::function<ConstantPtr(const std::string& what)>& read,
                               Malformed& malformed) try {
  const std::string what = fmt::format("initialiser '{}'", name);
  Binding binding;
  if (!collect(what, [&] { binding.constant = read(what); })) return define_unknown(name, "an initialiser");
  // Small integer tensors steer shapes, so they are never left open.
  if (may_stay_open && !contents_of(*binding.constant)) {
    binding.value = graph_.main.add_parameter(name, binding.constant->type);
    binding.constant = nullptr;
  }
  define(name, std::move(binding), "an initialiser");
} catch (const Error& error) {
  if (error.kind() != ErrorKind::kUser) throw;
  malformed.add(error);
  define_unknown(name, "an initialiser");
}

// --- nodes

void Importer::convert_nodes(const onnx::GraphProto& graph) {
  struct Opened {
    Opened(Importer& i, const onnx::GraphProto& graph) : importer(i) {
      importer.graphs_.push_back({&graph, importer.open_.size() - 1});
    }
    ~Opened() { importer.graphs_.pop_back(); }
    Importer& importer;
  } opened(*this, graph);
  NodeList list;
  list.nodes = nodes_in_order(graph);
  for (const onnx::NodeProto* node : nodes_in_cycles(graph)) in_cycles_.insert(node);
  for (const onnx::ValueInfoProto& output : graph.output()) list.results.insert(output.name());
  convert_list(list);
}

void Importer::convert_named(const onnx::NodeProto& node) {
  std::string name = prefix_ + node_name(node);
  int count = ++node_names_[name];
  if (count > 1) name += fmt::format("#{}", count);
  if (options_.on_node) {
    const std::string domain = is_default_domain(node.domain()) ? "" : node.domain() + "::";
    options_.on_node(name, domain + node.op_type());
  }
  convert_node(node, name);
}

void Importer::check_arity(const onnx::NodeProto& node, const std::string& name) const {
  const std::string domain = domain_name(node.domain());
  const int64_t opset = opset_of(node.domain());
  const std::optional<OpArity> most = largest_arity(domain, node.op_type(), opset);
  if (!most) return;
  const auto check = [&](const auto& names, int at_most, const char* what) {
    int count = names.size();
    while (count > 0 && names[count - 1].empty()) --count;  // left out
    if (count <= at_most) return;
    throw BrokenModel(
        fmt::format("node {} ({}): has {} {}, but {}{}{} of opset {} has at most {}: export the model again, "
                    "or for the opset "
                    "that it is of",
                    name, node.op_type(), count, what, domain, domain.empty() ? "" : "::", node.op_type(),
                    opset, at_most));
  };
  check(node.input(), most->inputs, "inputs");
  check(node.output(), most->outputs, "outputs");
}

void Importer::check_attributes(const onnx::NodeProto& node, const std::string& name) const {
  const std::string domain = domain_name(node.domain());
  const int64_t opset = opset_of(node.domain());
  std::vector<std::string> unknown;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name().starts_with("__")) continue;  // an exporter's own notes, as onnx has it
    if (!has_attribute(domain, node.op_type(), opset, attribute.name()).value_or(true))
      unknown.push_back(fmt::format("'{}'", attribute.name()));
  }
  if (unknown.empty()) return;
  const std::string names =
      fmt::format("attribute{} {}", unknown.size() == 1 ? "" : "s", fmt::join(unknown, ", "));
  const std::string op = domain.empty() ? node.op_type() : domain + "::" + node.op_type();
  const std::string text = fmt::format("node {} ({}): has the {}, which {} of opset {} has not", name,
                                       node.op_type(), names, op, opset);
  if (domain == kMicrosoft || opset_ > kNewestOpset)
    throw Unsupported(UnsupportedKind::kAttribute, names, text);
  throw BrokenModel(text + ": export the model again, or for the opset that it is of");
}

void Importer::check_cycle(const onnx::NodeProto& node, const std::string& name) const {
  if (!in_cycles_.contains(&node)) return;
  // In a body it may be what the graph around it calls so: what defines the name again is wrong then.
  const auto is_unknown = [this](const std::string& input) {
    const Binding* binding = input.empty() ? nullptr : find(input);
    return !input.empty() && (binding == nullptr || binding->unknown);
  };
  if (std::ranges::none_of(node.input(), is_unknown)) return;
  throw BrokenModel(
      fmt::format("node {} ({}): is in a cycle: what it reads is computed from its own results", name,
                  node.op_type()));
}

void Importer::convert_node(const onnx::NodeProto& node, const std::string& name) {
  const CustomOp* custom = custom_op_of(node);
  const onnx::FunctionProto* function = custom == nullptr ? function_of(node) : nullptr;
  const Convert convert = custom == nullptr && function == nullptr ? converter_of(node) : nullptr;
  check_cycle(node, name);
  if (custom == nullptr && function == nullptr && convert == nullptr) {
    met_unsupported_op_ = true;
    return skip_node(node, name);
  }
  NodeImport import(*this, node, name);
  try {
    if (function != nullptr) return call_function(*function, node, name);
    if (custom != nullptr) return convert_custom(*custom, node, import);
    check_arity(node, name);
    check_attributes(node, name);
    if (is_default_domain(node.domain()) && evaluate_contents(import)) return;
    convert(import);
  } catch (const ReadsUnknown&) {
    return skip_node(node, name);
  } catch (const Unsupported& error) {
    add_unsupported(node, name, error);
    return skip_node(node, name);
  } catch (const Error& error) {
    std::vector<std::string> texts = texts_of(error);
    bool named = true;
    for (std::string& text : texts) {
      if (names_node(text, name)) continue;
      named = false;
      text = fmt::format("node {} ({}): {}", name, node.op_type(), text);
    }
    if (named) throw;
    throw_retold(error, std::move(texts));
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty() || scopes_.back().count(node.output(i)) != 0) continue;
    Binding missing;
    missing.missing = fmt::format("{}: output {}", node.op_type(), i);
    missing.missing_of = name;
    define(node.output(i), std::move(missing), name);
  }
}

void Importer::warn(const std::string& text) {
  if (held_warnings_ != nullptr)
    held_warnings_->push_back(text);
  else if (options_.warn)
    options_.warn(text);
}

bool Importer::take_constant_budget(int64_t bytes) {
  if (bytes > constant_budget_) return false;
  constant_budget_ -= bytes;
  return true;
}

}  // namespace gantry
