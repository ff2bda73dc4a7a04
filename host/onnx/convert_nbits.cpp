// com.microsoft's MatMulNBits: data times a matrix whose rows' blocks have a scale and a zero point each, packed
// 8 / bits elements to a byte, the first in the lowest bits.
#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/quantize.h"
#include "host/onnx/term.h"
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
  b.count = (b.depth + b.size - 1) / b.size;
  return b;
}

/// Bytes (rows, …) as the `count` first elements of each row, of u8.
Value* unpack(NodeImport& n, Value* packed, const Blocks& b, int64_t count) {
  const int64_t in_byte = 8 / b.bits, bytes = (count + in_byte - 1) / in_byte;
  packed = n.reshape(packed, {b.rows, bytes, 1});
  Value* mask = n.scalar(DType::kU8, static_cast<double>((1 << b.bits) - 1));
  std::vector<Value*> parts;
  for (int64_t i = 0; i < in_byte; ++i) {
    Value* part = i == 0 ? packed : n.add(op::shift_right, {packed, n.scalar(DType::kU8, static_cast<double>(i * b.bits))});
    parts.push_back(b.bits == 8 ? part : n.add(op::bitwise_and, {part, mask}));
  }
  auto attrs = std::make_shared<AxisAttrs>();
  attrs->axis = 2;
  Value* all = parts.size() == 1 ? parts[0] : n.add(op::concatenate, parts, attrs);
  all = n.reshape(all, {b.rows, bytes * in_byte});
  return bytes * in_byte == count ? all : n.slice(all, 1, 0, count);
}

/// One value for each of the `depth` elements of a row from one a block: by the order of the blocks, or by g_idx.
Value* per_element(NodeImport& n, Value* values, const Blocks& b) {
  values = n.reshape(values, {b.rows, b.count});
  if (!n.has(4)) return along_axis(n, values, {b.rows, b.depth}, 1, b.size);
  return gather(Term(n, values), Term::input(n, 4), 1);
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

}  // namespace

void add_nbits_converters(ConverterTable& table) {
  table.push_back({"MatMulNBits", 1, convert_matmul_nbits, kMicrosoft});
}

}  // namespace gantry
