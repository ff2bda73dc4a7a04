#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "host/cli/inspect.h"
#include "host/cli/json_values.h"
#include "host/cli/model_source.h"
#include "host/cli/text.h"
#include "host/onnx/declared_dim.h"
#include "host/onnx/import.h"
#include "host/onnx/model_weights.h"
#include "host/onnx/unsupported.h"
#include "host/support/error.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

OnnxMessages read_model(const std::filesystem::path& path) {
  OnnxMessages messages = read_onnx_messages(path);
  // Other messages too can be read as such a model; the import refuses it.
  if (messages.model->graph().output_size() == 0) import_onnx(path);
  return messages;
}

std::string type_text(const onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return "not a tensor";
  const auto& tensor = type.tensor_type();
  std::string text = element_type_text(tensor.elem_type());
  if (!tensor.has_shape()) return text + " of any shape";
  text += " (";
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const auto& dim = tensor.shape().dim(i);
    if (i > 0) text += ", ";
    const auto size = declared_size(dim);
    const std::string name = declared_name(dim);
    text += size ? std::to_string(*size) : name.empty() ? "?" : name;
  }
  return text + ")";
}

void count_ops(const onnx::GraphProto& graph, std::map<std::string, int>& counts) {
  for (const auto& node : graph.node()) {
    ++counts[node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type()];
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) count_ops(attribute.g(), counts);
    }
  }
}

struct Summary {
  std::vector<std::pair<std::string, std::string>> inputs, outputs;  ///< name, type
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::vector<std::pair<std::string, int>> ops;  ///< most frequent first
  int nodes = 0;
  ModelWeights weights;
  std::string producer;
  int64_t ir_version = 0;
  std::string problem;  ///< why gantry cannot compile it; empty: it can read it
  std::vector<UnsupportedFeature> unsupported;
};

Summary summarise_model(const std::filesystem::path& path, const std::vector<std::string>& kept_inputs) {
  const OnnxMessages messages = read_model(path);
  const onnx::ModelProto& model = *messages.model;
  Summary summary;
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  for (const auto& tensor : model.graph().sparse_initializer()) initializers.insert(tensor.values().name());
  summary.weights = count_weights(messages, folder_of(path));
  std::vector<std::string> names;
  for (const auto& input : model.graph().input()) {
    names.push_back(input.name());
    if (initializers.count(input.name()) == 0 ||
        std::ranges::find(kept_inputs, input.name()) != kept_inputs.end())
      summary.inputs.emplace_back(input.name(), type_text(input.type()));
  }
  check_kept_inputs(names, kept_inputs, path.string());
  for (const auto& output : model.graph().output())
    summary.outputs.emplace_back(output.name(), type_text(output.type()));
  for (const auto& opset : model.opset_import()) {
    summary.opsets.emplace_back(opset.domain().empty() ? "ai.onnx" : opset.domain(), opset.version());
  }
  std::map<std::string, int> counts;
  count_ops(model.graph(), counts);
  summary.ops.assign(counts.begin(), counts.end());
  std::stable_sort(summary.ops.begin(), summary.ops.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [op, count] : summary.ops) summary.nodes += count;
  summary.producer =
      model.producer_name() + (model.producer_version().empty() ? "" : " " + model.producer_version());
  summary.ir_version = model.ir_version();
  return summary;
}

/// Puts down why the model cannot be imported.
void find_problem(const std::filesystem::path& path, const InspectOptions& options, Summary& summary) {
  ImportOptions import{options.sizes};
  import.custom_ops = options.custom_ops;
  import.kept_inputs = {options.kept_inputs.begin(), options.kept_inputs.end()};
  try {
    import_onnx(path, import);
  } catch (const UnsupportedModel& error) {
    summary.problem = error.what();
    summary.unsupported = error.features();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    summary.problem = error.what();
  }
}

Json weights_json(const WeightCount& count) {
  return {{"tensors", count.tensors}, {"parameters", count.parameters}, {"bytes", count.bytes}};
}

