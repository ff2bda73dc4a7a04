// The graph IR.
//
// Semantics. A Function is a list of nodes in execution order over SSA values: every value is defined once,
// by a parameter, a constant or a node's result, and defined before it is used. Nodes have no side effects,
// so a node whose results are unused may be dropped, and any topological order means the same. Floating-point
// ops follow IEEE 754 with round-to-nearest; passes may not reassociate or contract visible results except
// where an op's own definition allows it (reductions, convolutions and matrix products sum in any order).
// Integer arithmetic wraps. Types are exact: the dtype and every dimension of every value are known to the
// extent that dimension expressions can say.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/attrs.h"
#include "host/graph/decision.h"
#include "host/graph/op_handle.h"
#include "host/graph/type.h"
#include "host/support/error.h"

namespace gantry {

struct Node;
class Function;

/// Dense row-major bytes of a constant tensor; may alias a mapped file, which `owner` keeps alive.
struct ConstantData {
  TensorType type;  ///< every dimension constant
  const std::byte* bytes = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> owner;

  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes);
  }
};
using ConstantPtr = std::shared_ptr<const ConstantData>;

/// Copies `count` elements into a new constant.
ConstantPtr make_constant(const TensorType& type, const void* data);
/// A new constant with storage to be filled in through `bytes` before it is shared.
std::shared_ptr<ConstantData> allocate_constant(const TensorType& type, std::byte** writable);

/// An SSA value. Owned by its Function; addresses are stable.
struct Value {
  enum class Kind : uint8_t { kParameter, kConstant, kResult };
  Kind kind = Kind::kResult;
  std::string name;  ///< unique in the function, printed after %, (or @ for constants)
  TensorType type;
  ConstantPtr constant;      ///< kConstant only
  Node* producer = nullptr;  ///< kResult only
  int result_index = 0;      ///< kResult only
  /// The nodes of its Function that read it, once each, in the order in which they began to. The Function keeps
  /// them current.
  std::vector<Node*> users;

  bool is_constant() const { return kind == Kind::kConstant; }
};

/// Where a node runs on a board with a GPU.
enum class Placement : uint8_t { kDefault, kCpu, kGpu };

/// One application of an op. Owned by its Function; addresses are stable.
struct Node {
  const OpBase* op = nullptr;
  std::shared_ptr<const Attrs> attrs;  ///< never null, and of the op's own type
  /// Null where an optional input is absent. Function::set_input changes them.
  std::vector<Value*> inputs;
  std::vector<Value*> results;
  /// Nested functions: the group of a fused op; later the branches of control flow.
  std::vector<std::unique_ptr<Function>> bodies;
  /// Names of the user's ONNX nodes that this comes from, in order, once each.
  std::vector<std::string> origin;
  Placement placement = Placement::kDefault;  ///< set by place_devices; printed as `on cpu`, `on gpu`
  /// How it is computed; none where nothing has decided that, or the op has one form only.
  std::optional<Decision> decision;

  bool is(const OpHandle& handle) const { return op->handle == &handle; }
  /// The attributes if the node is of that op, else null.
  template <typename AttrsType>
  const AttrsType* match(const Op<AttrsType>& handle) const {
    return is(handle) ? static_cast<const AttrsType*>(attrs.get()) : nullptr;
  }
  /// The attributes where several ops share their type or a base of it; null if they are of another.
  template <typename AttrsType>
  const AttrsType* attrs_if() const {
    return dynamic_cast<const AttrsType*>(attrs.get());
  }
  /// As attrs_if(); an internal error if they are of another type.
  template <typename AttrsType>
  const AttrsType& attrs_as() const {
    const auto* own = attrs_if<AttrsType>();
    internal_check(own != nullptr, "the attributes of a node of op {} are of another type", op->name);
    return *own;
  }
  Value* result(int index = 0) const { return results[static_cast<size_t>(index)]; }
};

/// Two dimensions that must be equal when the program runs, for the node named: what type inference had to
/// assume. Checked by the runtime when it binds the symbols.
struct DimConstraint {
  Dim left, right;
  std::string origin;
};

/// A function: parameters, nodes in execution order, returned values. Owns its values and nodes.
class Function {
 public:
  explicit Function(std::string name = "main") : name(std::move(name)) {}
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  Function(Function&&) = default;
  Function& operator=(Function&&) = default;

