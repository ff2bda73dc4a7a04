// Models of one node whose inputs are given when they run.
#pragma once

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "host/graph/strings.h"
#include "host/onnx/import.h"
#include "host/onnx/tensor_data.h"
#include "tests/support/interpreted.h"

namespace gantry::testing {

class OneNode {
 public:
  OneNode(const std::string& domain, const std::string& op, int64_t opset, int outputs = 1) {
    model_.set_ir_version(8);
    auto* import = model_.add_opset_import();
    import->set_version(opset);
    if (!domain.empty()) {
      auto* other = model_.add_opset_import();
      other->set_domain(domain);
      other->set_version(1);
    }
    model_.mutable_graph()->set_name("g");
    node_ = model_.mutable_graph()->add_node();
    node_->set_domain(domain);
    node_->set_op_type(op);
    node_->set_name("node");
    for (int i = 0; i < outputs; ++i) {
      node_->add_output("y" + std::to_string(i));
      model_.mutable_graph()->add_output()->set_name(node_->output(i));
    }
  }

  template <typename T>
  OneNode& input(DType dtype, const std::vector<int64_t>& shape, const std::vector<T>& values) {
    const std::string name = "x" + std::to_string(node_->input_size());
    node_->add_input(name);
    auto* info = model_.mutable_graph()->add_input();
    info->set_name(name);
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx_element_type(dtype));
    type->mutable_shape();
    for (const int64_t extent : shape) type->mutable_shape()->add_dim()->set_dim_value(extent);
    given_.push_back(make_constant({dtype, Shape(shape.begin(), shape.end())}, values.data()));
    return *this;
  }
  OneNode& texts(const std::vector<int64_t>& shape, const std::vector<std::string>& values) {
    std::vector<uint64_t> numbers;
    for (const std::string& value : values) numbers.push_back(intern(value));
    return input(DType::kString, shape, numbers);
  }
  OneNode& absent() {
    node_->add_input("");
    return *this;
  }
  OneNode& with(const std::string& name, int64_t value) {
    auto* attribute = added(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
    return *this;
  }
  OneNode& with(const std::string& name, double value) {
    auto* attribute = added(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(static_cast<float>(value));
    return *this;
  }
  OneNode& with_list(const std::string& name, const std::vector<int64_t>& values) {
    auto* attribute = added(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute->add_ints(value);
    return *this;
  }
  OneNode& with_texts(const std::string& name, const std::vector<std::string>& values) {
    auto* attribute = added(name);
    attribute->set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& value : values) attribute->add_strings(value);
    return *this;
  }
  OneNode& with(const std::string& name, const char* value) {
    auto* attribute = added(name);
    attribute->set_type(onnx::AttributeProto::STRING);
    attribute->set_s(value);
    return *this;
  }

  /// As it is imported.
  Graph graph() const { return import_onnx_bytes(model_.SerializeAsString(), ".", {}); }
  std::vector<ConstantPtr> results() const {
    const Graph imported = graph();
    return interpret_function(imported.main, given_);
  }
  /// The first result's elements.
  template <typename T>
  std::vector<T> run(DType dtype) const {
    const ConstantPtr y = results().at(0);
    EXPECT_EQ(y->type.dtype, dtype);
    return {y->as<T>(), y->as<T>() + y->size / sizeof(T)};
  }

 private:
  onnx::AttributeProto* added(const std::string& name) {
    auto* attribute = node_->add_attribute();
    attribute->set_name(name);
    return attribute;
  }

  onnx::ModelProto model_;
  onnx::NodeProto* node_ = nullptr;
  std::vector<ConstantPtr> given_;
};

}  // namespace gantry::testing
