// The operations of VectorProgram on blocks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "host/support/error.h"
#include "host/support/half.h"
#include "host/tensor/vector_program.h"

namespace gantry {
namespace {

// out[i] = f(a[i], b[i]) where an operand that does not vary has stride 0; the common cases vectorise.
template <typename Out, typename In, typename F>
void apply(Out* out, const In* a, bool a_varies, const In* b, bool b_varies, int count, F f) {
  if (a_varies && b_varies) {
    for (int i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  } else if (a_varies) {
    for (int i = 0; i < count; ++i) out[i] = f(a[i], *b);
  } else if (b_varies) {
    for (int i = 0; i < count; ++i) out[i] = f(*a, b[i]);
  } else {
    *out = f(*a, *b);
  }
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32: return static_cast<float>(value);
    case DType::kF16: return float_from_f16(f16_from_float(static_cast<float>(value)));
    case DType::kBF16: return float_from_bf16(bf16_from_float(static_cast<float>(value)));
    default: return value;
  }
}

void round_block(DType dtype, double* values, int count) {
  if (dtype == DType::kF64) return;
  if (dtype == DType::kF32) {
    for (int i = 0; i < count; ++i) values[i] = static_cast<float>(values[i]);
    return;
  }
  for (int i = 0; i < count; ++i) values[i] = round_to(dtype, values[i]);
}

int64_t wrap(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kI32: return static_cast<int32_t>(value);
    case DType::kU8: return static_cast<uint8_t>(value);
    case DType::kU16: return static_cast<uint16_t>(value);
    case DType::kU32: return static_cast<uint32_t>(value);
    case DType::kBool: return value != 0;
    default: return value;
  }
}

void wrap_block(DType dtype, int64_t* values, int count) {
  if (dtype == DType::kI64 || dtype == DType::kU64) return;
  for (int i = 0; i < count; ++i) values[i] = wrap(dtype, values[i]);
}

int64_t saturate(DType dtype, double value) {
  double low = 0, high = 0;
  switch (dtype) {
    case DType::kBool: return value != 0;
    case DType::kI8: low = -128, high = 127; break;
    case DType::kU8: high = 255; break;
    case DType::kI16: low = -32768, high = 32767; break;
    case DType::kU16: high = 65535; break;
    case DType::kI32: low = -0x1p31, high = 0x1p31 - 1; break;
    case DType::kU32: high = 0x1p32 - 1; break;
    case DType::kU64:
      if (!(value > 0)) return 0;
      return value >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(value));
    default:
      if (std::isnan(value)) return 0;
      if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
      if (value <= -0x1p63) return std::numeric_limits<int64_t>::min();
      return static_cast<int64_t>(value);
  }
  if (std::isnan(value)) return 0;
  return static_cast<int64_t>(std::clamp(std::trunc(value), low, high));
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }
bool is_comparison(BinaryOp op) { return op >= BinaryOp::kEq && op <= BinaryOp::kGe; }

template <typename In>
void compare(BinaryOp op, int64_t* out, const In* a, bool av, const In* b, bool bv, int n) {
  switch (op) {
    case BinaryOp::kEq: return apply(out, a, av, b, bv, n, [](In x, In y) { return int64_t{x == y}; });
    case BinaryOp::kNe: return apply(out, a, av, b, bv, n, [](In x, In y) { return int64_t{x != y}; });
    case BinaryOp::kLt: return apply(out, a, av, b, bv, n, [](In x, In y) { return int64_t{x < y}; });
    case BinaryOp::kLe: return apply(out, a, av, b, bv, n, [](In x, In y) { return int64_t{x <= y}; });
    case BinaryOp::kGt: return apply(out, a, av, b, bv, n, [](In x, In y) { return int64_t{x > y}; });
    default: return apply(out, a, av, b, bv, n, [](In x, In y) { return int64_t{x >= y}; });
  }
}

