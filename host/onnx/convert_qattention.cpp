// com.microsoft's QAttention: self-attention whose projections are one product of quantised operands.
#include "host/onnx/converters.h"
#include "host/onnx/projected_attention.h"
#include "host/onnx/quantized_product.h"

namespace gantry {
namespace {

/// Inputs: data, weight, bias, their scales, mask, their zero points, past. Bias, scales and past may be of
/// f16: the projections are rounded to it once, the attention is of it.
void convert_qattention(NodeImport& n) {
  const Quantized x{n.input(0), n.input(3), n.optional_input(6)}, w{n.input(1), n.input(4), n.optional_input(7)};
  const Term bias = Term::input(n, 2);
  const Term projected = Term(n, scaled_product(n, x, w)) + bias.cast(DType::kF32);
  convert_projected_attention(n, {projected.cast(bias.dtype()), 5, 8, {}, {}, {}});
}

}  // namespace

void add_qattention_converters(ConverterTable& table) {
  table.push_back({"QAttention", 1, convert_qattention, kMicrosoft});
}

}  // namespace gantry
