#include "host/conformance/test_model.h"

#include <onnx/onnx_pb.h>

#include <limits>
#include <set>

#include "host/support/error.h"
#include "host/support/mapped_file.h"

namespace gantry::conformance {
namespace {

ValueKind kind_of(const onnx::ValueInfoProto& value) {
  switch (value.type().value_case()) {
    case onnx::TypeProto::kSequenceType:
      return ValueKind::kSequence;
    case onnx::TypeProto::kOptionalType:
      return ValueKind::kOptional;
    case onnx::TypeProto::kMapType:
      return ValueKind::kMap;
    case onnx::TypeProto::kSparseTensorType:
      return ValueKind::kSparseTensor;
    default:
      return ValueKind::kTensor;
  }
}

std::string operator_of(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  bool constants = false;
  for (const onnx::NodeProto& node : graph.node()) {
    const bool own = node.domain().empty() || node.domain() == "ai.onnx";
    constants = constants || (own && node.op_type() == "Constant");
    if (!own || node.op_type() != "Constant")
      names.insert(own ? node.op_type() : node.domain() + "." + node.op_type());
  }
  if (names.empty()) return constants ? "Constant" : "none";
  return names.size() == 1 ? *names.begin() : "several";
}

}  // namespace

TestModel read_test_model(const std::filesystem::path& path) {
  const MappedFile file(path);
  // Protocol Buffers' messages hold less.
  if (file.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    user_error("{}: is larger than 2 GB, which no model of a test may be", path.string());
  onnx::ModelProto model;
  if (!model.ParseFromArray(file.data(), static_cast<int>(file.size())) || !model.has_graph())
    user_error("{}: is no ONNX model", path.string());
  TestModel facts;
  facts.operator_name = operator_of(model.graph());
  for (const onnx::OperatorSetIdProto& opset : model.opset_import()) {
    if (opset.domain().empty() || opset.domain() == "ai.onnx") facts.opset = opset.version();
  }
  std::set<std::string> initialised;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) initialised.insert(tensor.name());
  for (const onnx::SparseTensorProto& tensor : model.graph().sparse_initializer())
    initialised.insert(tensor.values().name());
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    if (!initialised.contains(input.name())) facts.inputs.push_back({input.name(), kind_of(input)});
  }
  for (const onnx::ValueInfoProto& output : model.graph().output())
    facts.outputs.push_back({output.name(), kind_of(output)});
  return facts;
}

bool is_expanded(const std::string& name, std::string& of) {
  const size_t at = name.rfind("_expanded");
  if (at == std::string::npos || at == 0) return false;
  of = name.substr(0, at);
  return true;
}

}  // namespace gantry::conformance
