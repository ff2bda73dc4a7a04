// The state of one import: values by ONNX name, and the function being built.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "host/graph/graph.h"
#include "host/onnx/assumptions.h"
#include "host/onnx/contents.h"
#include "host/onnx/data_dims.h"
#include "host/onnx/declared_ranks.h"
#include "host/onnx/import.h"
#include "host/onnx/tensor_data.h"
#include "host/onnx/unsupported.h"

namespace google::protobuf {
template <typename Element>
class RepeatedPtrField;
}

namespace onnx {
class FunctionProto;
class GraphProto;
class ModelProto;
class NodeProto;
class TensorShapeProto_Dimension;
class TypeProto;
class ValueInfoProto;
}  // namespace onnx

namespace gantry {

class Malformed;
class NodeImport;
struct BodyStart;
struct Choice;
struct CustomOp;
struct Substituted;
using StartBody = std::function<BodyStart(Function& body)>;

/// A sequence of which only the running model knows how many tensors it holds, and of which shapes.
struct LateSequence {
  Value* elements = nullptr;  ///< [T]: all tensors' elements in row-major order, one tensor behind the other
  /// i64 [n, 1 + R], a row a tensor: its rank, at most R, then its dimensions, and 1 behind the last.
  Value* dims = nullptr;
  bool ranks_differ = false;  ///< else all are R
  /// The dimensions that every tensor is known to have, R where all are of that rank; empty: nothing is
  /// known.
  std::vector<std::optional<Dim>> common = {};
};

/// What an ONNX name stands for. Data is made from constants and contents only when something reads it.
struct Binding {
  Value* value = nullptr;
  ConstantPtr constant;
  std::optional<Contents> contents;
  /// Of a sequence whose structure is known: what its elements stand for, as many as there are.
  std::shared_ptr<const std::vector<Binding>> sequence;
  std::shared_ptr<const LateSequence> late;  ///< of any other sequence
  bool absent = false;  ///< an optional that is known to have no value; one that is known to have one is bound as that
  /// Of any other optional: whether it has a value, a bool of one element. Where it has none, `value` or `late` hold
  /// something of the value's type.
  Value* has_value = nullptr;
  std::string missing;     ///< not empty: an output that its converter does not provide, "MaxPool: output 1"
  std::string missing_of;  ///< the node
  bool unknown = false;    ///< of something that is not supported: what reads it is skipped
};

/// Of a tensor that is data.
inline Binding bound_to(Value* value) {
  Binding binding;
  binding.value = value;
  return binding;
}

/// Of a loop around a node.
struct Turn {
  Value* number =
      nullptr;        ///< of the turn: an i64 of the function that is built; null: the loop is written out
  int64_t known = 0;  ///< the number of one that is written out
};

/// What a body has before its graph is converted.
struct BodyStart {
  std::vector<Binding> arguments;  ///< what the graph's inputs stand for: parameters, or what is made of them
  Value* first_output = nullptr;   ///< in front of the graph's; null: there is none
};
/// Makes a body's outputs of what its graph's outputs stand for; may add nodes.
using GiveResults = std::function<std::vector<Value*>(std::vector<Binding> results)>;

/// A graph inside of the model's as a function.
struct ImportedBody {
  Function* function = nullptr;  ///< the importer's, until a node takes it
  std::vector<Value*> captured;  ///< values of the function around it that are its last parameters, in their order
  std::map<std::string, int> names_before;  ///< of nodes
  std::vector<std::string> warnings;        ///< told when a node takes it
};

/// Definitions of newer opsets are read as those of this one.
inline constexpr int64_t kNewestOpset = 28;

/// The model, and the bodies of its functions as they were called: their tensors are read where they lie.
struct FunctionBodies;
/// Converts one node (host/onnx/converters.h).
using Convert = void (*)(NodeImport&);

/// Thrown where a node reads an unknown binding; convert_node makes its outputs unknown too.
struct ReadsUnknown {};

/// Thrown where the branches of an If on data give tensors of different ranks: what reads those is another in
/// each, and is converted in both (import_apart.cpp).
struct BranchesDiffer {
  std::string node;  ///< the If
  Value* condition = nullptr;
  const Function* function = nullptr;  ///< of the condition
  int64_t number = 0;                  ///< of the Choice
};

bool is_default_domain(const std::string& domain);
/// Its name as converters and functions have it: empty for ai.onnx.
std::string domain_name(const std::string& domain);
/// What the model's inputs and outputs call an element of a sequence: "x[0]". See also host/graph/late_values.h.
std::string element_name(const std::string& sequence, size_t element);
/// What a node is called in messages: its name, else its first output, else its op.
std::string node_name(const onnx::NodeProto& node);

class Importer {
 public:
  /// The model's large weights are taken out of it: it is no good for another import.
  /// `raw_data`: what the model's tensors refer to; null: nothing.
  Importer(std::shared_ptr<onnx::ModelProto> model, DataFolder directory, std::shared_ptr<RawData> raw_data,
           const ImportOptions& options, Assumptions assumptions = {});
  Graph import();

