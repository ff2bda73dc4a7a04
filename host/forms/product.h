// What products of weights multiply and add up: a table, a row a kind of arithmetic. A form takes the row as
// a parameter: which rows it has, what it predicts of each and how it packs weights for it is the form's, all
// else is here.
//
// An operand of other bits is another row, the instruction that multiplies it where none does yet, and the
// forms that take it (docs/compiler.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "host/graph/decision.h"
#include "host/graph/graph.h"
#include "host/graph/type.h"
#include "host/machine/target.h"
#include "host/machine/tile_unit.h"
#include "host/passes/weight_packing.h"

namespace gantry::forms {

struct ProductType {
  std::string_view name;
  /// By which knob a decision says it, and by what value; empty: by none.
  std::string_view knob = {};
  int64_t value = 0;
  DType data = DType::kF32;    ///< as they are multiplied
  DType weight = DType::kF32;  ///< as it is kept: its elements, the words that they share, or its parts
  DType sum = DType::kF32;     ///< of partial sums
  int parts = 1;               ///< of a weight, which is their sum
  bool on_tiles = false;  ///< a tile unit multiplies them (host/ops/tiles.h), of elements as the weight's
  /// By how much a product misses that of f32, largest difference by largest product.
  double element_error = 0;
  /// What a partial sum of fewer bits than f32 loses by an addition, by itself. It is of `chain` terms at
  /// most, and at most `chains` of those are added up likewise.
  double sum_error = 0;
  int64_t chain = 0, chains = 0;
  /// By how much a network's result moves for each such product, as measured; 0: it was not.
  double in_network = 0;
};

/// The first is that of the data as they are, f32 or f64.
std::span<const ProductType> product_types();
/// By its name; an internal error if there is none.
const ProductType& product_type(std::string_view name);
/// Of multiply-adds, as the knobs of a decision say; of the data as they are where they say none.
const ProductType& decided_product(const Decision& decision);
/// Whether a row has integers of these types, which tile units multiply as they are.
bool multiplies_as_they_are(DType data, DType weight);
/// On a tile unit, with weights in so many parts; an internal error if there is none.
const ProductType& tile_unit_product(TileUnit unit, int64_t parts);
/// Of GPUs' matrix products.
const ProductType& gpu_product(Precision precision);

/// Whether a knob says what products are of, rather than how they are computed.
bool says_product(std::string_view knob);
/// Whether that value of the knob is a row.
bool is_product(std::string_view knob, int64_t value);
/// Says so by the decision's knob.
void set_product(Decision& decision, const ProductType& type);
/// Packed weights of floats, rounded as the decision's product keeps them.
Value* product_weight(const Decision& decision, Value* packed, WeightPacker& packer);

/// Whether the node, which has packed weights, multiplies data of another type by f16: by product_weight() of such a
/// decision.
bool has_half_weights(const Node& node);

/// Expected of sums of `depth` products beyond what sums in f32 are off by, largest difference by largest
/// result.
///
/// Roundings of operands do not depend on each other, so that a sum of any depth is off by as large a share
/// of it as each product is. Of n partial sums in a chain the k-th has the size of the square root of k terms
/// and loses a share e of that: the squares add up to e^2 n^2 / 2 of a term's, a share of e sqrt(n / 2) of
/// the whole; chains of chains likewise.
double error_of(const ProductType& type, int64_t depth);

}  // namespace gantry::forms