void float_binary(BinaryOp op, double* out, const double* a, bool av, const double* b, bool bv, int n) {
  switch (op) {
    case BinaryOp::kAdd: return apply(out, a, av, b, bv, n, [](double x, double y) { return x + y; });
    case BinaryOp::kSub: return apply(out, a, av, b, bv, n, [](double x, double y) { return x - y; });
    case BinaryOp::kMul: return apply(out, a, av, b, bv, n, [](double x, double y) { return x * y; });
    case BinaryOp::kDiv: return apply(out, a, av, b, bv, n, [](double x, double y) { return x / y; });
    case BinaryOp::kFloorDiv:
      return apply(out, a, av, b, bv, n, [](double x, double y) { return std::floor(x / y); });
    case BinaryOp::kMod:
      return apply(out, a, av, b, bv, n, [](double x, double y) {
        double r = std::fmod(x, y);
        return r != 0 && (r < 0) != (y < 0) ? r + y : r;
      });
    case BinaryOp::kRem: return apply(out, a, av, b, bv, n, [](double x, double y) { return std::fmod(x, y); });
    case BinaryOp::kMin: return apply(out, a, av, b, bv, n, [](double x, double y) { return std::fmin(x, y); });
    case BinaryOp::kMax: return apply(out, a, av, b, bv, n, [](double x, double y) { return std::fmax(x, y); });
    default: internal_error("a float operand of an integer operator");
  }
}

void int_binary(BinaryOp op, int64_t* out, const int64_t* a, bool av, const int64_t* b, bool bv, int n) {
  using I = int64_t;
  switch (op) {
    case BinaryOp::kAdd: return apply(out, a, av, b, bv, n, [](I x, I y) { return I(bits(x) + bits(y)); });
    case BinaryOp::kSub: return apply(out, a, av, b, bv, n, [](I x, I y) { return I(bits(x) - bits(y)); });
    case BinaryOp::kMul: return apply(out, a, av, b, bv, n, [](I x, I y) { return I(bits(x) * bits(y)); });
    case BinaryOp::kDiv:
      return apply(out, a, av, b, bv, n, [](I x, I y) { return y == 0 ? 0 : y == -1 ? I(0 - bits(x)) : x / y; });
    case BinaryOp::kFloorDiv: return apply(out, a, av, b, bv, n, floor_div);
    case BinaryOp::kMod:
      return apply(out, a, av, b, bv, n, [](I x, I y) { return I(bits(x) - bits(floor_div(x, y)) * bits(y)); });
    case BinaryOp::kRem:
      return apply(out, a, av, b, bv, n, [](I x, I y) { return y == 0 || y == -1 ? 0 : x % y; });
    case BinaryOp::kMin: return apply(out, a, av, b, bv, n, [](I x, I y) { return std::min(x, y); });
    case BinaryOp::kMax: return apply(out, a, av, b, bv, n, [](I x, I y) { return std::max(x, y); });
    case BinaryOp::kAnd: return apply(out, a, av, b, bv, n, [](I x, I y) { return x & y; });
    case BinaryOp::kOr: return apply(out, a, av, b, bv, n, [](I x, I y) { return x | y; });
    case BinaryOp::kXor: return apply(out, a, av, b, bv, n, [](I x, I y) { return x ^ y; });
    case BinaryOp::kShl:
      return apply(out, a, av, b, bv, n, [](I x, I y) { return y < 0 || y > 63 ? 0 : I(bits(x) << y); });
    case BinaryOp::kShr:
      return apply(out, a, av, b, bv, n, [](I x, I y) { return y < 0 || y > 63 ? (x < 0 ? -1 : 0) : x >> y; });
    default: internal_error("unknown integer operator");
  }
}