Json unsupported_json(const std::vector<UnsupportedFeature>& features) {
  Json list = Json::array();
  for (const UnsupportedFeature& feature : features) {
    list.push_back({{"kind", name_of(feature.kind)},
                    {"what", feature.what},
                    {"places", feature.places},
                    {"nodes", feature.nodes}});
  }
  return list;
}

std::string to_json(const std::filesystem::path& path, const Summary& summary) {
  Json json;
  json["kind"] = "model";
  json["file"] = path.string();
  json["producer"] = summary.producer;
  json["ir_version"] = summary.ir_version;
  for (const auto& [domain, version] : summary.opsets) json["opsets"][domain] = version;
  for (const char* side : {"inputs", "outputs"}) {
    json[side] = Json::array();
    for (const auto& [name, type] : side[0] == 'i' ? summary.inputs : summary.outputs) {
      json[side].push_back({{"name", name}, {"type", type}});
    }
  }
  json["nodes"] = summary.nodes;
  json["ops"] = Json::object();
  for (const auto& [op, count] : summary.ops) json["ops"][op] = count;
  json["parameters"] = summary.weights.total.parameters;
  json["weights"] = weights_json(summary.weights.total);
  json["weights"]["by_type"] = Json::object();
  for (const auto& [type, count] : summary.weights.by_type)
    json["weights"]["by_type"][type] = weights_json(count);
  json["weights"]["repeated"] = weights_json(summary.weights.repeated);
  json["supported"] = summary.problem.empty();
  json["error"] = summary.problem;
  json["unsupported"] = unsupported_json(summary.unsupported);
  return document_text(json);
}

std::string weights_text(const ModelWeights& weights) {
  const auto amount = [](const WeightCount& count) {
    const std::string parameters = count.parameters < 1000
                                       ? counted(count.parameters, "parameter")
                                       : count_text(static_cast<double>(count.parameters)) + " parameters";
    return fmt::format("{}, {}", parameters, bytes_text(static_cast<double>(count.bytes)));
  };
  std::string text =
      fmt::format("  weights  {} in {} tensors\n", amount(weights.total), weights.total.tensors);
  for (const auto& [type, count] : weights.by_type)
    text += fmt::format("           {}: {}\n", type, amount(count));
  if (weights.repeated.tensors > 0) {
    text += fmt::format("           not counted again: {} tensors that are equal to others, {}\n",
                        weights.repeated.tensors, amount(weights.repeated));
  }
  return text;
}

std::string to_text(const std::filesystem::path& path, const Summary& summary) {
  std::string text = fmt::format(
      "{}: model of {}, IR version {}\n", path.string(),
      summary.producer.empty() ? "an unnamed producer" : visible_line(summary.producer), summary.ir_version);
  for (const auto& [name, type] : summary.inputs)
    text += fmt::format("  input    {}: {}\n", visible_line(name), visible_line(type));
  for (const auto& [name, type] : summary.outputs)
    text += fmt::format("  output   {}: {}\n", visible_line(name), visible_line(type));
  for (const auto& [domain, version] : summary.opsets)
    text += fmt::format("  opset    {} {}\n", visible_line(domain), version);
  text += weights_text(summary.weights);
  text += fmt::format("  nodes    {}\n", summary.nodes);
  Table table({{"nodes", Table::Align::kRight}, {"op", Table::Align::kLeft}});
  for (const auto& [op, count] : summary.ops) table.row({std::to_string(count), op});
  text += table.str(4);
  return text + (summary.problem.empty() ? "  gantry can compile it\n" : "  gantry cannot compile it\n");
}

}  // namespace

Inspection inspect_model(const std::filesystem::path& path, const InspectOptions& options) {
  Summary summary = summarise_model(path, options.kept_inputs);
  find_problem(path, options, summary);
  return {options.json ? to_json(path, summary) : to_text(path, summary), summary.problem};
}

}  // namespace gantry::cli
