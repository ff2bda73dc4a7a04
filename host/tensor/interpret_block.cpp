#include "host/tensor/interpret_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "host/support/error.h"
#include "host/tensor/element.h"
#include "host/tensor/fold.h"

namespace gantry::interpreter {
namespace {

using Form = Block::Form;

template <typename F>
Block map_floats(Block a, F f) {
  if (a.form == Form::kUniformFloat) {
    a.value = f(a.value);
  } else {
    for (double& x : a.floats) x = f(x);
  }
  return a;
}

template <typename T, typename F>
void zip(std::vector<T>& out, const std::vector<T>& b, F f) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = f(out[i], b[i]);
}

/// -x, which wraps.
int64_t negated(int64_t x) {
  return static_cast<int64_t>(-static_cast<uint64_t>(x));
}

/// Integer division is slow; most indices fit 32 bits.
template <bool kRemainder>
void divide_floor(std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t x = a[i], y = b[i];
    if (y == 0) continue;  // a lane that does not count, or undefined anyway
    if (y == -1) {         // the processor traps where the quotient does not fit
      a[i] = kRemainder ? 0 : negated(x);
    } else if (x >= 0 && y > 0 && ((x | y) >> 32) == 0) {
      auto p = static_cast<uint32_t>(x), q = static_cast<uint32_t>(y);
      a[i] = kRemainder ? p % q : p / q;
    } else {
      a[i] = kRemainder ? floor_modulo(x, y) : floor_divide(x, y);
    }
  }
}

void binary_ints(BinaryOp op, DType dtype, std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  bool index = dtype == DType::kI64;
  auto wrapping = [](auto f) {
    return [f](int64_t x, int64_t y) {
      return static_cast<int64_t>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
    };
  };
  switch (op) {
    case BinaryOp::kAdd:
      return zip(a, b, wrapping([](uint64_t x, uint64_t y) { return x + y; }));
    case BinaryOp::kSub:
      return zip(a, b, wrapping([](uint64_t x, uint64_t y) { return x - y; }));
    case BinaryOp::kMul:
      return zip(a, b, wrapping([](uint64_t x, uint64_t y) { return x * y; }));
    case BinaryOp::kAnd:
      return zip(a, b, [](int64_t x, int64_t y) { return x & y; });
    case BinaryOp::kOr:
      return zip(a, b, [](int64_t x, int64_t y) { return x | y; });
    case BinaryOp::kEq:
      return zip(a, b, [](int64_t x, int64_t y) -> int64_t { return x == y; });
    case BinaryOp::kNe:
      return zip(a, b, [](int64_t x, int64_t y) -> int64_t { return x != y; });
    case BinaryOp::kLt:
      if (index) return zip(a, b, [](int64_t x, int64_t y) -> int64_t { return x < y; });
      break;
    case BinaryOp::kLe:
      if (index) return zip(a, b, [](int64_t x, int64_t y) -> int64_t { return x <= y; });
      break;
    case BinaryOp::kGe:
      if (index) return zip(a, b, [](int64_t x, int64_t y) -> int64_t { return x >= y; });
      break;
    case BinaryOp::kMin:
      if (index) return zip(a, b, [](int64_t x, int64_t y) { return std::min(x, y); });
      break;
    case BinaryOp::kMax:
      if (index) return zip(a, b, [](int64_t x, int64_t y) { return std::max(x, y); });
      break;
    case BinaryOp::kFloorDiv:
      if (index) return divide_floor<false>(a, b);
      break;
    case BinaryOp::kMod:
      if (index) return divide_floor<true>(a, b);
      break;
    default:
      break;
  }
  zip(a, b, [&](int64_t x, int64_t y) { return fold_integers(op, dtype, x, y).value_or(0); });
}

