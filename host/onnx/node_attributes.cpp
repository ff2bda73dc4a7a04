// Attributes of the node that is imported.
#include <onnx/onnx_pb.h>

#include "host/onnx/constant_numbers.h"
#include "host/onnx/importer.h"
#include "host/onnx/node_import.h"
#include "host/onnx/sparse_tensor.h"

namespace gantry {

using onnx::AttributeProto;

const AttributeProto* NodeImport::find(const char* name, int type, const char* type_name) const {
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() != name) continue;
    if (!attribute.ref_attr_name().empty())
      fail("its attribute {} refers to an attribute of a function", name);
    // Files of the first IR versions leave the type unset.
    bool matches = attribute.type() == type || attribute.type() == AttributeProto::UNDEFINED;
    if (!matches) fail("its attribute {} must be {}", name, type_name);
    return &attribute;
  }
  return nullptr;
}

bool NodeImport::has_attribute(const char* name) const {
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() == name) return true;
  }
  return false;
}

int64_t NodeImport::integer(const char* name, int64_t otherwise) const {
  auto* a = find(name, AttributeProto::INT, "an integer");
  return a ? a->i() : otherwise;
}
double NodeImport::number(const char* name, double otherwise) const {
  auto* a = find(name, AttributeProto::FLOAT, "a number");
  return a ? static_cast<double>(a->f()) : otherwise;
}
std::string NodeImport::text(const char* name, const std::string& otherwise) const {
  auto* a = find(name, AttributeProto::STRING, "a text");
  return a ? a->s() : otherwise;
}
std::vector<int64_t> NodeImport::integer_list(const char* name) const {
  auto* a = find(name, AttributeProto::INTS, "a list of integers");
  return a ? std::vector<int64_t>(a->ints().begin(), a->ints().end()) : std::vector<int64_t>{};
}
std::vector<int64_t> NodeImport::integer_list(const char* name, size_t count, int64_t otherwise) const {
  std::vector<int64_t> values = integer_list(name);
  if (values.empty()) values.assign(count, otherwise);
  if (values.size() != count)
    fail("its attribute {} should have {} entries, not {}", name, count, values.size());
  return values;
}
std::vector<double> NodeImport::number_list(const char* name) const {
  auto* a = find(name, AttributeProto::FLOATS, "a list of numbers");
  return a ? std::vector<double>(a->floats().begin(), a->floats().end()) : std::vector<double>{};
}
std::vector<std::string> NodeImport::text_list(const char* name) const {
  auto* a = find(name, AttributeProto::STRINGS, "a list of texts");
  return a ? std::vector<std::string>(a->strings().begin(), a->strings().end()) : std::vector<std::string>{};
}
ConstantPtr NodeImport::tensor(const char* name) const {
  auto* a = find(name, AttributeProto::TENSOR, "a tensor");
  if (a == nullptr) return nullptr;
  if (!a->has_t()) fail("its attribute {} holds no tensor", name);
  return importer_.tensors().read(a->t(), fmt::format("node {}: the tensor '{}'", name_, name));
}
ConstantPtr NodeImport::sparse_tensor(const char* name) const {
  auto* a = find(name, AttributeProto::SPARSE_TENSOR, "a sparse tensor");
  if (a == nullptr) return nullptr;
  if (!a->has_sparse_tensor()) fail("its attribute {} holds no tensor", name);
  return dense_tensor(importer_.tensors(), a->sparse_tensor(),
                      fmt::format("node {}: the tensor '{}'", name_, name));
}
std::vector<double> NodeImport::tensor_numbers(const char* name) const {
  const ConstantPtr data = tensor(name);
  if (!data) fail("its attribute {} is missing", name);
  auto values = to_doubles(*data);
  if (!values) unsupported(UnsupportedKind::kElementType, "{} as {}", name_of(data->type.dtype), name);
  return *values;
}
DType NodeImport::cast_target() const {
  if (opset() < 6) {  // named by a text
    onnx::TensorProto::DataType type = onnx::TensorProto::UNDEFINED;
    std::string name = text("to", "");
    if (!onnx::TensorProto::DataType_Parse(name, &type)) fail("its attribute to is unknown: '{}'", name);
    return dtype_of(type, "the cast");
  }
  return dtype_of(static_cast<int>(integer("to", 0)), fmt::format("node {}: its result", name_));
}

DType NodeImport::element_type(const char* name) const {
  return dtype_of(static_cast<int>(integer(name, 0)), fmt::format("node {}: its {}", name_, name));
}

const onnx::GraphProto& NodeImport::graph(const char* name) const {
  auto* a = find(name, AttributeProto::GRAPH, "a graph");
  if (a == nullptr || !a->has_g()) fail("its attribute {} is missing", name);
  return a->g();
}

int64_t NodeImport::axis(int64_t given, int rank) const {
  if (given < -rank || given >= rank) fail("axis {} is outside a tensor of rank {}", given, rank);
  return given < 0 ? given + rank : given;
}

}  // namespace gantry
