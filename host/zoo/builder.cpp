#include "host/zoo/builder.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <bit>

#include "host/support/error.h"
#include "host/support/random.h"

namespace gantry::zoo {
namespace {

constexpr int64_t kOpset = 17;
constexpr int64_t kIrVersion = 8;

void set_value_info(onnx::ValueInfoProto* info, const std::string& name, int element_type,
                    const std::vector<ModelDim>& shape) {
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(element_type);
  for (const ModelDim& dim : shape) {
    auto* target = tensor->mutable_shape()->add_dim();
    if (const auto* value = std::get_if<int64_t>(&dim)) {
      target->set_dim_value(*value);
    } else {
      target->set_dim_param(std::get<std::string>(dim));
    }
  }
}

void set_attribute(onnx::AttributeProto* attribute, const std::string& name, const AttributeValue& value) {
  attribute->set_name(name);
  if (const auto* i = std::get_if<int64_t>(&value)) {
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(*i);
  } else if (const auto* f = std::get_if<float>(&value)) {
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    attribute->set_type(onnx::AttributeProto::STRING);
    attribute->set_s(*s);
  } else {
    attribute->set_type(onnx::AttributeProto::INTS);
    for (int64_t v : std::get<std::vector<int64_t>>(value)) attribute->add_ints(v);
  }
}

/// An initializer of float32 whose elements come from `draw`, stored little-endian.
template <typename Draw>
void fill(onnx::TensorProto* tensor, const std::string& name, const std::vector<int64_t>& shape, Draw draw) {
  static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (int64_t dim : shape) {
    tensor->add_dims(dim);
    count *= dim;
  }
  std::string* raw = tensor->mutable_raw_data();
  raw->resize(static_cast<size_t>(count) * sizeof(float));
  auto* elements = reinterpret_cast<float*>(raw->data());
  for (int64_t i = 0; i < count; ++i) elements[i] = static_cast<float>(draw());
}

}  // namespace

struct ModelBuilder::Impl {
  onnx::ModelProto model;
  onnx::GraphProto* graph = nullptr;
};

ModelBuilder::ModelBuilder(const std::string& model_name, const ZooOptions& options)
    : options_(options), impl_(std::make_unique<Impl>()) {
  impl_->model.set_ir_version(kIrVersion);
  impl_->model.set_producer_name("gantry zoo");
  auto* opset = impl_->model.add_opset_import();
  opset->set_domain("");
  opset->set_version(kOpset);
  impl_->graph = impl_->model.mutable_graph();
  impl_->graph->set_name(model_name);
}

ModelBuilder::~ModelBuilder() = default;

ModelDim ModelBuilder::batch() const {
  if (options_.dynamic) return std::string("batch");
  return options_.batch;
}

std::string ModelBuilder::float_input(const std::string& name, const std::vector<ModelDim>& shape) {
  set_value_info(impl_->graph->add_input(), name, onnx::TensorProto::FLOAT, shape);
  return name;
}

std::string ModelBuilder::int64_input(const std::string& name, const std::vector<ModelDim>& shape) {
  set_value_info(impl_->graph->add_input(), name, onnx::TensorProto::INT64, shape);
  return name;
}

void ModelBuilder::float_output(const std::string& name, const std::vector<ModelDim>& shape) {
  onnx::GraphProto* graph = impl_->graph;
  graph->mutable_node(graph->node_size() - 1)->set_output(0, name);
  set_value_info(graph->add_output(), name, onnx::TensorProto::FLOAT, shape);
}

std::vector<std::string> ModelBuilder::node_with_outputs(const std::string& op_type, const std::string& name,
                                                         const std::vector<std::string>& inputs, int count,
                                                         const AttributeList& attributes) {
  onnx::NodeProto* node = impl_->graph->add_node();
  node->set_op_type(op_type);
  node->set_name(name);
  for (const std::string& input : inputs) node->add_input(input);
  std::vector<std::string> outputs;
  for (int i = 0; i < count; ++i) {
    outputs.push_back(name + ":" + std::to_string(i));
    node->add_output(outputs.back());
  }
  for (const auto& [key, value] : attributes) set_attribute(node->add_attribute(), key, value);
  return outputs;
}

std::string ModelBuilder::node(const std::string& op_type, const std::string& name,
                               const std::vector<std::string>& inputs, const AttributeList& attributes) {
  return node_with_outputs(op_type, name, inputs, 1, attributes)[0];
}

std::string ModelBuilder::normal(const std::string& name, const std::vector<int64_t>& shape, double mean,
                                 double deviation) {
  Random random(options_.seed, name);
  fill(impl_->graph->add_initializer(), name, shape, [&] { return mean + deviation * random.normal(); });
  return name;
}

std::string ModelBuilder::uniform(const std::string& name, const std::vector<int64_t>& shape, double low,
                                  double high) {
  Random random(options_.seed, name);
  fill(impl_->graph->add_initializer(), name, shape, [&] { return low + (high - low) * random.uniform(); });
  return name;
}

std::string ModelBuilder::int64_constant(const std::string& name, const std::vector<int64_t>& values) {
  onnx::TensorProto* tensor = impl_->graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  for (int64_t value : values) tensor->add_int64_data(value);
  return name;
}

std::string ModelBuilder::scalar(const std::string& name, float value) {
  onnx::TensorProto* tensor = impl_->graph->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->add_float_data(value);
  return name;
}

std::string ModelBuilder::serialize() const {
  std::string bytes;
  google::protobuf::io::StringOutputStream sink(&bytes);
  google::protobuf::io::CodedOutputStream coded(&sink);
  coded.SetSerializationDeterministic(true);
  if (!impl_->model.SerializeToCodedStream(&coded)) internal_error("zoo: the model could not be serialised");
  coded.Trim();
  return bytes;
}

}  // namespace gantry::zoo
