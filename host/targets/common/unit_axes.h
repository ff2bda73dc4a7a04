// Axes of one element, which hide from schedule rules that what lies beside them is contiguous.
#pragma once

#include <vector>

#include "host/tensor/tensor.h"

namespace gantry {

/// A kernel as tensor expressions.
struct KernelTensors {
  std::vector<Tensor> outputs;
  std::vector<Tensor> inputs;  ///< placeholders, in the order of the kernel's arguments
};

/// The same kernel with the constant axes of one element left out of the shapes of all tensors, inputs and
/// outputs too (elements lie where they did), and out of reductions: (1, C, L, 1) becomes (1, C, L). Axes
/// that nothing longer precedes stay, so that rules find images, channels and rows where they expect them. A
/// kernel with products, whose rules find axes by their places, or with a loop nest written by hand is
/// returned as it is.
KernelTensors without_unit_axes(const KernelTensors& kernel);

}  // namespace gantry
