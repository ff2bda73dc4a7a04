// com.microsoft's MatMulNBits, data times a matrix whose rows' blocks have a scale and a zero point each, and
// GatherBlockQuantized, rows of such a matrix. Elements are packed 8 / bits to a byte, the first in the
// lowest bits.
#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/packed_elements.h"
#include "host/onnx/quantize.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

struct Blocks {
  int64_t rows, depth, bits, size, count;  ///< `rows` of B are the result's columns; `count` blocks a row
};

Blocks read_blocks(NodeImport& n) {
  Blocks b{n.integer("N", 0), n.integer("K", 0), n.integer("bits", 4), n.integer("block_size", 0), 0};
  if (b.rows <= 0 || b.depth <= 0 || b.size <= 0) n.fail("its N, K and block_size should be positive");
  if (b.bits != 2 && b.bits != 4 && b.bits != 8)
    n.unsupported(UnsupportedKind::kAttribute, "elements of {} bits", b.bits);
  if (const int64_t layout = n.integer("weight_prepacked", 0); layout != 0)
    n.unsupported(UnsupportedKind::kAttribute, "a weight_prepacked of {}", layout);
  b.count = (b.depth + b.size - 1) / b.size;
  return b;
}

/// Bytes (rows, …) as the `count` first elements of each row, of u8.
Value* unpack(NodeImport& n, Value* packed, const Blocks& b, int64_t count) {
  const int64_t in_byte = 8 / b.bits, bytes = (count + in_byte - 1) / in_byte;
  return unpacked({n, n.reshape(packed, {b.rows, bytes})}, b.bits, count);
}

/// One value for each of the `depth` elements of a row from one a block: by the order of the blocks, or by
/// g_idx, which may be padded as the rows are.
Value* per_element(NodeImport& n, Value* values, const Blocks& b) {
  values = n.reshape(values, {b.rows, b.count});
  if (!n.has(4)) return along_axis(n, values, {b.rows, b.depth}, 1, b.size);
  Term block_of = Term::input(n, 4);
  if (block_of.rank() == 1 && block_of.dim(0) == b.count * b.size) block_of = block_of.sliced(0, 0, b.depth);
  return gather(Term(n, values), block_of, 1);
}

/// In the elements' own units, f32.
Value* zero_points(NodeImport& n, const Blocks& b) {
  Value* given = n.optional_input(3);
  if (given == nullptr) return n.scalar(DType::kF32, static_cast<double>(1 << (b.bits - 1)));
  if (given->type.dtype == DType::kU8) given = unpack(n, given, b, b.count);
  return per_element(n, n.cast(given, DType::kF32), b);
}

void convert_matmul_nbits(NodeImport& n) {
  const Blocks b = read_blocks(n);
  Value* x = n.input(0);
  // Rows are whole blocks, the last one padded.
  Value* elements = unpack(n, n.input(1), b, b.count * b.size);
  if (b.count * b.size != b.depth) elements = n.slice(elements, 1, 0, b.depth);
  Value* weight = n.add(op::subtract, {n.cast(elements, DType::kF32), zero_points(n, b)});
  weight = n.add(op::multiply, {weight, per_element(n, n.cast(n.input(2), DType::kF32), b)});
  Value* y = matrix_product(n, n.cast(x, DType::kF32), weight, false, true);
  if (n.has(5)) y = n.add(op::add, {y, n.cast(n.input(5), DType::kF32)});
  n.set(0, n.cast(y, x->type.dtype));
}

/// Inputs: data, indices, scales, zero points. Only bytes pack several elements, along the last axis, and
/// have their middle as zero point where none is given.
void convert_gather_block_quantized(NodeImport& n) {
  const Term data = Term::input(n, 0), indices = Term::input(n, 1).cast(DType::kI64);
  const int64_t along = n.axis(n.integer("gather_axis", 0), data.rank());
  const int64_t axis = n.axis(n.integer("quantize_axis", 1), data.rank());
  const int64_t bits = n.integer("bits", 4), block = n.integer("block_size", 128);
  const bool bytes = data.dtype() == DType::kU8;
  if (bytes && bits != 2 && bits != 4 && bits != 8)
    n.unsupported(UnsupportedKind::kAttribute, "elements of {} bits", bits);
  if (along == axis || (bytes && axis != data.rank() - 1))
    n.unsupported(UnsupportedKind::kAttribute, "its gather_axis {} and quantize_axis {}", along, axis);
  const auto rows = [&](size_t i) { return gather(Term::input(n, i), indices, along); };
  const int64_t at = axis < along ? axis : axis + indices.rank() - 1;  // of the result
  const Term scale = rows(2);
  Term x = rows(0);
  if (bytes) x = unpacked(x, bits, x.dim(-1) * (8 / bits));
  const auto spread = [&](const Term& parameter) { return along_axis(n, parameter, x.shape(), at, block); };
  Value* zero_point = bytes ? n.scalar(DType::kU8, static_cast<double>(1 << (bits - 1))) : nullptr;
  if (n.has(3)) zero_point = spread(bytes ? unpacked(rows(3), bits, scale.dim(-1)) : rows(3));
  n.set(0, n.cast(dequantize(n, x, spread(scale), zero_point), scale.dtype()));
}

}  // namespace

Term unpacked(const Term& bytes, int64_t bits, const Dim& count) {
  if (bits == 8) return bytes;
  if (bytes.rank() == 0) bytes.node().fail("elements of {} bits should be packed along an axis", bits);
  const Term mask = bytes.number_like(static_cast<double>((1 << bits) - 1)), wide = bytes.unsqueezed(-1);
  std::vector<Term> parts;
  for (int64_t shift = 0; shift < 8; shift += bits) {
    const Term part =
        shift == 0 ? wide : wide.apply(op::shift_right, wide.number_like(static_cast<double>(shift)));
    parts.push_back(part.apply(op::bitwise_and, mask));
  }
  Shape shape = bytes.shape();
  shape.back() = shape.back() * static_cast<int64_t>(parts.size());
  const Term all = concatenated(parts, -1).reshaped(shape);
  return shape.back() == count ? all : all.sliced(-1, 0, count);
}

void add_nbits_converters(ConverterTable& table) {
  table.push_back({"MatMulNBits", 1, convert_matmul_nbits, kMicrosoft});
  table.push_back({"GatherBlockQuantized", 1, convert_gather_block_quantized, kMicrosoft});
}

}  // namespace gantry
