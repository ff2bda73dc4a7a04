#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "host/cli/inspect.h"
#include "host/cli/json_values.h"
#include "host/cli/model_source.h"
#include "host/cli/text.h"
#include "host/custom_ops/custom_ops.h"
#include "host/gir/gir_file.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/passes/pass.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Amount {
  int64_t tensors = 0, parameters = 0, bytes = 0;

  void add(const ConstantData& constant) {
    ++tensors;
    parameters += static_cast<int64_t>(constant.size) / byte_width(constant.type.dtype);
    bytes += static_cast<int64_t>(constant.size);
  }
};

struct Summary {
  std::string model;
  std::vector<std::pair<std::string, std::string>> inputs, outputs;  ///< name, type
  std::vector<std::pair<std::string, int64_t>> ops;                  ///< most frequent first
  int64_t nodes = 0, kernels = 0;  ///< kernels: groups of nodes, as fuse_ops leaves them
  Amount weights;
  std::map<std::string, Amount> by_type;
  std::string problem;  ///< why gantry cannot compile it; empty: it can
};

std::string type_text(const TensorType& type) {
  return fmt::format("{} {}", name_of(type.dtype), to_string(type.shape));
}

/// Nodes and constants, those in bodies among them.
void count(const Function& function, Summary& summary, std::map<std::string, int64_t>& ops,
           std::set<const ConstantData*>& counted) {
  for (const Value* value : function.constants()) {
    const ConstantData& constant = *value->constant;
    if (!counted.insert(&constant).second) continue;
    summary.weights.add(constant);
    summary.by_type[std::string(name_of(constant.type.dtype))].add(constant);
  }
  for (const Node* node : function.nodes()) {
    for (const auto& body : node->bodies) count(*body, summary, ops, counted);
    if (!node->bodies.empty()) {
      ++summary.kernels;
      continue;
    }
    ++summary.nodes;
    ++ops[node->op->name];
  }
}

Summary summarise(const Graph& graph) {
  Summary summary;
  const Function& main = graph.main;
  summary.model = graph.model_name;
  for (const Value* input : main.parameters) summary.inputs.emplace_back(input->name, type_text(input->type));
  for (size_t i = 0; i < main.outputs.size(); ++i) {
    const bool named = i < main.output_names.size();
    summary.outputs.emplace_back(named ? main.output_names[i] : main.outputs[i]->name,
                                 type_text(main.outputs[i]->type));
  }
  std::map<std::string, int64_t> ops;
  std::set<const ConstantData*> counted;
  count(main, summary, ops, counted);
  summary.ops.assign(ops.begin(), ops.end());
  std::ranges::stable_sort(summary.ops, std::greater(), [](const auto& op) { return op.second; });
  return summary;
}

Json amount_json(const Amount& amount) {
  return {{"tensors", amount.tensors}, {"parameters", amount.parameters}, {"bytes", amount.bytes}};
}

std::string to_json(const std::filesystem::path& path, const Summary& summary) {
  Json json;
  json["kind"] = "graph";
  json["file"] = path.string();
  json["model"] = summary.model;
  for (const char* side : {"inputs", "outputs"}) {
    json[side] = Json::array();
    for (const auto& [name, type] : side[0] == 'i' ? summary.inputs : summary.outputs)
      json[side].push_back({{"name", name}, {"type", type}});
  }
  json["nodes"] = summary.nodes;
  json["groups"] = summary.kernels;
  json["ops"] = Json::object();
  for (const auto& [op, number] : summary.ops) json["ops"][op] = number;
  json["parameters"] = summary.weights.parameters;
  json["weights"] = amount_json(summary.weights);
  json["weights"]["by_type"] = Json::object();
  for (const auto& [type, amount] : summary.by_type) json["weights"]["by_type"][type] = amount_json(amount);
  json["supported"] = summary.problem.empty();
  json["error"] = summary.problem;
  json["unsupported"] = Json::array();  // a text has only ops that gantry has
  return document_text(json);
}

std::string amount_text(const Amount& amount) {
  const auto number = static_cast<double>(amount.parameters);
  return fmt::format("{} parameters, {}",
                     number < 1000 ? std::to_string(amount.parameters) : count_text(number),
                     bytes_text(static_cast<double>(amount.bytes)));
}

std::string to_text(const std::filesystem::path& path, const Summary& summary) {
  std::string text = fmt::format("{}: graph text of {}\n", path.string(), visible_line(summary.model));
  for (const auto& [name, type] : summary.inputs)
    text += fmt::format("  input    {}: {}\n", visible_line(name), type);
  for (const auto& [name, type] : summary.outputs)
    text += fmt::format("  output   {}: {}\n", visible_line(name), type);
  text += fmt::format("  weights  {} in {} tensors\n", amount_text(summary.weights), summary.weights.tensors);
  for (const auto& [type, amount] : summary.by_type)
    text += fmt::format("           {}: {}\n", type, amount_text(amount));
  text += fmt::format("  nodes    {}", summary.nodes);
  text += summary.kernels > 0 ? fmt::format(", some of them in {} groups, a kernel each\n", summary.kernels)
                              : "\n";
  Table table({{"nodes", Table::Align::kRight}, {"op", Table::Align::kLeft}});
  for (const auto& [op, number] : summary.ops) table.row({std::to_string(number), op});
  return text + table.str(4) +
         (summary.problem.empty() ? "  gantry can read it\n" : "  gantry cannot compile it\n");
}

}  // namespace

Inspection inspect_graph_text(const std::filesystem::path& path, const InspectOptions& options) {
  Graph graph = read_gir(path, FusedOpTable(op_set()), graph_pass_names(), GirOptions{options.sizes});
  check_kept_inputs(graph, options.kept_inputs, path.string());
  Summary summary = summarise(graph);
  try {
    bind_custom_ops(graph, options.custom_ops.get());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    summary.problem = path.string() + ": " + error.what();
  }
  return {options.json ? to_json(path, summary) : to_text(path, summary), summary.problem};
}

}  // namespace gantry::cli
