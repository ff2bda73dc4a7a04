// A graph in the making: what the families of nodes share when they add themselves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"
#include "tests/random_graphs/case.h"
#include "tests/random_graphs/choices.h"

namespace gantry::random_graphs {

/// Appends a node; a user error where its type rule refuses it. All nodes of random graphs are made here.
Node* add_op(Function& function, std::string_view op, std::shared_ptr<const Attrs> attrs,
             std::vector<Value*> inputs);

class Sketch {
 public:
  /// `symbolic`: some dimensions of parameters are symbols.
  Sketch(uint64_t seed, bool symbolic, bool special);

  Choices choices;

  // --- values

  /// Of 1 to 9 elements an axis, often 1; symbols where the graph has them.
  Dim dim(bool may_be_symbol = true);
  Shape shape(int64_t rank);
  Value* parameter(const TensorType& type);
  /// Normally distributed floats times `scale`, small integers.
  Value* constant(const TensorType& type, double scale = 1);
  Value* constant_of(const TensorType& type, const std::vector<double>& values);
  Value* scalar(DType dtype, double value) { return constant_of({dtype, {}}, {value}); }
  /// A constant, a parameter, or a value of the graph of that type.
  Value* operand(const TensorType& type, double constant_chance = 0.6);
  /// One of the graph's values for which `fits` is true, the latest ones most often; null if there is none.
  Value* pick(const std::function<bool(const Value&)>& fits);
  /// A value of that dtype and rank, made by a new parameter where there is none, or now and then anyway.
  Value* value(DType dtype, int64_t low_rank, int64_t high_rank);
  /// A float dtype, mostly f32; any number's; any.
  DType float_type();
  DType number_type();
  DType any_type();

  // --- nodes

  /// The first result. All results may be picked from then on. A user error, with nothing added, where the
  /// type rule refuses the node or a result would be empty or large.
  Value* add(std::string_view op, std::vector<Value*> inputs, std::shared_ptr<const Attrs> attrs = nullptr);
  template <typename AttrsType, typename Fill>
  Value* add(std::string_view op, std::vector<Value*> inputs, const Fill& fill) {
    auto attrs = std::make_shared<AttrsType>();
    fill(*attrs);
    return add(op, std::move(inputs), std::shared_ptr<const Attrs>(std::move(attrs)));
  }
  Value* reshape(Value* x, Shape shape);
  Value* transpose(Value* x, std::vector<int64_t> axes);

  /// What the dimension is when the graph runs.
  int64_t extent(const Dim& dim) const { return dim.evaluate(symbols_); }
  const Function& function() const { return graph_.main; }

  /// Some of the values are returned. False where the graph cannot run with what its symbols stand for.
  bool finish(Case& result);

 private:
  std::vector<Value*> returned();
  std::vector<Value*> unread() const;

  uint64_t seed_;
  bool special_;
  Graph graph_;
  std::map<std::string, int64_t> symbols_;
  std::vector<Value*> values_;
};

/// A family of ops, or a pattern that a pass looks for: adds nodes, or throws a user error, with none or some
/// of them added.
struct Family {
  const char* name;
  double weight;
  void (*add)(Sketch&);
};
std::vector<Family> elementwise_families();
std::vector<Family> window_families();
std::vector<Family> product_families();
std::vector<Family> movement_families();
std::vector<Family> reduction_families();
std::vector<Family> small_patterns();      ///< of clean-up, of views, of steps that are one op
std::vector<Family> window_patterns();     ///< of convolutions and poolings
std::vector<Family> attention_patterns();  ///< of matrix products

/// The graph of a seed.
Case random_case(uint64_t seed);

}  // namespace gantry::random_graphs
