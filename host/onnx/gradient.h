// Reverse-mode differentiation of the graph that an import builds: a rule an op, which gives the product of a
// vector with the op's Jacobian.
//
// An adjoint of a value is the derivative of the sum of what is differentiated with respect to each of the
// value's elements; it has the value's type. Where a function has no derivative (|x| at 0, the largest of
// equal elements) an adjoint is one of its subgradients: equal shares for extrema of several elements, but
// all of it for the first of those in a pooling's window; for functions of one element that of one side of
// it, as each rule says, or 0.
#pragma once

#include <optional>
#include <vector>

#include "host/onnx/node_import.h"
#include "host/onnx/term.h"

namespace gantry {

/// A node on the way back: its operands, the adjoints of its results, and where those of its operands go.
class Pullback {
 public:
  Pullback(NodeImport& n, const Node& node, std::vector<Value*> adjoints)
      : n_(n), node_(node), adjoints_(std::move(adjoints)), given_(node.inputs.size()) {}

  NodeImport& import() const { return n_; }
  const Node& node() const { return node_; }
  template <typename AttrsType>
  const AttrsType& attrs() const {
    return node_.attrs_as<AttrsType>();
  }
  size_t input_count() const { return node_.inputs.size(); }
  Term input(size_t i) const { return {n_, node_.inputs.at(i)}; }
  bool has_input(size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != nullptr; }
  Term result(int i = 0) const { return {n_, node_.result(i)}; }
  /// Of the first result.
  Term adjoint() const;
  /// Whether anything is differentiated with respect to the input or what it is made of.
  bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }
  void set_wanted(std::vector<bool> wanted) { wanted_ = std::move(wanted); }
  /// Adds to the input's adjoint. `share` has the input's shape, or one that the input is broadcast to: then
  /// it is summed over what is broadcast.
  void give(size_t i, const Term& share);
  /// For ops that others express: `same` is the node's first result, computed from its inputs by ops with
  /// rules.
  void give_through(const Term& same);
  /// Refuses the node: `why` in a few words.
  [[noreturn]] void refuse(const std::string& why) const;
  /// What rules gave, by input; null: nothing.
  const std::vector<Value*>& given() const { return given_; }

 private:
  NodeImport& n_;
  const Node& node_;
  std::vector<Value*> adjoints_;  ///< of the results; null: nothing reads it
  std::vector<bool> wanted_;
  std::vector<Value*> given_;
};

using GradientRule = void (*)(Pullback&);
struct GradientEntry {
  const OpHandle* op;
  GradientRule rule;
};
using GradientTable = std::vector<GradientEntry>;

void add_unary_gradients(GradientTable& table);
void add_activation_gradients(GradientTable& table);
void add_broadcast_gradients(GradientTable& table);
void add_movement_gradients(GradientTable& table);
void add_index_gradients(GradientTable& table);
void add_reduce_gradients(GradientTable& table);
void add_product_gradients(GradientTable& table);
void add_conv_gradients(GradientTable& table);
void add_pool_gradients(GradientTable& table);
void add_norm_gradients(GradientTable& table);

/// The adjoints of `xs` for the adjoint `seed` of `y` (of y's type), added to the function that y is computed
/// in. Nothing flows through the values of `xs` and `fixed` to what they are computed of. Null where y does
/// not depend on a value. Throws Unsupported for an op on the way that has no rule.
std::vector<Value*> adjoints_of(NodeImport& n, const Term& y, const Term& seed, const std::vector<Value*>& xs,
                                const std::vector<Value*>& fixed);

/// The sum of x over the axes along which `shape` was broadcast to its shape, in that shape.
Term summed_to(const Term& x, const Shape& shape);
/// That value of every element of x's type.
Term constant_like(const Term& x, double value);
/// A product of matrices, the last two axes of operands of rank 2 or more, each transposed before where asked.
Term product(const Term& a, const Term& b, bool transpose_a, bool transpose_b);
/// The transpose of gather along `axis`: zeros of that extent to which element i of x along the axis is added
/// at positions[i] (a vector of i64); negative ones count from the end.
Term spread(const Term& x, const Term& positions, int64_t axis, const Dim& extent);

}  // namespace gantry