  /// From now on a wrong node of a branch or body does not keep those behind it from being looked at: the
  /// error names them too. For whoever only wants to know what is wrong.
  void name_all_wrong_nodes() { names_all_ = true; }
  /// Whether reading a branch or body ended with a wrong node.
  bool wrong_in_bodies() const { return wrong_in_bodies_; }

  Assumptions& assumptions() { return assumptions_; }
  /// How many outputs have another rank than the model declares.
  size_t contradicted_outputs() const { return contradicted_outputs_; }

  int64_t opset() const { return opset_; }
  /// The sizes of symbolic dimensions that the options give, by symbol; known once the inputs are.
  const std::map<std::string, GivenSize>& given_sizes() const { return given_sizes_; }
  /// That nodes are added to: the model's, or that of the branch that is converted.
  Function& function() { return *open_.back().function; }
  TensorReader& tensors() { return tensors_; }
  DataDims& data_dims() { return data_dims_; }
  const DeclaredRanks& declared_ranks() const { return declared_ranks_; }
  /// A symbol that no other has.
  std::string new_symbol(const std::string& wanted);
  /// The binding of a name, inner scopes first; a user error names `reader` if there is none. Throws
  /// ReadsUnknown for an unknown one.
  Binding& lookup(const std::string& name, const std::string& reader);
  /// Defines a name; a user error if it is defined already.
  void define(const std::string& name, Binding binding, const std::string& definer);
  /// The name as data.
  Value* materialise(Binding& binding, const std::string& name);
  /// Ops that yield the contents when the model runs.
  Value* dims_as_data(const Contents& contents, const std::string& name);
  /// Converts the nodes of a branch in a scope of its own, in which its inputs stand for `arguments`; the bindings of
  /// its outputs.
  std::vector<Binding> inline_graph(const onnx::GraphProto& graph, const std::string& owner,
                                    std::vector<Binding> arguments = {});
  /// Converts a graph to a function. Throws ReadsUnknown where its results depend on what is not supported.
  ImportedBody import_body(const onnx::GraphProto& graph, const std::string& owner, const StartBody& start,
                           const GiveResults& give);
  /// Forgets a body that no node will hold; its nodes' names are free again. A BrokenModel where that, which
  /// is done in every body around it too, has been done too often.
  void drop_body(const ImportedBody& body, const std::string& owner);
  /// Hands a body over. Those that nobody takes live as long as the importer: it remembers their values.
  std::unique_ptr<Function> take_body(const Function* body);
  /// Those that the node being converted is in, the outermost first.
  std::vector<Turn> turns();
  /// From now on nodes of the innermost function are in that turn, until it is left or the function is whole.
  void enter_turn(const Turn& turn) { open_.back().turns.push_back(turn); }
  void leave_turn() { open_.back().turns.pop_back(); }
  Choice next_choice();
  /// As NodeImport::substitute, for the node `reader` called `name`, whose inputs have these values.
  Substituted substitute(const std::vector<std::string>& names, const std::vector<Value*>& values,
                         size_t varied_count, const std::string& result, const onnx::NodeProto& reader,
                         const std::string& name);
  /// Converts the nodes of a branch for what it has that is not supported; other errors and the results are
  /// dropped.
  void probe_graph(const onnx::GraphProto& graph, const std::string& owner);
  /// The results of `op` if its inputs are constant and it is cheap to evaluate, else nothing.
  std::vector<ConstantPtr> try_evaluate(const OpHandle& op, const std::shared_ptr<const Attrs>& attrs,
                                        const std::vector<Value*>& inputs);
  void warn(const std::string& text);
  /// Room for constants that the importer makes itself (ConstantOfShape); false if it is used up.
  bool take_constant_budget(int64_t bytes);