// Where the order of unsigned 64-bit values differs from that of the signed ones they are held in.
bool unsigned_binary(BinaryOp op, int64_t* out, const int64_t* a, bool av, const int64_t* b, bool bv, int n) {
  using I = int64_t;
  switch (op) {
    case BinaryOp::kDiv: case BinaryOp::kFloorDiv:
      apply(out, a, av, b, bv, n, [](I x, I y) { return y == 0 ? 0 : I(bits(x) / bits(y)); });
      return true;
    case BinaryOp::kMod: case BinaryOp::kRem:
      apply(out, a, av, b, bv, n, [](I x, I y) { return y == 0 ? 0 : I(bits(x) % bits(y)); });
      return true;
    case BinaryOp::kMin: apply(out, a, av, b, bv, n, [](I x, I y) { return bits(x) < bits(y) ? x : y; }); return true;
    case BinaryOp::kMax: apply(out, a, av, b, bv, n, [](I x, I y) { return bits(x) < bits(y) ? y : x; }); return true;
    case BinaryOp::kShr:
      apply(out, a, av, b, bv, n, [](I x, I y) { return y < 0 || y > 63 ? 0 : I(bits(x) >> y); });
      return true;
    default: return false;
  }
}

double call_one(MathFn fn, double x) {
  switch (fn) {
    case MathFn::kExp: return std::exp(x);
    case MathFn::kLog: return std::log(x);
    case MathFn::kSqrt: return std::sqrt(x);
    case MathFn::kRsqrt: return 1 / std::sqrt(x);
    case MathFn::kTanh: return std::tanh(x);
    case MathFn::kErf: return std::erf(x);
    case MathFn::kSigmoid: return 1 / (1 + std::exp(-x));
    case MathFn::kFloor: return std::floor(x);
    case MathFn::kCeil: return std::ceil(x);
    case MathFn::kRound: return std::nearbyint(x);
    case MathFn::kTrunc: return std::trunc(x);
    case MathFn::kAbs: return std::fabs(x);
    case MathFn::kSin: return std::sin(x);
    case MathFn::kCos: return std::cos(x);
    case MathFn::kTan: return std::tan(x);
    case MathFn::kAsin: return std::asin(x);
    case MathFn::kAcos: return std::acos(x);
    case MathFn::kAtan: return std::atan(x);
    case MathFn::kSinh: return std::sinh(x);
    case MathFn::kCosh: return std::cosh(x);
    case MathFn::kAsinh: return std::asinh(x);
    case MathFn::kAcosh: return std::acosh(x);
    case MathFn::kAtanh: return std::atanh(x);
    default: internal_error("{} is not a function of one float", name_of(fn));
  }
}

int64_t int_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = bits(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return static_cast<int64_t>(result);
}

template <typename T>
void gather(double* out, const T* source, const int64_t* index, bool varies, int count, int64_t size) {
  for (int i = 0; i < count; ++i) {
    out[i] = static_cast<double>(source[std::clamp<int64_t>(index[varies ? i : 0], 0, size - 1)]);
  }
}
template <typename T>
void gather(int64_t* out, const T* source, const int64_t* index, bool varies, int count, int64_t size) {
  for (int i = 0; i < count; ++i) {
    out[i] = static_cast<int64_t>(source[std::clamp<int64_t>(index[varies ? i : 0], 0, size - 1)]);
  }
}

}  // namespace

