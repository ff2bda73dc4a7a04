// What a custom op takes and gives, as its description says it: tensors, element types, attributes.
//
//   inputs     "x: T[..., C]"  "bias: T[C]?"      "?": the node may leave it out
//   outputs    "y: T[..., floordiv(C, step)]"
//   types      "T: f32, f64"
//   attributes "step: int"  "mode: string = 'linear'"  "pads: ints?"
//
// A dimension that is a name stands for the size that an input has there; it is the same wherever the name
// stands. What else stands for a dimension is an expression of those, of attributes that are integers, and of
// numbers. "..." is any number of dimensions in front, the same wherever it stands.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"
#include "host/loops/custom_kernel.h"

namespace gantry {

struct TensorPattern {
  std::string name;
  std::string type;  ///< of elements, or a variable that stands for one; empty: nothing is said of the tensor
  bool optional = false;
  bool leading = false;  ///< "..." stands in front of the dimensions
  Shape dims;
};

struct TypeVariable {
  std::string name;
  std::vector<DType> types;
};

struct AttributeSpec {
  enum class Kind : uint8_t { kInteger, kFloat, kString };
  std::string name;
  Kind kind = Kind::kInteger;
  bool is_list = false;
  bool required = true;
  std::optional<CustomAttribute> otherwise;  ///< its value where the node has none

  /// "int", "floats", …
  std::string kind_text() const;
};

struct Signature {
  std::vector<TensorPattern> inputs, outputs;
  std::vector<TypeVariable> types;
  std::vector<AttributeSpec> attributes;
  std::optional<Dim> scratch;  ///< bytes
  Shape blocks, sizes;         ///< of a kernel for GPUs (CustomAttrs)
};

/// Each a user error that quotes the text and says what is wrong with it.
TensorPattern parse_tensor_pattern(std::string_view text);
TypeVariable parse_type_variable(std::string_view text);
AttributeSpec parse_attribute_spec(std::string_view text);

/// User errors for what no node can fit: names that stand for two things, optional inputs in front of others,
/// sizes of outputs that no input or attribute gives.
void check_signature(const Signature& signature);

/// A node's results and its kernel's scratch memory.
struct SignatureResult {
  std::vector<TensorType> outputs;  ///< of those that nothing is said of, nothing
  Dim scratch;
  Shape blocks, sizes;
};
/// The type rule. `node`: inputs (null where one is absent) and origin. Dimensions that must be equal and are
/// not known to be so become constraints of the function. User errors say what does not fit.
SignatureResult apply_signature(const Signature& signature, const Node& node,
                                const std::vector<CustomAttribute>& attributes, Function& function);

}  // namespace gantry
