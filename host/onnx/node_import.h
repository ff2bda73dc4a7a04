// What a converter sees of one ONNX node, and what it may do.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/onnx/contents.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/support/unsupported.h"

namespace onnx {
class GraphProto;
class NodeProto;
class AttributeProto;
}  // namespace onnx

namespace gantry {

class DataDims;
class Importer;
// These are in importer.h.
struct Binding;
struct BodyStart;
struct ImportedBody;
struct LateSequence;
struct Turn;
/// Adds parameters and nodes to a new body.
using StartBody = std::function<BodyStart(Function& body)>;
using GiveResults = std::function<std::vector<Value*>(std::vector<Binding> results)>;

/// A part of the graph with other values in the place of some of its tensors.
struct Substituted {
  Value* result = nullptr;
  std::vector<Value*> variables;  ///< what the tensors stand for in it, parallel to them
};

/// Of an If on data: which one it is among those that the import has met, and the branch that was chosen for it where what
/// reads its results is converted in each of its branches.
struct Choice {
  int64_t number = 0;
  std::optional<bool> taken;
  bool joins_ranks = false;  ///< no other way was found: results of one element take the higher rank
};

/// What elements that steer shapes may be where only the running model knows them.
enum class Elements : uint8_t {
  kSizes,   ///< not negative: others end the run with an error that names the node
  kSigned,  ///< any
};

/// Inputs, typed attributes and results of the node being converted. All errors name the node.
class NodeImport {
 public:
  NodeImport(Importer& importer, const onnx::NodeProto& proto, std::string name);

