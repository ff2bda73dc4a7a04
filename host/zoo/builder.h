// Builds an ONNX model node by node. protobuf stays out of this header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "host/zoo/zoo.h"

namespace gantry::zoo {

using AttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
/// A node's ONNX attributes as they are written to the file.
using AttributeList = std::vector<std::pair<std::string, AttributeValue>>;

/// A symbolic or fixed dimension of the model's inputs and outputs.
using ModelDim = std::variant<int64_t, std::string>;

class ModelBuilder {
 public:
  ModelBuilder(const std::string& model_name, const ZooOptions& options);
  ~ModelBuilder();
  ModelBuilder(const ModelBuilder&) = delete;
  ModelBuilder& operator=(const ModelBuilder&) = delete;

  const ZooOptions& options() const { return options_; }
  /// The batch as an input's dimension: its number, or the symbol "batch".
  ModelDim batch() const;

  std::string float_input(const std::string& name, const std::vector<ModelDim>& shape);
  std::string int64_input(const std::string& name, const std::vector<ModelDim>& shape);
  /// Declares the result of the node added last as the model's output, and gives it that name.
  void float_output(const std::string& name, const std::vector<ModelDim>& shape);

  /// Appends a node named `name`; its first output is returned.
  std::string node(const std::string& op_type, const std::string& name,
                   const std::vector<std::string>& inputs, const AttributeList& attributes = {});
  /// As node(), with `count` outputs.
  std::vector<std::string> node_with_outputs(const std::string& op_type, const std::string& name,
                                             const std::vector<std::string>& inputs, int count,
                                             const AttributeList& attributes = {});

  /// Initializer drawn from a normal distribution.
  std::string normal(const std::string& name, const std::vector<int64_t>& shape, double mean,
                     double deviation);
  /// Initializer drawn uniformly from [low, high).
  std::string uniform(const std::string& name, const std::vector<int64_t>& shape, double low, double high);
  std::string int64_constant(const std::string& name, const std::vector<int64_t>& values);
  std::string scalar(const std::string& name, float value);

  /// The whole model's bytes.
  std::string serialize() const;

 private:
  struct Impl;
  ZooOptions options_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry::zoo
