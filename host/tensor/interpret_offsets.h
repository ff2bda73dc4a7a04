// Where an operation reads a tensor, as tables. Private to the interpreter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host/tensor/interpret_block.h"
#include "host/tensor/simplify.h"
#include "host/tensor/tensor.h"

namespace gantry::interpreter {

/// The index into the source as a constant and a table an axis of the result.
struct Offsets {
  int64_t base = 0;
  std::vector<std::vector<int64_t>> of_axis;
};

/// The operation's axes as ranges.
RangeMap ranges_of(const OperationNode& op, const std::vector<int64_t>& shape);

/// Offsets of a read at every element of the result, where each axis adds its own part to the index; nothing where
/// axes meet in it, or it is out of bounds anywhere.
std::optional<Offsets> separate(const OperationNode& op, const ReadNode& read, const RangeMap& ranges,
                                const Array& source, const std::vector<int64_t>& shape);

}  // namespace gantry::interpreter
