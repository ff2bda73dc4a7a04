// Ops: each declared once, in a file of host/ops, and listed in an explicit table.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"
#include "host/tensor/tensor.h"

namespace gantry {

/// How an op may be grouped with others into one kernel (see host/passes/fuse_ops.h for the rules).
enum class FusionClass : uint8_t {
  kElementwise,            ///< out[i] depends on in[i] of every input of the same shape
  kBroadcast,              ///< as elementwise, inputs may be broadcast
  kInjective,              ///< every output element depends on one element of an input, by an index map
  kReduction,              ///< reduces axes of its (first) input
  kOutElementwiseFusable,  ///< convolution, matrix product, normalisation: elementwise and broadcast ops may
                           ///< follow in the kernel
  kOpaque,                 ///< a kernel of its own
};

/// How an op deals with its tensors' axis order, for alter_layout.
enum class LayoutBehaviour : uint8_t {
  kNone,          ///< needs its inputs as they are
  kAny,           ///< elementwise or broadcasting: works in every order if all inputs have it
  kChannelAware,  ///< has a `channels_last` attribute (ImageAttrs) that says where the channel axis is
  kAxisRemap,     ///< names axes in its attributes; `remap_axes` rewrites them
};

struct OpDef : OpBase {
  FusionClass fusion = FusionClass::kOpaque;
  LayoutBehaviour layout = LayoutBehaviour::kNone;
  int min_inputs = 1;
  int max_inputs = 1;                    ///< -1: any number
  std::vector<std::string> input_names;  ///< for messages and dumps
  /// Type rule: result types from input types and attributes. Throws a user error that says what is wrong
  /// (the caller adds the node's name). May add constraints to the function for dimensions it has to assume
  /// equal.
  std::function<std::vector<TensorType>(const Node&, Function&)> infer;
  /// Tensor expression: results from inputs (null Tensor where an optional input is absent). The node's types
  /// are inferred.
  std::function<std::vector<Tensor>(const Node&, const std::vector<Tensor>& inputs)> compute;
  /// The results for constant inputs, where that is faster than interpreting `compute` (which it must equal);
  /// null: interpreted.
  std::function<std::vector<ConstantPtr>(const Node&)> fold;
  /// kAxisRemap: attributes for inputs whose axes were permuted: new_axis_of[old axis] (same rank in and
  /// out). Null result: cannot.
  std::function<std::shared_ptr<Attrs>(const Node&, const std::vector<int>& new_axis_of)> remap_axes;
  /// Result shares its input's bytes in the same order (reshape, squeeze, …): no kernel is needed.
  bool is_view = false;
  /// Inputs broadcast as NumPy has it along all axes but so many last ones, as matrices do; none: they do not
  /// broadcast.
  std::optional<size_t> axes_apart;
  /// Its kernel is of exactly its tensors' types; that of other ops may be of f32 where they are f16 or bf16.
  bool keeps_types = false;
  /// Reads no more elements of its first input than its result has (gather, slice): for reports of traffic.
  bool reads_part = false;
  /// The kernel reads each element of that input about once into a tile of its own, so index maps
  /// (transposition, slice) may be computed while reading it; null: no input is read so.
  std::function<bool(const Node&, size_t input)> stages_input;
  /// The kernel copies that input into a form of its own before it computes, reading each element once, so
  /// arithmetic may be done on the way; null: no input is copied so.
  std::function<bool(const Node&, size_t input)> copies_input;
  /// Floating-point operations of the node, for reports; null: counted as one an output element.
  std::function<Dim(const Node&)> flops;
  /// How the node's attributes say that it is computed, for reports: "winograd4"; null or empty: the only
  /// way.
  std::function<std::string(const Node&)> algorithm;
  /// Names of the symbols that the node gives values to while the program runs (bind_dims.h); null: it binds none.
  std::function<std::vector<std::string>(const Node&)> bound_symbols;
};

/// The declaration of the node's op.
inline const OpDef& op_def(const Node& node) {
  return static_cast<const OpDef&>(*node.op);
}

/// What the value is a view of, through all views: itself where it is none.
Value* root_of_views(Value* value);
/// Whether kernels hold the value as an immediate: a constant of one element, of a dtype that fits one.
bool is_immediate(const Value& value);

/// All ops. Built once by op_set(); pointers into it stay valid for the process.
class OpSet : public OpTable {
 public:
  void add(OpDef op);
  std::vector<std::string> names() const override;
  const OpDef* find(std::string_view name) const override;
  /// The declaration of a handle; an internal error if it is not declared.
  const OpDef& get(const OpHandle& handle) const;
  std::vector<TensorType> infer(const Node& node, Function& function) const override;
  std::vector<std::string> bound_symbols(const Node& node) const override;
  const std::vector<std::unique_ptr<OpDef>>& all() const { return ops_; }

 private:
  std::vector<std::unique_ptr<OpDef>> ops_;
  std::map<std::string_view, const OpDef*> by_name_;
};

/// The op set: calls every family's add_…_ops (host/ops/families.h).
const OpSet& op_set();

/// Infers the result types and appends the node (or inserts it before `before`); null attributes: the op's
/// defaults. Errors name `origin` and the op. Code that knows which op it adds uses a Builder
/// (host/ops/builder.h), which takes that op's attributes only.
Node* infer_and_add(Function& function, const OpBase& op, std::shared_ptr<const Attrs> attrs,
                    std::vector<Value*> inputs, std::vector<std::string> origin,
                    const Node* before = nullptr);

/// Numpy broadcasting of two shapes. Dimensions that cannot be proven equal are assumed to be, and a
/// constraint is added to `function`; provably different ones are a user error.
Shape broadcast_shapes(const Shape& a, const Shape& b, Function& function, const std::string& origin);

}  // namespace gantry
