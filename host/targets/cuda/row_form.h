// Kernels that reduce rows: softmax, normalisations, reductions along axes, with what is elementwise around them.
#pragma once

#include <optional>
#include <vector>

#include "host/tensor/schedule.h"

namespace gantry::cuda {

/// Every element of the output belongs to one slice; every reduction has one result a slice.
struct RowForm {
  /// An axis of the output: of its elements the outer part (axis / split) says the slice.
  struct SliceAxis {
    size_t output_axis;
    int64_t split = 1;
  };
  std::vector<Operation> reductions;  ///< producers first; all with the same data axes
  std::vector<SliceAxis> slices;      ///< in the order of the output's axes
  std::vector<size_t> rows;           ///< the output's other axes
  bool output_reduces = false;        ///< the output is the last reduction itself
  bool row_contiguous = false;        ///< neighbours of the innermost reduced axis are neighbours in memory
  bool slice_contiguous = false;      ///< neighbours of the innermost slice axis are
  std::optional<int64_t> slice_count, row_length;  ///< where constant
  /// Read by a reduction and, at its own position, by the output: worth keeping on the chip.
  Tensor kept;
};

/// The form of a kernel with one output, if it has it.
std::optional<RowForm> find_rows(const std::vector<Tensor>& outputs);

/// A reduction in two steps: `partial` (part, data axes…) over neighbouring elements, `total` over the parts.
/// The former has the role kPartialSum, the latter that of `op`. `guarded`: partial results of a block beyond
/// the tensor read nothing.
struct SplitReduction {
  Tensor partial, total;
};
SplitReduction split_reduction(const Operation& op, const Expr& parts, bool guarded = false);

}  // namespace gantry::cuda