 private:
  /// While a function's body is read: its names and opsets are its own.
  struct FunctionCall;
  /// While a graph inside of another is read: its names are its own, and those around it are seen.
  struct InnerScope;
  /// A function of the graph that is being built, with what it takes of those around it.
  struct OpenFunction {
    Function* function = nullptr;
    size_t first_scope = 0;  ///< of its names; those of scopes below are of the functions around it
    std::vector<Value*> captured;
    std::map<const Value*, Value*> parameters;  ///< of captured values
    std::vector<Turn> turns = {};               ///< of it, and of loops that are written out in it
  };
  /// A graph whose nodes are being converted.
  struct OpenGraph {
    const onnx::GraphProto* graph = nullptr;
    size_t function = 0;  ///< that they are added to: a place in open_
  };
  /// A node of an open graph.
  struct PlacedNode {
    const onnx::NodeProto* node = nullptr;
    bool is_outside = false;  ///< of the innermost function
  };
  /// The nodes of open graphs by which a tensor is computed from those named, in order.
  std::vector<PlacedNode> nodes_between(const std::vector<std::string>& names, const std::string& result) const;
  /// The value that the name has in the innermost function; null where it has none.
  Value* value_here(const std::string& name) const;
  /// Whether another name of the innermost function has the value too.
  bool is_shared(const Value* value, const std::string& name) const;
  /// What the name stands for where it has this value: a value that no other name has, and no constant unless nothing is
  /// differentiated by it.
  Value* variable(const std::string& name, Value* value, bool is_fixed, const std::string& reader);
  /// Nodes that are converted one after another.
  struct NodeList {
    std::vector<const onnx::NodeProto*> nodes;
    std::set<std::string> results;  ///< names that others read, who are not in the list
    /// Branches chosen for Ifs that are met while the first node is converted, by how many were met there before.
    std::map<int64_t, bool> choices;
  };
  void convert_list(const NodeList& list);
  /// Converts one of the list's nodes; what its converter threw where results of it differ in rank.
  std::optional<BranchesDiffer> convert_listed(const NodeList& list, size_t at);
  /// A node of a list whose results differ in rank behind the branches of an If.
  struct Apart;
  /// Whether another list, which is added to the same function, is being converted around this one.
  bool has_outer_list() const;
  /// A body whose nodes and results `convert` adds.
  ImportedBody import_body_by(const std::string& owner, const std::function<void()>& convert);
  /// Puts down that the node's results differ in rank, and goes on without it.
  void refuse_branches(const onnx::NodeProto& node, const BranchesDiffer& differ);
  /// Counts the node and tells who wants to hear of it.
  void convert_named(const onnx::NodeProto& node);
  /// The binding of a name, inner scopes first, of whatever function; null if there is none.
  const Binding* find(const std::string& name) const;
  /// Converts a node once more, but for the outputs that are in the innermost scope already.
  void convert_again(const onnx::NodeProto& node);
  /// The binding, of a scope around the innermost function, as that sees it.
  Binding& capture(const Binding& outer, size_t scope, const std::string& name);
  /// The same of a binding without a name, and of a value; null stays null.
  Binding captured(Binding outer, size_t scope);
  Value* captured(Value* outer, size_t scope);
  /// A value of the function at that place in open_ as the innermost function sees it.
  Value* handed_in(Value* value, size_t owner);
  /// Defines the names of a graph's inputs.
  void define_arguments(const onnx::GraphProto& graph, std::vector<Binding> arguments, const std::string& owner);
  /// An output of the function that is built: a node's result of its own.
  void return_value(Value* value, const std::string& owner);
  void read_opsets();
  void check_with_onnx() const;
  Graph import_supported();
  /// Runs `f`; where it meets something that is not supported, that is put down for `place`, and false.
  bool collect(const std::string& place, const std::function<void()>& f);
  void add_unsupported(const onnx::NodeProto& node, const std::string& name, const Unsupported& error);
  /// Makes a node's outputs unknown that have no binding yet.
  void skip_node(const onnx::NodeProto& node, const std::string& name);
  /// Defines a name as unknown unless it is defined.
  void define_unknown(const std::string& name, const std::string& definer);
  /// Puts down the nodes of a graph that have no converter, and those of its branches and loop bodies.
  void add_unsupported_ops(const onnx::GraphProto& graph);
  /// Puts down the same of a function that is called, once.
  void add_unsupported_ops_of(const onnx::FunctionProto& function);
  std::string op_text(const onnx::NodeProto& node) const;
  /// Throws what was collected, if anything was; `error`: what ended the import before, or empty.
  void throw_unsupported(const std::string& error);
  /// Defines the names of a branch's initialisers.
  void add_initializers(const onnx::GraphProto& graph);
  /// Finds those of the model's inputs that stay inputs though they have an initialiser.
  void keep_inputs(const onnx::GraphProto& graph);
  /// Defines the names of the model's other initialisers, and takes their data out of it.
  void take_initializers(onnx::GraphProto& graph);
  /// What is wrong with them is added to `malformed`.
  void add_sparse_initializers(const onnx::GraphProto& graph, bool may_stay_open, Malformed& malformed);
  /// `read` gives the data of what messages call `what`; the name of one that is wrong stands for something unknown.
  void add_initializer(const std::string& name, bool may_stay_open,
                       const std::function<ConstantPtr(const std::string& what)>& read, Malformed& malformed);
  void add_inputs(const onnx::GraphProto& graph);
  TensorType input_type(const std::string& name, const onnx::TypeProto& type);
  /// How many elements an input has that is a sequence; nothing where the user does not say.
  std::optional<size_t> input_length(const std::string& name) const;
  struct ModelInput;
  /// The inputs that one of the model's is: itself, the elements of a sequence, or the tensors of a late one.
  ModelInput model_input(const onnx::ValueInfoProto& input);
  ModelInput late_input(const onnx::ValueInfoProto& input);
  void define_input(const ModelInput& input);
  /// A dimension of an input as the model has it: a size or a symbol.
  Dim input_dim(const onnx::TensorShapeProto_Dimension& dim, const std::string& input, int axis);
  /// Gives the names that inputs' dimensions have in the model to symbols, before any without one is named.
  void name_symbols(const onnx::GraphProto& graph);
  /// The version of a domain that the model, or the function that is being converted, imports; 1 where it does not say.
  int64_t opset_of(const std::string& domain) const;
  Convert converter_of(const onnx::NodeProto& node) const;
  /// The model's function that the node calls; null if it calls none.
  const onnx::FunctionProto* function_of(const onnx::NodeProto& node) const;
  /// Adds how many nodes there are where functions are their bodies; stops above kMostCalledNodes. `depth`:
  /// how many functions are around them, each called by the one before.
  void count_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int depth,
                   int64_t& count);
  /// Those of a call, up to kMostCalledNodes + 1: so many too where the function calls itself or is too deep.
  int64_t nodes_of_call(const onnx::FunctionProto& function, int depth);
  /// Converts the function's body in place of the node.
  void call_function(const onnx::FunctionProto& function, const onnx::NodeProto& node, const std::string& name);
  /// The user's op that the node is; null if it is none.
  const CustomOp* custom_op_of(const onnx::NodeProto& node) const;
  /// User error for a custom op that gantry has itself.
  void check_custom_ops() const;
  /// Adds a call of the op's kernel, or the nodes of its composition.
  void convert_custom(const CustomOp& op, const onnx::NodeProto& node, NodeImport& import);
  void convert_nodes(const onnx::GraphProto& graph);
  void convert_node(const onnx::NodeProto& node, const std::string& name);
  /// User error for more inputs or outputs than the op has.
  void check_arity(const onnx::NodeProto& node, const std::string& name) const;
  /// User error for a node of a cycle, which cannot be computed.
  void check_cycle(const onnx::NodeProto& node, const std::string& name) const;
  /// User error for attributes that the op has not; those of ONNX Runtime's ops, and of newer opsets than gantry
  /// knows, are Unsupported.
  void check_attributes(const onnx::NodeProto& node, const std::string& name) const;
  void add_outputs(const onnx::GraphProto& graph);
  /// The outputs that one of the model's is.
  void add_output_of(Binding& binding, const onnx::ValueInfoProto& output);
  /// `declared`: what the model says of it; null where that is said of a sequence or an optional.
  void add_output(Binding& binding, const std::string& name, const onnx::ValueInfoProto* declared);
  void add_output(Value* value, const std::string& name);
  /// Warns of a declared shape that cannot be the value's; a user error for another dtype.
  void check_declared(const onnx::ValueInfoProto& output, const Value& value);

