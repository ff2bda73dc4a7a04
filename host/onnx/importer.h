// The state of one import: values by ONNX name, and the function being built.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "host/graph/graph.h"
#include "host/onnx/contents.h"
#include "host/onnx/import.h"
#include "host/onnx/tensor_data.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class TensorShapeProto_Dimension;
class ValueInfoProto;
}  // namespace onnx

namespace gantry {

/// What an ONNX name stands for. Data is made from constants and contents only when something reads it.
struct Binding {
  Value* value = nullptr;
  ConstantPtr constant;
  std::optional<Contents> contents;
  std::string missing;  ///< not empty: an output that the converter does not provide, of this node
};

class Importer {
 public:
  Importer(std::shared_ptr<const onnx::ModelProto> model, std::filesystem::path directory,
           const ImportOptions& options);
  Graph import();

  int64_t opset() const { return opset_; }
  /// The sizes of symbolic dimensions that the options fix, by symbol; known once the inputs are.
  const std::map<std::string, int64_t>& given_sizes() const { return fixed_symbols_; }
  Function& function() { return graph_.main; }
  TensorReader& tensors() { return tensors_; }
  /// The binding of a name, inner scopes first; a user error names `reader` if there is none.
  Binding& lookup(const std::string& name, const std::string& reader);
  /// Defines a name; a user error if it is defined already.
  void define(const std::string& name, Binding binding, const std::string& definer);
  /// The name as data.
  Value* materialise(Binding& binding, const std::string& name);
  /// Ops that yield the contents when the model runs.
  Value* dims_as_data(const Contents& contents, const std::string& name);
  /// Converts the nodes of a branch in a scope of its own; the bindings of its outputs.
  std::vector<Binding> inline_graph(const onnx::GraphProto& graph, const std::string& owner);
  /// The results of `op` if its inputs are constant and it is cheap to evaluate, else nothing.
  std::vector<ConstantPtr> try_evaluate(std::string_view op, const std::shared_ptr<const Attrs>& attrs,
                                        const std::vector<Value*>& inputs);
  /// Room for constants that the importer makes itself (ConstantOfShape); false if it is used up.
  bool take_constant_budget(int64_t bytes);

 private:
  void read_opsets();
  void check_with_onnx() const;
  void report_unsupported(const onnx::GraphProto& graph) const;
  void add_initializers(const onnx::GraphProto& graph, const std::string& where);
  void add_inputs(const onnx::GraphProto& graph);
  TensorType input_type(const onnx::ValueInfoProto& input);
  /// A dimension of an input as a size or a symbol; `given`: what the user wants it to be, or kOpenSize.
  Dim input_dim(const onnx::TensorShapeProto_Dimension& dim, int64_t given, const std::string& input,
                int axis);
  /// Gives the names that inputs' dimensions have in the model to symbols, before any without one is named.
  void name_symbols(const onnx::GraphProto& graph);
  /// A symbol that no other has.
  std::string new_symbol(const std::string& wanted);
  /// Applies ImportOptions::sizes.
  void fix_named_sizes();
  void convert_nodes(const onnx::GraphProto& graph);
  void convert_node(const onnx::NodeProto& node, const std::string& name);
  void add_outputs(const onnx::GraphProto& graph);
  void check_declared(const onnx::ValueInfoProto& output, const TensorType& type) const;

  std::shared_ptr<const onnx::ModelProto> model_;
  const ImportOptions& options_;
  TensorReader tensors_;
  Graph graph_;
  int64_t opset_ = 0;
  std::deque<std::unordered_map<std::string, Binding>> scopes_;
  std::map<std::string, std::string> symbols_;    ///< dim_param -> symbol
  std::set<std::string> taken_symbols_;           ///< all symbols of inputs
  std::map<std::string, int64_t> fixed_symbols_;  ///< by the shapes and sizes that the user gave
  std::map<std::string, int> node_names_;
  int depth_ = 0;
  int64_t constant_budget_ = int64_t{2} << 30;
};

}  // namespace gantry