Block binary_floats(BinaryOp op, DType dtype, Block a, Block b, size_t count, bool nan_passes) {
  if (is_comparison(op)) {
    if (a.is_uniform() && b.is_uniform()) return Block::ramp(*compare_floats(op, a.value, b.value), 0);
    spread(a, count);
    spread(b, count);
    Block out;
    out.form = Form::kInts;
    out.ints.resize(count);
    for (size_t i = 0; i < count; ++i) out.ints[i] = *compare_floats(op, a.floats[i], b.floats[i]);
    return out;
  }
  if (a.is_uniform() && b.is_uniform())
    return Block::uniform(fold_floats(op, dtype, a.value, b.value, nan_passes).value());
  spread(a, count);
  spread(b, count);
  std::vector<double>&x = a.floats, &y = b.floats;
  switch (op) {
    case BinaryOp::kAdd:
      zip(x, y, [](double p, double q) { return p + q; });
      break;
    case BinaryOp::kSub:
      zip(x, y, [](double p, double q) { return p - q; });
      break;
    case BinaryOp::kMul:
      zip(x, y, [](double p, double q) { return p * q; });
      break;
    case BinaryOp::kDiv:
      zip(x, y, [](double p, double q) { return p / q; });
      break;
    default:
      zip(x, y, [&](double p, double q) { return fold_floats(op, dtype, p, q, nan_passes).value_or(0); });
      return a;
  }
  round_to(a, dtype);
  return a;
}

/// Operators that keep integers evenly spaced; false if these do not.
bool binary_ramps(BinaryOp op, const Block& a, const Block& b, size_t count, Block& out) {
  if (a.form != Form::kRamp || b.form != Form::kRamp) return false;
  auto n = static_cast<int64_t>(count) - 1;
  int64_t last_a = a.base + n * a.stride, last_b = b.base + n * b.stride;
  switch (op) {
    case BinaryOp::kAdd:
      out = Block::ramp(a.base + b.base, a.stride + b.stride);
      return true;
    case BinaryOp::kSub:
      out = Block::ramp(a.base - b.base, a.stride - b.stride);
      return true;
    case BinaryOp::kMul:
      if (b.stride == 0)
        out = Block::ramp(a.base * b.base, a.stride * b.base);
      else if (a.stride == 0)
        out = Block::ramp(a.base * b.base, a.base * b.stride);
      else
        return false;
      return true;
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod: {
      if (b.stride != 0 || b.base <= 0) return false;
      int64_t quotient = floor_divide(a.base, b.base);
      if (quotient != floor_divide(last_a, b.base)) return false;
      out = op == BinaryOp::kFloorDiv ? Block::ramp(quotient, 0)
                                      : Block::ramp(a.base - quotient * b.base, a.stride);
      return true;
    }
    case BinaryOp::kLt:
    case BinaryOp::kLe:
    case BinaryOp::kGt:
    case BinaryOp::kGe: {
      bool first = *fold_integers(op, DType::kI64, a.base, b.base),
           last = *fold_integers(op, DType::kI64, last_a, last_b);
      if (first != last) return false;  // the difference is monotonic: equal ends, equal between
      out = Block::ramp(first, 0);
      return true;
    }
    case BinaryOp::kMin:
    case BinaryOp::kMax: {
      bool a_wins = a.base <= b.base && last_a <= last_b, b_wins = b.base <= a.base && last_b <= last_a;
      if (!a_wins && !b_wins) return false;
      out = a_wins == (op == BinaryOp::kMin) ? a : b;
      return true;
    }
    default:
      return false;
  }
}

template <typename T>
Block gather_as(const Array& array, Block& index, size_t count, Mask mask, const std::string& what) {
  const auto* data = reinterpret_cast<const T*>(array.bytes);
  constexpr bool kFloat = std::is_floating_point_v<T>;
  auto check = [&](int64_t i) {
    internal_check(i >= 0 && i < array.count, "{} is read at element {}, it has {}", what, i, array.count);
  };
  auto n = static_cast<int64_t>(count) - 1;
  if (index.form == Form::kRamp && !mask) {
    check(index.base);
    check(index.base + n * index.stride);
    if (index.stride == 0) {
      if constexpr (kFloat)
        return Block::uniform(static_cast<double>(data[index.base]));
      else
        return Block::ramp(static_cast<int64_t>(data[index.base]), 0);
    }
  } else {
    spread(index, count);
  }
  Block out;
  out.form = kFloat ? Form::kFloats : Form::kInts;
  auto fill = [&](auto& values) {
    using V = typename std::decay_t<decltype(values)>::value_type;
    values.resize(count);
    if (index.form == Form::kRamp) {
      const T* from = data + index.base;
      for (size_t i = 0; i < count; ++i)
        values[i] = static_cast<V>(from[static_cast<int64_t>(i) * index.stride]);
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      if (mask && !(*mask)[i]) continue;
      check(index.ints[i]);
      values[i] = static_cast<V>(data[index.ints[i]]);
    }
  };
  if constexpr (kFloat)
    fill(out.floats);
  else
    fill(out.ints);
  return out;
}

