// Tensor expressions with floats as intervals (interval.h): results, and between what they lie.
#pragma once

#include <map>
#include <vector>

#include "host/graph/graph.h"
#include "host/tensor/tensor.h"
#include "tests/random_graphs/interval.h"

namespace gantry::random_graphs {

/// An element of a tensor, or the value of an expression.
struct Element {
  Interval number;    ///< of floats
  int64_t whole = 0;  ///< of integers and bools
  bool known = true;  ///< of integers and bools: they do not depend on roundings
  /// Follows from constants and positions alone, which kernels compute as the interpreter does: no roundings are
  /// added, and the value is rounded as the dtype is.
  bool fixed = false;
};

struct Elements {
  TensorType type;
  std::vector<Element> of;
};

/// Exactly the elements of a constant.
Elements exactly(const ConstantData& data);

struct Enclosed {
  std::vector<Elements> results;
  /// The largest sum of absolute terms of any sum on the way to the results.
  double largest_sum = 0;
};

/// Results of tensor expressions with these placeholders; empty where an operation is a loop nest written by hand.
/// Every extent must be constant.
Enclosed enclose(const std::vector<Tensor>& outputs, const std::map<const OperationNode*, const Elements*>& inputs);

}  // namespace gantry::random_graphs