void VectorProgram::execute_binary(Frame& frame, size_t index, int count) const {
  const Step& step = steps_[index];
  auto op = static_cast<BinaryOp>(step.op);
  const Step &x = steps_[static_cast<size_t>(step.a)], &y = steps_[static_cast<size_t>(step.b)];
  size_t a = slot(static_cast<size_t>(step.a)), b = slot(static_cast<size_t>(step.b)), out = slot(index);
  if (is_comparison(op)) {
    if (x.is_float) {
      compare(op, &frame.ints[out], &frame.floats[a], x.varies, &frame.floats[b], y.varies, count);
    } else if (x.dtype == DType::kU64) {
      compare(op, &frame.ints[out], reinterpret_cast<const uint64_t*>(&frame.ints[a]), x.varies,
              reinterpret_cast<const uint64_t*>(&frame.ints[b]), y.varies, count);
    } else {
      compare(op, &frame.ints[out], &frame.ints[a], x.varies, &frame.ints[b], y.varies, count);
    }
    return;
  }
  if (step.is_float) {
    float_binary(op, &frame.floats[out], &frame.floats[a], x.varies, &frame.floats[b], y.varies, count);
    round_block(step.dtype, &frame.floats[out], count);
    return;
  }
  bool done = step.dtype == DType::kU64 &&
              unsigned_binary(op, &frame.ints[out], &frame.ints[a], x.varies, &frame.ints[b], y.varies, count);
  if (!done) int_binary(op, &frame.ints[out], &frame.ints[a], x.varies, &frame.ints[b], y.varies, count);
  wrap_block(step.dtype, &frame.ints[out], count);
}

void VectorProgram::execute_call(Frame& frame, size_t index, int count) const {
  const Step& step = steps_[index];
  auto fn = static_cast<MathFn>(step.op);
  const Step& x = steps_[static_cast<size_t>(step.a)];
  auto at = [&](int operand, int i) {
    const Step& s = steps_[static_cast<size_t>(operand)];
    return slot(static_cast<size_t>(operand)) + static_cast<size_t>(s.varies ? i : 0);
  };
  for (int i = 0; i < count; ++i) {
    size_t out = slot(index) + static_cast<size_t>(i);
    if (fn == MathFn::kIsNan || fn == MathFn::kIsInf) {
      double v = x.is_float ? frame.floats[at(step.a, i)] : 0;
      frame.ints[out] = fn == MathFn::kIsNan ? std::isnan(v) : std::isinf(v);
    } else if (!step.is_float) {
      int64_t v = frame.ints[at(step.a, i)];
      if (fn == MathFn::kPow) v = int_power(v, frame.ints[at(step.b, i)]);
      if (fn == MathFn::kAbs) v = v < 0 ? static_cast<int64_t>(0 - bits(v)) : v;
      if (fn == MathFn::kFma) v = v * frame.ints[at(step.b, i)] + frame.ints[at(step.c, i)];
      frame.ints[out] = wrap(step.dtype, v);
    } else if (fn == MathFn::kPow) {
      frame.floats[out] = round_to(step.dtype, std::pow(frame.floats[at(step.a, i)], frame.floats[at(step.b, i)]));
    } else if (fn == MathFn::kFma) {
      frame.floats[out] = round_to(step.dtype, std::fma(frame.floats[at(step.a, i)], frame.floats[at(step.b, i)],
                                                        frame.floats[at(step.c, i)]));
    } else {
      frame.floats[out] = round_to(step.dtype, call_one(fn, frame.floats[at(step.a, i)]));
    }
  }
}

void VectorProgram::execute_select(Frame& frame, size_t index, int count) const {
  const Step& step = steps_[index];
  auto varies = [&](int operand) { return steps_[static_cast<size_t>(operand)].varies; };
  auto pick = [&](auto& values) {
    auto* condition = &frame.ints[slot(static_cast<size_t>(step.a))];
    auto* yes = &values[slot(static_cast<size_t>(step.b))];
    auto* no = &values[slot(static_cast<size_t>(step.c))];
    auto* out = &values[slot(index)];
    bool cv = varies(step.a), yv = varies(step.b), nv = varies(step.c);
    for (int i = 0; i < count; ++i) out[i] = condition[cv ? i : 0] ? yes[yv ? i : 0] : no[nv ? i : 0];
  };
  step.is_float ? pick(frame.floats) : pick(frame.ints);
}

