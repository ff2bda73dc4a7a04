// Dimensions that the running model computes: symbols for the elements of small integer tensors.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "host/graph/graph.h"

namespace gantry {

class Importer;
enum class Elements : uint8_t;

/// Gives elements of data symbols, each once.
class DataDims {
 public:
  explicit DataDims(Importer& importer) : importer_(importer) {}

  /// The elements of an integer tensor of a known number of elements, in row-major order. Those that are known stay
  /// what they are: a shape put together from constants, dimensions and data has symbols for the data alone. `node`:
  /// who asks, for errors when the model runs.
  Shape of(Value* value, Elements elements, const std::string& node);
  /// New symbols for the dimensions that are neither constants nor symbols.
  Shape named(Shape dims, const std::string& hint, const std::string& node);
  /// The dimension, under a name of its own where it is a long expression: those of a layer are made of those
  /// of the layer before, and double in each.
  Dim brief(const Dim& dim, const std::string& node);
  /// Whether data decide on the sign of the dimension too.
  bool may_be_negative(const Dim& dim) const;
  /// max(dim, 0): one of the two symbols of an element, where the dimension is that element or its opposite.
  Dim positive_part(const Dim& dim) const;

 private:
  /// The elements, if a look at what makes the value tells them.
  bool look_through(Value* value, Elements elements, const std::string& node, Shape& dims);
  /// The elements of a cast from i64 to i32, which is taken to hold dimensions of tensors; of other data as
  /// cast.
  Shape narrowed(Value* value, Elements elements, const std::string& node);
  Shape bind(Value* value, Elements elements, const std::string& node);
  std::string symbol_of(const std::string& name, size_t element, size_t count);

  Importer& importer_;
  /// Of values that live as long as the importer: results, parameters, and constants that something reads.
  std::map<std::pair<const Value*, Elements>, Shape> known_;
  std::map<std::string, Dim> negatives_;  ///< symbols of what is below 0, with those of what is above
};

}  // namespace gantry