  const std::string& op_type() const;
  const std::string& name() const { return name_; }
  int64_t opset() const;
  /// Throws a user error that starts with the node's name and op.
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::kUser, fmt::format("node {} ({}): {}", name_, op_type(),
                                              fmt::format(format, std::forward<Args>(args)...)));
  }

  /// Throws what the importer puts down to go on: `feature` in a few words, without the node.
  template <typename... Args>
  [[noreturn]] void unsupported(UnsupportedKind kind, fmt::format_string<Args...> format,
                                Args&&... args) const {
    std::string feature = fmt::format(format, std::forward<Args>(args)...);
    const std::string message =
        fmt::format("node {} ({}): {}, which gantry does not support", name_, op_type(), feature);
    throw Unsupported(kind, std::move(feature), message);
  }

  // --- inputs
  size_t input_count() const;
  bool has(size_t i) const;
  /// The input as data; a missing one is a user error.
  Value* input(size_t i);
  /// As input(); null where it is absent.
  Value* optional_input(size_t i) { return has(i) ? input(i) : nullptr; }
  std::vector<Value*> inputs();
  TensorType type(size_t i);
  int rank(size_t i) { return type(i).rank(); }
  /// The input's value if it is known now, else null.
  ConstantPtr constant(size_t i);
  /// Elements of an integer vector or scalar as dimensions, if they are known now.
  std::optional<Contents> contents(size_t i);
  /// The same, and those of integer tensors of more axes that were computed from vectors.
  std::optional<Contents> elements(size_t i);
  /// As contents(); where the elements are only known when the model runs, symbols that stand for them, bound
  /// by a node (bind_dims). `what` is unsupported where their number is not known either, or is above 256; a
  /// missing input and others than of i32 and i64 are user errors.
  Shape dims(size_t i, const char* what, Elements elements = Elements::kSizes);
  /// The same of an integer tensor that the converter has made, in row-major order.
  Shape bind(Value* value, const char* what, Elements elements = Elements::kSizes);
  DataDims& data_dims();
  /// Whether data decide on the sign of a dimension too.
  bool may_be_negative(const Dim& dim) const;
  /// max(dim, 0), simpler where the dimension is an element that data give.
  Dim positive_part(const Dim& dim) const;
  /// The dimensions under names of their own where they are more than a symbol: expressions of expressions grow.
  Shape named(Shape dims, const char* hint);
  /// The input, a vector whose length only the running model knows, has so many elements: a constraint, from
  /// which on that is its length. Nothing where the length is known, or no count is given.
  void assume_length(size_t i, std::optional<int64_t> count);
  /// As dims(), all constant: else unsupported.
  std::vector<int64_t> integers(size_t i, const char* what);
  /// Elements of a constant of any numeric dtype: unsupported where it is none, or of others.
  std::vector<double> numbers(size_t i, const char* what);

  // --- sequences and optionals (Binding, in importer.h)
  const Binding& binding(size_t i);
  /// The elements of a sequence whose structure is known; an error where the input is none.
  const std::vector<Binding>& sequence(size_t i);
  /// What a binding stands for as data, and the type of that; unsupported of sequences and optionals.
  Value* data_of(const Binding& binding);
  TensorType type_of(const Binding& binding);
  void set_binding(size_t i, Binding binding);
  void set_sequence(size_t i, std::vector<Binding> elements);
  void set_late(size_t i, const LateSequence& sequence);
  /// As call_graph, of bindings.
  std::vector<Binding> call_with(const onnx::GraphProto& graph, std::vector<Binding> arguments);

  // --- attributes; another type than asked for is a user error; absent lists are empty, absent tensors null
  bool has_attribute(const char* name) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  double number(const char* name, double otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  std::vector<int64_t> integer_list(const char* name) const;
  /// `count` integers; absent or empty: as often `otherwise`.
  std::vector<int64_t> integer_list(const char* name, size_t count, int64_t otherwise) const;
  std::vector<double> number_list(const char* name) const;
  std::vector<std::string> text_list(const char* name) const;
  ConstantPtr tensor(const char* name) const;
  /// Made dense.
  ConstantPtr sparse_tensor(const char* name) const;
  /// The elements of an attribute that is a tensor of any numeric dtype; a missing one is a user error.
  std::vector<double> tensor_numbers(const char* name) const;
  /// The attribute `to` of Cast.
  DType cast_target() const;
  /// An attribute that holds an element type.
  DType element_type(const char* name) const;
  const onnx::GraphProto& graph(const char* name) const;
  /// A normalised axis: 0 <= result < rank. A user error where there is none.
  int64_t axis(int64_t given, int rank) const;

  // --- results
  size_t output_count() const;
  bool wants(size_t i) const;
  /// The number of dimensions that the model declares of a result, where it does.
  std::optional<int> declared_rank(size_t i) const;
  /// What an output is; of one that nobody wants it is dropped.
  void set(size_t i, Value* value);
  void set_contents(size_t i, Contents contents);
  /// A tensor whose value is known; becomes data when something reads it as such.
  void set_constant(size_t i, ConstantPtr data);
  /// For an If on data, each time that it is converted.
  Choice next_choice();
  /// Converts the branch's nodes in place; the node's results are the branch's.
  void inline_branch(const onnx::GraphProto& branch);
  /// Converts a graph that the node has as an attribute, with its inputs standing for `arguments`; its results.
  std::vector<Value*> call_graph(const onnx::GraphProto& graph, const std::vector<Value*>& arguments);
  /// The graph as a function of its own; values around it that it reads are its last parameters. What `start` and `give`
  /// add is added to it.
  ImportedBody import_body(const onnx::GraphProto& graph, const StartBody& start, const GiveResults& give);
  void drop_body(const ImportedBody& body);
  /// The tensor `result` of the graphs around the node as it is computed where the node's inputs stand for the tensors of
  /// these names, of which the first `varied_count` are differentiated by: they are values of the function that nothing
  /// else is, and no constants. Nodes that read nothing that is another are not converted again. A user error where
  /// `result` depends on the node.
  Substituted substitute(const std::vector<std::string>& names, size_t varied_count, const std::string& result);
  /// The turns of the loops around the node, the outermost first.
  std::vector<Turn> turns();
  /// What is converted from now on in the body that was begun last is in the turn of that number.
  void set_turn(Value* number);
  /// The same for a turn that is written out, until it is left (WrittenTurn).
  void enter_turn(int64_t number);
  void leave_turn();
  /// A node that holds the bodies; its results are of these types.
  Node* add_control(const OpHandle& op, std::shared_ptr<const Attrs> attrs, std::vector<Value*> inputs,
                    std::vector<TensorType> types, const std::vector<ImportedBody>& bodies);
  /// A symbol that no other has.
  Dim new_symbol(const std::string& wanted);
  /// Tells whoever imports the model.
  void warn(const std::string& text);
  /// Whether to take for granted what decides on a rank and only the running model knows (Assumptions).
  bool assume(bool likely);
  /// Looks for what is not supported in a branch that is not converted.
  void probe_branch(const onnx::GraphProto& branch);
  /// Appends an op to the function. Small results of constants are evaluated at once.
  template <typename AttrsType>
  Value* add(const Op<AttrsType>& op, std::vector<Value*> inputs,
             std::shared_ptr<const std::type_identity_t<AttrsType>> attrs = nullptr) {
    return add_any(op, std::move(inputs), std::move(attrs))[0];
  }
  template <typename AttrsType>
  std::vector<Value*> add_many(const Op<AttrsType>& op, std::vector<Value*> inputs,
                               std::shared_ptr<const std::type_identity_t<AttrsType>> attrs) {
    return add_any(op, std::move(inputs), std::move(attrs));
  }
  /// For converters that have the op as data.
  std::vector<Value*> add_any(const OpHandle& op, std::vector<Value*> inputs,
                              std::shared_ptr<const Attrs> attrs = nullptr);
  /// The constant as data, under the node's name and the hint.
  Value* constant_value(ConstantPtr data, const char* hint);
  /// The dimensions as a vector of i64.
  Value* dims_as_data(Shape dims);
  /// A scalar constant.
  Value* scalar(DType dtype, double value);
  /// A reshape, or `x` itself if it has that shape.
  Value* reshape(Value* x, Shape shape);
  Value* transpose(Value* x, std::vector<int64_t> axes);
  Value* cast(Value* x, DType dtype);
  Value* broadcast(Value* x, Shape shape);
  /// Elements begin to end (exclusive) of one axis, all of the others. Where neither the dimensions nor the
  /// function's constraints say that the axis has these for all sizes, it becomes a constraint under the
  /// node's name; a user error where it never has.
  Value* slice(Value* x, int64_t axis, Dim begin, Dim end, int64_t stride = 1);
  /// The same of an axis that has them by what no dimension says: as what an op counted.
  Value* slice_inside(Value* x, int64_t axis, Dim begin, Dim end, int64_t stride = 1);
  Function& function();
  /// Room for constants that converters make; false if it is used up.
  bool take_constant_budget(int64_t bytes);

 private:
  void expect_tensor(const Binding& binding) const;
  /// What `read` returns; wrong nodes that it throws, of that graph of the node's, are said to be in it.
  template <typename Read>
  auto in_graph(const onnx::GraphProto& graph, const Read& read) const;
  const onnx::AttributeProto* find(const char* name, int type, const char* type_name) const;
  Importer& importer_;
  const onnx::NodeProto& proto_;
  std::string name_;
};

/// While it lives, what is converted is in that turn of a loop that is written out.
class WrittenTurn {
 public:
  WrittenTurn(NodeImport& n, int64_t number) : n_(n) { n_.enter_turn(number); }
  ~WrittenTurn() { n_.leave_turn(); }
  WrittenTurn(const WrittenTurn&) = delete;
  WrittenTurn& operator=(const WrittenTurn&) = delete;

 private:
  NodeImport& n_;
};

}  // namespace gantry
