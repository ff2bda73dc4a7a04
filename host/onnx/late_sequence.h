// Sequences whose tensors only the running model knows (LateSequence, in importer.h): ops on the one tensor
// that their elements are and on the table of their dimensions. Each op makes new tensors of both.
#pragma once

#include <optional>

#include "host/onnx/importer.h"
#include "host/onnx/term.h"

namespace gantry {

/// What is known of the tensors of a sequence.
struct ElementKind {
  DType dtype = DType::kF32;
  int rank = 0;               ///< the largest
  bool ranks_differ = false;  ///< some may have less
  bool operator==(const ElementKind&) const = default;
};

/// What tensors of both kinds are; unsupported where their element types differ.
ElementKind joined(NodeImport& n, const ElementKind& a, const ElementKind& b);
ElementKind kind_of(const LateSequence& sequence);
/// Of a sequence's binding; none where it is known to be empty.
std::optional<ElementKind> kind_of_elements(NodeImport& n, const Binding& sequence);
/// How many tensors it has.
Dim length_of(const LateSequence& sequence);

/// A tensor without elements, but one of rank 0, which has one: in place of values that are not there.
Term nothing(NodeImport& n, DType dtype, int rank);
/// Any sequence as a late one of tensors of that kind, which its own are too.
LateSequence late_sequence(NodeImport& n, const Binding& sequence, const ElementKind& kind);

/// The sequence that two inputs of the module are. What they say of each other is data from outside: the run
/// ends with an error that names n where a row is not of a tensor of the declared dimensions, as many as each
/// tensor has (one without a value may be any), or where the rows do not describe exactly the elements.
LateSequence given_sequence(NodeImport& n, Value* elements, Value* dims,
                            const std::vector<std::optional<Dim>>& declared);

/// A position (i64, one element) among `count`, of which negative ones count from the end, counted from the
/// front: i64 of rank 0, within the sequence whatever the data say. One outside is a user error if that is
/// known, else it ends the run with an error that names the node and the position. `behind`: one behind the
/// last is inside too.
Term checked_position(NodeImport& n, const Term& position, const Dim& count, bool behind = false);

/// With x in front of what is at that position; without one, behind the last.
LateSequence inserted(NodeImport& n, const LateSequence& sequence, const Term& x,
                      const std::optional<Term>& position);
/// Without the tensor at that position; without one, without the last.
LateSequence erased(NodeImport& n, const LateSequence& sequence, const std::optional<Term>& position);
/// Where ranks differ it has that of `rank`, or the run ends with an error; unsupported without one.
Term element_at(NodeImport& n, const LateSequence& sequence, const Term& position, std::optional<int> rank);
/// All tensors along an axis (of the result; negative ones count from the end), or along a new one. The run
/// ends with an error where there are none, or their other dimensions differ.
Term concatenated(NodeImport& n, const LateSequence& sequence, int64_t axis, bool is_new,
                  std::optional<int> rank);
/// Parts of x along an axis, of these lengths (i64, a vector that is as long as there are parts), which
/// together make its extent. `each`: what every length is, where that is known. Without that axis where
/// `squeezed`: then all lengths are 1.
LateSequence parts_of(NodeImport& n, const Term& x, int64_t axis, const Term& lengths,
                      std::optional<Dim> each, bool squeezed);

}  // namespace gantry
