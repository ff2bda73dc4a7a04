// What an import does with what is not supported: it puts that down, goes on without it, and names all in the
// end.
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/onnx/converters.h"
#include "host/onnx/importer.h"

namespace gantry {

bool is_default_domain(const std::string& domain) {
  return domain.empty() || domain == "ai.onnx";
}

std::string domain_name(const std::string& domain) {
  return is_default_domain(domain) ? "" : domain;
}

std::string node_name(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return node.op_type();
}

bool Importer::collect(const std::string& place, const std::function<void()>& f) {
  try {
    f();
    return true;
  } catch (const Unsupported& error) {
    unsupported_.add_place(error.what_kind(), error.feature(), place);
    return false;
  }
}

void Importer::add_unsupported(const onnx::NodeProto& node, const std::string& name,
                               const Unsupported& error) {
  // Types are the same for all ops; the rest is the op's own.
  const UnsupportedKind kind = error.what_kind();
  if (kind == UnsupportedKind::kElementType || kind == UnsupportedKind::kValueKind) {
    unsupported_.add_node(kind, error.feature(), fmt::format("{} ({})", name, node.op_type()));
  } else {
    unsupported_.add_node(kind, fmt::format("{}: {}", node.op_type(), error.feature()), name);
  }
}

void Importer::define_unknown(const std::string& name, const std::string& definer) {
  if (name.empty() || scopes_.back().count(name) != 0) return;
  Binding binding;
  binding.unknown = true;
  define(name, std::move(binding), definer);
}

void Importer::skip_node(const onnx::NodeProto& node, const std::string& name) {
  for (const std::string& output : node.output()) define_unknown(output, name);
}

void Importer::probe_graph(const onnx::GraphProto& graph, const std::string& owner) {
  try {
    inline_graph(graph, owner);
  } catch (const ReadsUnknown&) {
  } catch (const BranchesDiffer&) {
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
  }
}

std::string Importer::op_text(const onnx::NodeProto& node) const {
  if (is_default_domain(node.domain())) {
    const int64_t since = first_opset_of(node.op_type());
    const std::string known = since > 0 ? fmt::format("; gantry knows it since opset {}", since) : "";
    return fmt::format("{} (opset {}{})", node.op_type(), opset_, known);
  }
  const std::string op = node.domain() + "::" + node.op_type();
  const auto& imports = model_->opset_import();
  const auto version = std::find_if(imports.begin(), imports.end(),
                                    [&](const auto& import) { return import.domain() == node.domain(); });
  return version == imports.end() ? op + " (of no declared opset)"
                                  : fmt::format("{} (opset {})", op, version->version());
}

void Importer::add_unsupported_ops(const onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (custom_op_of(node) != nullptr) continue;
    const onnx::FunctionProto* function = function_of(node);
    if (function != nullptr) {
      add_unsupported_ops_of(*function);
      continue;
    }
    if (converter_of(node) == nullptr) unsupported_.add_node(UnsupportedKind::kOp, op_text(node), prefix_ + node_name(node));
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) add_unsupported_ops(attribute.g());
      for (const onnx::GraphProto& body : attribute.graphs()) add_unsupported_ops(body);
    }
  }
}

void Importer::throw_unsupported(const std::string& error) {
  if (error.empty() && !met_unsupported_op_ && unsupported_.empty()) return;
  // A branch that is never taken may hold what it likes; but where the model fails anyway, its list is whole.
  add_unsupported_ops(model_->graph());
  if (unsupported_.empty()) return;
  std::string text = unsupported_.text();
  if (opset_ > kNewestOpset)
    text +=
        fmt::format("\nThe model is of opset {}, gantry knows definitions up to {}.", opset_, kNewestOpset);
  if (!error.empty()) text = fmt::format("{}\nThe model also {}", error, text);
  throw UnsupportedModel(unsupported_.features(), text);
}

}  // namespace gantry