  std::string name;
  std::vector<Value*> parameters;
  std::vector<Value*> outputs;
  /// Names under which the model returns its outputs, parallel to `outputs`.
  std::vector<std::string> output_names;
  std::vector<DimConstraint> constraints;
  /// Of those symbols of its parameters that may not be any size. Checked as constraints are.
  std::map<std::string, DimRange> ranges() const;

  /// Name hints are made unique by a suffix.
  Value* add_parameter(std::string name_hint, TensorType type);
  Value* add_constant(std::string name_hint, ConstantPtr data);
  /// Appends a node whose result types the caller has inferred (see infer_and_add in host/ops/op.h).
  /// `before`: insert in front of that node instead of at the end.
  Node* add_node(const OpBase* op, std::shared_ptr<const Attrs> attrs, std::vector<Value*> inputs,
                 std::vector<TensorType> result_types, std::vector<std::string> origin,
                 const Node* before = nullptr, std::string name_hint = "");

  const std::vector<Node*>& nodes() const { return order_; }
  /// Gives the value another name, made unique by a suffix.
  void rename(Value* value, std::string name_hint);
  /// Replaces every use of `from` (node inputs and outputs of this function) by `to`.
  void replace_uses(Value* from, Value* to);
  void set_input(Node& node, size_t index, Value* value);
  bool is_output(const Value* value) const;
  /// The only node that reads the value; null if there are none or several, or if the function returns it.
  Node* only_user(const Value* value) const;
  /// Number of uses per value, outputs counted.
  std::map<const Value*, int> use_counts() const;
  /// Nodes that use each value, in order.
  std::map<const Value*, std::vector<Node*>> users() const;
  /// Removes the nodes for which dead() is true (their results must be unused).
  void remove_nodes(const std::function<bool(const Node&)>& dead);
  /// Replaces the execution order; must hold the same nodes.
  void reorder(std::vector<Node*> order) { order_ = std::move(order); }
  /// Drops constants that nothing uses.
  void drop_unused_constants();
  std::vector<Value*> constants() const;
  /// Deep copy (constants' bytes are shared).
  Function clone() const;

 private:
  std::string unique_name(std::string hint);
  static void begin_use(Value* value, Node* user);
  static void end_use(Value* value, Node* user);
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> order_;
  std::map<std::string, int> name_counts_;
};

/// A model's program: today one function, @main.
struct Graph {
  std::string model_name;
  Function main;
  /// Names of the passes that it has been through, in order, once each.
  std::vector<std::string> passes = {};
};
/// Deep copy (constants' bytes are shared).
Graph clone_graph(const Graph& graph);

/// What the text form needs to know of ops; host/ops implements it.
class OpTable {
 public:
  virtual ~OpTable() = default;
  /// Of all ops.
  virtual std::vector<std::string> names() const = 0;
  /// Null if there is none of that name.
  virtual const OpBase* find(std::string_view name) const = 0;
  /// Result types; throws a user error that names what is wrong.
  virtual std::vector<TensorType> infer(const Node& node, Function& function) const = 0;
  /// Names of the symbols that the node gives values to while the program runs.
  virtual std::vector<std::string> bound_symbols(const Node& /*node*/) const { return {}; }
};

/// Text form as in the design: one node a line, the origin as a comment.
std::string print(const Graph& graph, const OpTable& ops);
std::string print(const Function& function, const OpTable& ops);
/// The lines of some of the function's nodes.
std::string print_nodes(const Function& function, const std::vector<const Node*>& nodes, const OpTable& ops);
/// Parses what print() writes. Constants too large to stand inline are referred to by name and looked up in
/// `constants`; without an entry they are zero-filled of the printed type. Throws a user error that shows the
/// line. For files see host/graph/parse.h.
Graph parse_graph(std::string_view text, const OpTable& ops,
                  const std::map<std::string, ConstantPtr>& constants = {});
/// Checks SSA form, the types of every node against its type rule, and output names. Throws an internal error
/// that names the node and `after` (the pass that ran last).
void verify(Graph& graph, const OpTable& ops, std::string_view after);

}  // namespace gantry
