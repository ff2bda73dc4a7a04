// What goes into the bodies of control flow and comes out of them: tensors, sequences and optionals as the
// tensors that they are made of.
#pragma once

#include <span>
#include <vector>

#include "host/onnx/importer.h"
#include "host/onnx/late_sequence.h"

namespace gantry {

/// As which tensors a value is carried.
struct Carried {
  enum class Kind : uint8_t {
    kTensor,    ///< itself
    kSequence,  ///< each of its tensors; their number is known
    kLate,      ///< the two tensors of a LateSequence
    kAbsent,    ///< none: an optional that is known to have no value
  };
  Kind kind = Kind::kTensor;
  bool optional = false;  ///< of kTensor and kLate: in front a bool that says whether there is a value
  std::vector<ElementKind> elements;  ///< a tensor of each; of kLate one entry for all
  bool operator==(const Carried&) const = default;

  /// How many tensors.
  size_t count() const;
};

Carried carried_as(NodeImport& n, const Binding& binding);
/// As kLate a sequence whose tensors data may come to decide on; others as they are. Unsupported where
/// nothing says of which rank its tensors are: it is empty.
Carried as_late(NodeImport& n, Carried carried);
/// As what values of both kinds can be carried. Of tensors it is not known whether they can: their types are
/// the caller's to compare. Unsupported: a tensor and a sequence, sequences of unlike element types.
Carried joined(NodeImport& n, const Carried& a, const Carried& b);
/// The tensors of a value that may be carried so (joined of its own kind and others).
std::vector<Value*> carry(NodeImport& n, const Binding& binding, const Carried& as);
/// What tensors stand for that were carried so.
Binding carried_back(const Carried& as, std::span<Value* const> tensors);
/// The same of many, one behind the other.
std::vector<Binding> carried_back(const std::vector<Carried>& as, std::span<Value* const> tensors);

}  // namespace gantry
