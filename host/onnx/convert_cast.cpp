// Cast and CastLike.
#include <cmath>
#include <limits>

#include "host/onnx/converters.h"
#include "host/onnx/quantize.h"
#include "host/onnx/texts.h"
#include "host/ops/bitcast.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

Value* cast_attributes(NodeImport& n, Value* x, DType to) {
  auto attrs = std::make_shared<CastAttrs>();
  attrs->to = to;
  return n.add(op::cast, {x}, attrs);
}

constexpr double kLeastPower = 0x1p-127, kLargestPower = 0x1p127;

/// The largest power of two for what lies between it and the next one, to which some of that is nearer. More, and
/// NaN, stay.
Value* down_to_largest_power(NodeImport& n, Value* x) {
  const DType wide = x->type.dtype;
  const double next = wide == DType::kF32 ? std::numeric_limits<double>::infinity() : 2 * kLargestPower;
  Value* is_below = n.add(op::less, {x, n.scalar(wide, next)});
  return n.add(op::where, {is_below, n.add(op::minimum, {x, n.scalar(wide, kLargestPower)}), x});
}

/// To powers of two, by round_mode: a step from the nearest where that is on the wrong side. The table of Cast's
/// documentation: 0, and what is less than the least power, become that or (not saturating) NaN.
Value* cast_to_exponent(NodeImport& n, Value* x, bool saturate) {
  constexpr DType kTo = DType::kF8E8M0FNU;
  const std::string mode = n.text("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    n.fail("its round_mode is '{}', not up, down or nearest", mode);
  if (x->type.dtype != DType::kF64) x = n.cast(x, DType::kF32);
  const DType wide = x->type.dtype;
  if (saturate) {
    auto attrs = std::make_shared<ClipAttrs>();
    attrs->min = kLeastPower;
    attrs->max = kLargestPower;
    x = n.add(op::clip, {x}, attrs);
  } else if (mode == "down") {
    x = down_to_largest_power(n, x);
  }
  Value* power = n.cast(n.cast(x, kTo), wide);
  if (mode != "nearest") {
    const bool up = mode == "up";
    Value* is_off = n.add(up ? op::less : op::greater, {power, x});
    Value* next = n.add(op::multiply, {power, n.scalar(wide, up ? 2 : 0.5)});
    power = n.add(op::where, {is_off, next, power});
  }
  if (!saturate) {
    Value* too_small = n.add(op::less, {x, n.scalar(wide, kLeastPower)});
    Value* nan = n.scalar(wide, std::numeric_limits<double>::quiet_NaN());
    power = n.add(op::where, {too_small, nan, power});
  }
  return n.cast(power, kTo);
}

Value* cast_by_attributes(NodeImport& n, DType to) {
  Value* x = n.input(0);
  if (x->type.dtype == to && to == DType::kString) return n.add(op::identity, {x});
  if (to == DType::kString) return number_as_text(n, x);
  if (x->type.dtype == DType::kString) x = text_as_number(n, x, to);
  const bool saturate = n.integer("saturate", 1) != 0;
  if (x->type.dtype == to) return cast_attributes(n, x, to);
  if (to == DType::kF8E8M0FNU) return cast_to_exponent(n, x, saturate);
  if (saturate && is_small_float(to)) return saturating_cast(n, x, to);
  return cast_attributes(n, x, to);
}

void convert_cast(NodeImport& n) {
  n.set(0, cast_by_attributes(n, n.cast_target()));
}

void convert_cast_like(NodeImport& n) {
  n.set(0, cast_by_attributes(n, n.type(1).dtype));
}

// --- BitCast

/// Elements of less than a byte lie in the low bits of one, signed ones extended: as unsigned ones they are
/// just bits.
DType bits_type(DType dtype) {
  if (dtype == DType::kBool) return DType::kU8;
  if (dtype == DType::kI4) return DType::kU4;
  return dtype == DType::kI2 ? DType::kU2 : dtype;
}

void convert_bitcast(NodeImport& n) {
  Value* x = n.input(0);
  const DType from = x->type.dtype, to = n.element_type("to");
  const auto bits = [](DType dtype) { return dtype == DType::kBool ? 8 : bit_width(dtype); };
  if (bits(from) != bits(to))
    n.fail("{} has {} bits, {} has {}", name_of(from), bits(from), name_of(to), bits(to));
  x = n.cast(x, bits_type(from));
  if (x->type.dtype != bits_type(to)) {
    auto attrs = std::make_shared<CastAttrs>();
    attrs->to = bits_type(to);
    x = n.add(op::bitcast, {x}, attrs);
  }
  n.set(0, n.cast(x, to));
}

}  // namespace

void add_cast_converters(ConverterTable& table) {
  table.push_back({"Cast", 1, convert_cast});
  table.push_back({"CastLike", 15, convert_cast_like});
  table.push_back({"BitCast", 26, convert_bitcast});
}

}  // namespace gantry