  std::shared_ptr<onnx::ModelProto> model_;
  const ImportOptions& options_;
  std::shared_ptr<FunctionBodies> bodies_;
  TensorReader tensors_;
  DataDims data_dims_{*this};
  DeclaredRanks declared_ranks_;  ///< of the graph, or the function, that is being converted
  Graph graph_;
  int64_t opset_ = 0;
  std::map<std::string, int64_t> opsets_;  ///< of the other domains
  std::string prefix_;                     ///< of nodes' names in a function: those of the nodes that called it
  std::deque<std::unordered_map<std::string, Binding>> scopes_;
  std::vector<OpenFunction> open_;  ///< the innermost last
  std::vector<OpenGraph> graphs_;   ///< of the model, or the function that is being converted; the innermost last
  std::vector<std::unique_ptr<Function>> made_bodies_;  ///< that no node has taken
  std::set<std::string> kept_inputs_;                   ///< that have an initialiser, or might have one
  std::map<std::string, std::string> symbols_;    ///< dim_param -> symbol
  std::set<std::string> taken_symbols_;           ///< all symbols of inputs
  std::map<std::string, GivenSize> given_sizes_;  ///< by symbol: of the shapes and sizes that the user gave
  std::map<std::string, int> node_names_;
  std::set<const onnx::NodeProto*> in_cycles_;  ///< of the graphs that are being converted, and were
  Assumptions assumptions_;
  size_t contradicted_outputs_ = 0;
  UnsupportedReport unsupported_;
  bool names_all_ = false, wrong_in_bodies_ = false;
  static constexpr int kDeepestNesting =
      64;  ///< branches, bodies and calls of functions inside of each other
  /// Functions that call others twice, and these others twice, are more nodes than any memory holds.
  static constexpr int64_t kMostCalledNodes = 250'000;
  std::map<const onnx::FunctionProto*, int64_t> called_nodes_;  ///< those of a call
  /// In nodes: some gigabytes of large bodies, or twelve loops inside of each other of which each is
  /// converted twice.
  static constexpr int64_t kMostDroppedCost = 2'000'000;
  int64_t dropped_cost_ = 0;                               ///< of bodies that no node holds
  std::set<const onnx::FunctionProto*> listed_functions_;  ///< by add_unsupported_ops_of
  bool met_unsupported_op_ = false;                        ///< they are listed when all are known
  std::vector<std::string>* held_warnings_ = nullptr;      ///< of the body that is read
  std::vector<const Function*> lists_;  ///< that the lists being converted are added to; the innermost last
  std::map<int64_t, bool> choices_;     ///< for Ifs on data, by their numbers
  int64_t choice_count_ = 0;            ///< Ifs on data that were met
  bool joins_ranks_ = false;            ///< Choice::joins_ranks of those to come
  int aparts_ = 0;  ///< nodes that are converted behind each branch, one inside of the other
  int depth_ = 0;
  int body_count_ = 0;
  int64_t constant_budget_;
};

}  // namespace gantry
