// How sequences and optionals that only the running model knows are outputs of a module, whose outputs are
// tensors.
//
// A sequence y is y[], the elements of all its tensors in row-major order, one tensor behind the other, and
// y[].dims, i64, of which each row is one tensor: its rank, then its dimensions, and 1 behind the last. An
// optional y is y?, a bool that says whether it has a value, in front of its value; where there is none that
// is of any shape.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

std::string late_elements_name(const std::string& sequence);  ///< "y[]"
std::string late_dims_name(const std::string& sequence);      ///< "y[].dims"
std::string late_presence_name(const std::string& optional);  ///< "y?"

/// The tensors of a sequence, which alias the elements' bytes. A user error where the rows do not describe
/// the elements: what has run may have been anywhere.
std::vector<ConstantPtr> unpack_sequence(const ConstantPtr& elements, const ConstantPtr& dims);

struct NamedConstant {
  std::string name;
  ConstantPtr tensor;
};
/// A module's outputs with each late sequence's tensors as y[0], y[1], …, and none of optionals without a
/// value.
struct UnpackedOutputs {
  std::vector<NamedConstant> tensors;
  std::set<std::string> sequences;  ///< that were late and are there
  std::set<std::string> absent;     ///< optionals that were late and have no value
};
/// In the module's order. `tensors`: outputs of the model that are tensors, which they stay whatever they are
/// called. A user error where the others are not as described above.
UnpackedOutputs unpack_outputs(const std::vector<NamedConstant>& outputs,
                               const std::set<std::string>& tensors = {});

}  // namespace gantry
