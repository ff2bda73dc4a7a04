#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "device_runtime/src/memory.h"
#include "host/cli/inspect.h"
#include "host/cli/text.h"
#include "host/onnx/declared_dim.h"
#include "host/onnx/import.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

onnx::ModelProto read_model(const std::filesystem::path& path) {
  auto mapped = runtime::map_file(path.string());
  if (!mapped.ok()) user_error("{}", mapped.status().message());
  const auto bytes = mapped->bytes;
  constexpr size_t kMost = std::numeric_limits<int>::max();
  if (bytes.size() > kMost)
    user_error("{}: larger than 2 GiB; ONNX keeps such weights in external data", path.string());
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      model.graph().output_size() == 0) {
    import_onnx(path);  // says which: no model, or a truncated one
    user_error("{}: neither a model (.onnx) nor a module (.gmod), or it is truncated", path.string());
  }
  return model;
}

std::string type_text(const onnx::TypeProto& type) {
  if (!type.has_tensor_type()) return "not a tensor";
  const auto& tensor = type.tensor_type();
  std::string text =
      onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(tensor.elem_type()));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
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

int64_t element_count(const onnx::TensorProto& tensor) {
  int64_t count = 1;
  for (int64_t dim : tensor.dims()) {
    if (__builtin_mul_overflow(count, dim, &count)) return 0;
  }
  return count;
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
  int64_t parameters = 0;
  std::string producer;
  int64_t ir_version = 0;
  std::string problem;  ///< why gantry cannot compile it; empty: it can read it
};

Summary summarise_model(const std::filesystem::path& path) {
  const onnx::ModelProto model = read_model(path);
  Summary summary;
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) {
    initializers.insert(tensor.name());
    summary.parameters += element_count(tensor);
  }
  for (const auto& input : model.graph().input()) {
    if (initializers.count(input.name()) == 0)
      summary.inputs.emplace_back(input.name(), type_text(input.type()));
  }
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

std::string import_problem(const std::filesystem::path& path) {
  try {
    import_onnx(path);
    return "";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return error.what();
  }
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
  json["parameters"] = summary.parameters;
  json["supported"] = summary.problem.empty();
  json["problem"] = summary.problem;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_text(const std::filesystem::path& path, const Summary& summary) {
  std::string text =
      fmt::format("{}: model of {}, IR version {}\n", path.string(),
                  summary.producer.empty() ? "an unnamed producer" : summary.producer, summary.ir_version);
  for (const auto& [name, type] : summary.inputs) text += fmt::format("  input    {}: {}\n", name, type);
  for (const auto& [name, type] : summary.outputs) text += fmt::format("  output   {}: {}\n", name, type);
  for (const auto& [domain, version] : summary.opsets)
    text += fmt::format("  opset    {} {}\n", domain, version);
  text += fmt::format("  weights  {} parameters\n", count_text(static_cast<double>(summary.parameters)));
  text += fmt::format("  nodes    {}\n", summary.nodes);
  Table table({{"nodes", Table::Align::kRight}, {"op", Table::Align::kLeft}});
  for (const auto& [op, count] : summary.ops) table.row({std::to_string(count), op});
  text += table.str(4);
  text += summary.problem.empty() ? "  gantry can compile it\n"
                                  : fmt::format("  gantry cannot compile it: {}\n", summary.problem);
  return text;
}

}  // namespace

std::string inspect_model(const std::filesystem::path& path, const InspectOptions& options) {
  Summary summary = summarise_model(path);
  summary.problem = import_problem(path);
  return options.json ? to_json(path, summary) : to_text(path, summary);
}

}  // namespace gantry::cli
