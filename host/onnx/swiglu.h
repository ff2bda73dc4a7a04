// SwiGLU as com.microsoft's ops have it.
#pragma once

#include <optional>

#include "host/onnx/term.h"

namespace gantry {

struct SwigluLimits {
  std::optional<double> limit;    ///< of the gate from above, and of what it is multiplied with on both sides
  std::optional<DType> rounding;  ///< what the gate's activation is rounded to
};

/// gate * sigmoid(activation_alpha * gate) * (linear + activation_beta), by the node's attributes.
inline Term swiglu(Term gate, Term linear, const SwigluLimits& limits) {
  NodeImport& n = gate.node();
  if (limits.limit) {
    gate = minimum(gate, *limits.limit);
    linear = maximum(minimum(linear, *limits.limit), -*limits.limit);
  }
  Term open = gate * sigmoid(gate * n.number("activation_alpha", 1));
  if (limits.rounding) open = open.cast(*limits.rounding).cast(linear.dtype());
  return open * (linear + n.number("activation_beta", 0));
}

}  // namespace gantry