/// Floats of 16 bits and less, one element at a time.
Block gather_narrow(const Array& array, Block& index, size_t count, Mask mask, const std::string& what) {
  spread(index, count);
  Block out;
  out.form = Form::kFloats;
  out.floats.resize(count);
  const int64_t width = byte_width(array.dtype);
  for (size_t i = 0; i < count; ++i) {
    if (mask && !(*mask)[i]) continue;
    int64_t at = index.ints[i];
    internal_check(at >= 0 && at < array.count, "{} is read at element {}, it has {}", what, at, array.count);
    out.floats[i] = read_float(array.dtype, array.bytes + width * at);
  }
  return out;
}

template <typename T, typename V>
void scatter_as(std::byte* at, const std::vector<V>& values, size_t count) {
  auto* out = reinterpret_cast<T*>(at);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<T>(values[i]);
}

}  // namespace

void spread(Block& b, size_t count) {
  if (b.form == Form::kUniformFloat) {
    b.form = Form::kFloats;
    b.floats.assign(count, b.value);
  } else if (b.form == Form::kRamp) {
    b.form = Form::kInts;
    b.ints.resize(count);
    for (size_t i = 0; i < count; ++i) b.ints[i] = b.base + static_cast<int64_t>(i) * b.stride;
  }
}

void round_to(Block& b, DType dtype) {
  if (b.form == Form::kUniformFloat) {
    b.value = round_float(dtype, b.value);
  } else if (b.form == Form::kFloats && dtype == DType::kF32) {
    for (double& x : b.floats) x = static_cast<double>(static_cast<float>(x));
  } else if (b.form == Form::kFloats && dtype != DType::kF64) {
    for (double& x : b.floats) x = round_float(dtype, x);
  } else if (b.form == Form::kInts && dtype != DType::kI64 && dtype != DType::kU64) {
    for (int64_t& x : b.ints) x = wrap_integer(dtype, x);
  } else if (b.form == Form::kRamp && b.stride == 0) {
    b.base = wrap_integer(dtype, b.base);
  }
}

Block apply_binary(BinaryOp op, DType dtype, Block a, Block b, size_t count, bool nan_passes) {
  if (is_float(dtype)) return binary_floats(op, dtype, std::move(a), std::move(b), count, nan_passes);
  if (a.is_uniform() && b.is_uniform()) {
    if (auto value = fold_integers(op, dtype, a.base, b.base)) return Block::ramp(*value, 0);
  }
  Block out;
  if (dtype == DType::kI64 && binary_ramps(op, a, b, count, out)) return out;
  spread(a, count);
  spread(b, count);
  binary_ints(op, dtype, a.ints, b.ints);
  round_to(a, is_comparison(op) ? DType::kBool : dtype);
  return a;
}

Block apply_unary(UnaryOp op, DType dtype, Block a) {
  if (is_float(dtype)) return map_floats(std::move(a), [](double x) { return -x; });
  bool boolean = dtype == DType::kBool;
  auto f = [&](int64_t x) { return op == UnaryOp::kNeg ? negated(x) : boolean ? !x : ~x; };
  if (a.form == Form::kRamp) {
    if (op == UnaryOp::kNeg)
      a = Block::ramp(negated(a.base), negated(a.stride));
    else if (a.stride == 0)
      a.base = f(a.base);
    else
      a = Block::ramp(~a.base, -a.stride);
  } else {
    for (int64_t& x : a.ints) x = f(x);
  }
  round_to(a, dtype);
  return a;
}

Block apply_call(MathFn fn, DType dtype, std::vector<Block> args, size_t count) {
  Block& a = args[0];
  if (fn == MathFn::kIsNan || fn == MathFn::kIsInf) {
    spread(a, count);
    Block out;
    out.form = Form::kInts;
    out.ints.resize(count);
    for (size_t i = 0; i < count; ++i)
      out.ints[i] = fn == MathFn::kIsNan ? std::isnan(a.floats[i]) : std::isinf(a.floats[i]);
    return out;
  }
  if (!is_float(dtype)) {  // abs
    spread(a, count);
    if (!is_unsigned_int(dtype)) {
      for (int64_t& x : a.ints) x = x < 0 ? negated(x) : x;
    }
    round_to(a, dtype);
    return std::move(a);
  }
  if (args.size() == 1 && fn == MathFn::kSqrt) {
    Block out = map_floats(std::move(a), [](double x) { return std::sqrt(x); });
    round_to(out, dtype);
    return out;
  }
  if (args.size() == 1)
    return map_floats(std::move(a), [&](double x) { return fold_math(fn, dtype, x, 0).value_or(0); });
  for (Block& arg : args) spread(arg, count);
  for (size_t i = 0; i < count; ++i) {
    double x = a.floats[i], y = args[1].floats[i];
    a.floats[i] = fn == MathFn::kFma ? round_float(dtype, std::fma(x, y, args[2].floats[i]))
                                     : fold_math(fn, dtype, x, y).value_or(0);
  }
  return std::move(a);
}