void VectorProgram::execute_cast(Frame& frame, size_t index, int count) const {
  const Step& step = steps_[index];
  const Step& x = steps_[static_cast<size_t>(step.a)];
  size_t a = slot(static_cast<size_t>(step.a)), out = slot(index);
  for (int k = 0; k < count; ++k) {
    auto i = static_cast<size_t>(k), from = a + (x.varies ? i : 0);
    if (step.is_float) {
      double value = x.is_float ? frame.floats[from]
                     : x.dtype == DType::kU64 ? static_cast<double>(bits(frame.ints[from]))
                                              : static_cast<double>(frame.ints[from]);
      frame.floats[out + i] = round_to(step.dtype, value);
    } else {
      frame.ints[out + i] = x.is_float ? saturate(step.dtype, frame.floats[from]) : wrap(step.dtype, frame.ints[from]);
    }
  }
}

void VectorProgram::execute_read(Frame& frame, size_t index, int count) const {
  const Step& step = steps_[index];
  const ConstantData& source = *step.source;
  bool varies = steps_[static_cast<size_t>(step.a)].varies;
  const int64_t* at = &frame.ints[slot(static_cast<size_t>(step.a))];
  double* floats = &frame.floats[slot(index)];
  int64_t* ints = &frame.ints[slot(index)];
  int64_t size = step.int_value;
  if (size == 0) {
    std::fill_n(floats, count, 0.0);
    std::fill_n(ints, count, 0);
    return;
  }
  switch (source.type.dtype) {
    case DType::kF32: return gather(floats, source.as<float>(), at, varies, count, size);
    case DType::kF64: return gather(floats, source.as<double>(), at, varies, count, size);
    case DType::kF16:
    case DType::kBF16: {
      bool is_half = source.type.dtype == DType::kF16;
      for (int i = 0; i < count; ++i) {
        uint16_t v = source.as<uint16_t>()[std::clamp<int64_t>(at[varies ? i : 0], 0, size - 1)];
        floats[i] = is_half ? float_from_f16(v) : float_from_bf16(v);
      }
      return;
    }
    case DType::kI8: return gather(ints, source.as<int8_t>(), at, varies, count, size);
    case DType::kI16: return gather(ints, source.as<int16_t>(), at, varies, count, size);
    case DType::kI32: return gather(ints, source.as<int32_t>(), at, varies, count, size);
    case DType::kI64: case DType::kU64: return gather(ints, source.as<int64_t>(), at, varies, count, size);
    case DType::kU8: case DType::kBool: return gather(ints, source.as<uint8_t>(), at, varies, count, size);
    case DType::kU16: return gather(ints, source.as<uint16_t>(), at, varies, count, size);
    case DType::kU32: return gather(ints, source.as<uint32_t>(), at, varies, count, size);
  }
}

void VectorProgram::execute(Frame& frame, size_t index, int count) const {
  const Step& step = steps_[index];
  switch (step.kind) {
    case Kind::kBinary: return execute_binary(frame, index, count);
    case Kind::kCall: return execute_call(frame, index, count);
    case Kind::kSelect: return execute_select(frame, index, count);
    case Kind::kCast: return execute_cast(frame, index, count);
    case Kind::kRead: return execute_read(frame, index, count);
    case Kind::kUnary: {
      size_t a = slot(static_cast<size_t>(step.a)), out = slot(index);
      bool negate = static_cast<UnaryOp>(step.op) == UnaryOp::kNeg;
      for (int k = 0; k < count; ++k) {
        auto i = static_cast<size_t>(k);
        if (step.is_float) {
          frame.floats[out + i] = -frame.floats[a + i];
        } else if (negate) {
          frame.ints[out + i] = wrap(step.dtype, static_cast<int64_t>(0 - bits(frame.ints[a + i])));
        } else {
          int64_t v = frame.ints[a + i];
          frame.ints[out + i] = step.dtype == DType::kBool ? !v : wrap(step.dtype, ~v);
        }
      }
      return;
    }
    default: return;
  }
}

}  // namespace gantry
