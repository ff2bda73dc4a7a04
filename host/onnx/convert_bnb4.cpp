// com.microsoft's MatMulBnb4: data times a matrix of 4 bits an element, codes of numbers in [-1, 1], of which
// every block has a largest magnitude. The transposed matrix (N, K) is packed row by row as bitsandbytes
// does, the first element of a byte in its upper bits; blocks go on from one row to the next.
#include <array>

#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/quantize.h"
#include "host/onnx/term.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

using Codes = std::array<float, 16>;

/// bitsandbytes' FP4, twelfths but for its smallest number, and the same negative.
constexpr Codes kFp4{0,    1 / 192.F,  2 / 3.F,  1,  1 / 3.F,  0.5F,  1 / 6.F,  0.25F,
                     -0.F, -1 / 192.F, -2 / 3.F, -1, -1 / 3.F, -0.5F, -1 / 6.F, -0.25F};
/// Quantiles of the normal distribution.
constexpr Codes kNf4{-1.0F,
                     -0.6961928009986877F,
                     -0.5250730514526367F,
                     -0.39491748809814453F,
                     -0.28444138169288635F,
                     -0.18477343022823334F,
                     -0.09105003625154495F,
                     0,
                     0.07958029955625534F,
                     0.16093020141124725F,
                     0.24611230194568634F,
                     0.33791524171829224F,
                     0.44070982933044434F,
                     0.5626170039176941F,
                     0.7229568362236023F,
                     1.0F};

/// Elements, so that their number stays one that i64 has.
constexpr int64_t kMost = int64_t{1} << 48;

/// The first `count` elements of bytes, of i32.
Term unpacked(const Term& bytes, int64_t count) {
  const Term wide = bytes.unsqueezed(-1);
  const Term upper = wide.apply(op::shift_right, wide.number_like(4));
  const Term lower = wide.apply(op::bitwise_and, wide.number_like(15));
  const int64_t all = count + count % 2;
  const Term elements = concatenated({upper, lower}, -1).reshaped({all}).cast(DType::kI32);
  return all == count ? elements : elements.sliced(0, 0, count);
}

/// The numbers that codes stand for, of which 16 are given.
Term looked_up(NodeImport& n, const Codes& codes, const Term& elements) {
  const Term table(n, n.constant_value(make_constant({DType::kF32, {16}}, codes.data()), "codes"));
  return gather(table, elements, 0);
}

/// Inputs: data, packed elements, a magnitude a block.
void convert_matmul_bnb4(NodeImport& n) {
  const int64_t depth = n.integer("K", 0), columns = n.integer("N", 0), block = n.integer("block_size", 0);
  const int64_t kind = n.integer("quant_type", -1);
  if (depth <= 0 || columns <= 0 || block <= 0) n.fail("its N, K and block_size should be positive");
  if (depth > kMost / columns || block > kMost) n.fail("its N {} by K {} are more than a tensor has", columns, depth);
  if (kind != 0 && kind != 1) n.fail("its quant_type is {}, neither 0 (FP4) nor 1 (NF4)", kind);
  if (n.integer("transB", 1) != 1) n.unsupported(UnsupportedKind::kAttribute, "a transB of 0");
  const int64_t count = depth * columns, blocks = (count + block - 1) / block;
  const Term bytes(n, n.reshape(n.input(1), {(count + 1) / 2}));
  const Term magnitude(
      n, along_axis(n, n.reshape(n.cast(n.input(2), DType::kF32), {blocks}), {count}, 0, block));
  const Term weight = looked_up(n, kind == 0 ? kFp4 : kNf4, unpacked(bytes, count)) * magnitude;
  Value* x = n.input(0);
  Value* y = matrix_product(n, n.cast(x, DType::kF32), weight.reshaped({columns, depth}), false, true);
  n.set(0, n.cast(y, x->type.dtype));
}

}  // namespace

void add_bnb4_converters(ConverterTable& table) {
  table.push_back({"MatMulBnb4", 1, convert_matmul_bnb4, kMicrosoft});
}

}  // namespace gantry