Block apply_cast(DType from, DType to, Block a) {
  if (is_float(from) && is_float(to)) {
    round_to(a, to);
    return a;
  }
  if (is_float(from)) {
    if (a.is_uniform()) return Block::ramp(float_to_integer(to, a.value), 0);
    Block out;
    out.form = Form::kInts;
    out.ints.resize(a.floats.size());
    for (size_t i = 0; i < a.floats.size(); ++i) out.ints[i] = float_to_integer(to, a.floats[i]);
    return out;
  }
  if (!is_float(to)) {
    if (a.form == Form::kRamp && a.stride != 0) {
      if (byte_width(to) == 8) return a;
      return {};  // the caller spreads ramps first
    }
    round_to(a, to);
    return a;
  }
  if (a.is_uniform()) return Block::uniform(round_float(to, integer_to_float(from, a.base, to)));
  Block out;
  out.form = Form::kFloats;
  out.floats.resize(a.ints.size());
  for (size_t i = 0; i < a.ints.size(); ++i) out.floats[i] = integer_to_float(from, a.ints[i], to);
  round_to(out, to);
  return out;
}

Block choose(const Block& condition, Block if_true, Block if_false, size_t count) {
  if (condition.is_uniform()) return condition.base ? if_true : if_false;
  spread(if_true, count);
  spread(if_false, count);
  for (size_t i = 0; i < count; ++i) {
    if (condition.ints[i]) continue;
    if (if_true.form == Form::kFloats)
      if_true.floats[i] = if_false.floats[i];
    else
      if_true.ints[i] = if_false.ints[i];
  }
  return if_true;
}

Block gather(const Array& array, Block index, size_t count, Mask mask, const std::string& what) {
  switch (array.dtype) {
    case DType::kF32:
      return gather_as<float>(array, index, count, mask, what);
    case DType::kF64:
      return gather_as<double>(array, index, count, mask, what);
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0FNU:
    case DType::kF6E2M3FN:
    case DType::kF6E3M2FN:
    case DType::kF4E2M1FN:
      return gather_narrow(array, index, count, mask, what);
    case DType::kI4:
    case DType::kI2:
    case DType::kI8:
      return gather_as<int8_t>(array, index, count, mask, what);
    case DType::kI16:
      return gather_as<int16_t>(array, index, count, mask, what);
    case DType::kI32:
      return gather_as<int32_t>(array, index, count, mask, what);
    case DType::kI64:
    case DType::kU64:
    case DType::kString:
      return gather_as<int64_t>(array, index, count, mask, what);
    case DType::kU4:
    case DType::kU2:
    case DType::kU8:
      return gather_as<uint8_t>(array, index, count, mask, what);
    case DType::kU16:
      return gather_as<uint16_t>(array, index, count, mask, what);
    case DType::kU32:
      return gather_as<uint32_t>(array, index, count, mask, what);
    case DType::kBool:
      return gather_as<uint8_t>(array, index, count, mask, what);
  }
  return {};
}

void scatter(DType dtype, std::byte* at, Block b, size_t count) {
  spread(b, count);
  if (dtype == DType::kF32) return scatter_as<float>(at, b.floats, count);
  if (dtype == DType::kF64) return scatter_as<double>(at, b.floats, count);
  if (is_float(dtype)) {
    const auto width = static_cast<size_t>(byte_width(dtype));
    for (size_t i = 0; i < count; ++i) write_float(dtype, at + width * i, b.floats[i]);
    return;
  }
  switch (byte_width(dtype)) {
    case 1:
      return scatter_as<int8_t>(at, b.ints, count);
    case 2:
      return scatter_as<int16_t>(at, b.ints, count);
    case 4:
      return scatter_as<int32_t>(at, b.ints, count);
    default:
      return scatter_as<int64_t>(at, b.ints, count);
  }
}

}  // namespace gantry::interpreter
