// Functions of one, two and three elements.
#include "host/ops/elementwise.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

void add_math(Sketch& s) {
  Value* x = s.value(s.float_type(), 0, 4);
  s.add(s.choices.of({"exp",  "log",   "sqrt",  "rsqrt", "tanh",  "erf",   "sigmoid",   "floor",
                      "ceil", "round", "trunc", "sin",   "cos",   "tan",   "asin",      "acos",
                      "atan", "sinh",  "cosh",  "asinh", "acosh", "atanh", "reciprocal"}),
        {x});
}

void add_sign(Sketch& s) {
  s.add(s.choices.of({"abs", "negative", "sign", "copy"}), {s.value(s.number_type(), 0, 4)});
}

void add_activation(Sketch& s) {
  Value* x = s.value(s.float_type(), 0, 4);
  if (s.choices.chance(0.5)) {
    s.add(s.choices.of(
              {"nn.relu", "nn.relu", "nn.hard_swish", "nn.mish", "nn.softplus", "nn.softsign", "nn.silu"}),
          {x});
    return;
  }
  if (s.choices.chance(0.2)) {
    s.add<GeluAttrs>("nn.gelu", {x}, [&](GeluAttrs& a) { a.approximate = s.choices.chance(0.5); });
    return;
  }
  s.add<ActivationAttrs>(s.choices.of({"nn.leaky_relu", "nn.elu", "nn.selu", "nn.celu", "nn.thresholded_relu",
                                       "nn.hard_sigmoid", "nn.swish", "nn.shrink"}),
                         {x}, [&](ActivationAttrs& a) {
                           a.alpha = s.choices.of({0.01, 0.2, 1.0, 1.5});
                           a.beta = s.choices.of({0.0, 0.5});
                           a.gamma = s.choices.of({1.0, 1.05});
                         });
}

void add_clip(Sketch& s) {
  s.add<ClipAttrs>("clip", {s.value(s.number_type(), 0, 4)}, [&](ClipAttrs& a) {
    if (s.choices.chance(0.8)) a.min = static_cast<double>(s.choices.between(-3, 1));
    if (s.choices.chance(0.8)) a.max = static_cast<double>(s.choices.between(1, 6));
  });
}

void add_cast(Sketch& s) {
  Value* x = s.pick([](const Value&) { return true; });
  s.add<CastAttrs>("cast", {x}, [&](CastAttrs& a) { a.to = s.any_type(); });
}

void add_test(Sketch& s) {
  Value* x = s.value(s.float_type(), 0, 4);
  if (s.choices.chance(0.5)) return static_cast<void>(s.add("isnan", {x}));
  s.add<IsInfAttrs>("isinf", {x}, [&](IsInfAttrs& a) {
    a.detect_negative = s.choices.chance(0.7);
    a.detect_positive = s.choices.chance(0.7);
  });
}

/// A shape that broadcasts with `shape`: some axes are 1, some leading ones are missing; now and then one
/// that makes the result larger.
Shape broadcastable(Sketch& s, const Shape& shape) {
  Shape other = shape;
  for (Dim& d : other) {
    if (s.choices.chance(0.3))
      d = 1;
    else if (d == Dim(1) && s.choices.chance(0.3))
      d = s.dim();
  }
  if (s.choices.chance(0.35))
    other.erase(
        other.begin(),
        other.begin() + s.choices.between(0, s.choices.below(static_cast<int64_t>(other.size()) + 1)));
  if (other.size() < 4 && other.size() == shape.size() && s.choices.chance(0.1))
    other.insert(other.begin(), s.dim());
  return other;
}

/// Another operand for `x`, of that dtype.
Value* beside(Sketch& s, const Value& x, DType dtype) {
  if (s.choices.chance(0.3)) {
    auto same = [&](const Value& v) { return v.type.dtype == dtype && v.type.shape == x.type.shape; };
    if (Value* found = s.pick(same)) return found;
  }
  if (s.choices.chance(0.2)) return s.constant({dtype, {}});
  return s.operand({dtype, broadcastable(s, x.type.shape)});
}

Value* add_in_some_order(Sketch& s, const char* op, Value* a, Value* b) {
  return s.choices.chance(0.5) ? s.add(op, {a, b}) : s.add(op, {b, a});
}

void add_arithmetic(Sketch& s) {
  Value* x = s.value(s.number_type(), 0, 4);
  add_in_some_order(
      s,
      s.choices.of({"add", "add", "add", "subtract", "multiply", "multiply", "divide", "maximum", "minimum"}),
      x, beside(s, *x, x->type.dtype));
}

/// NumPy's power of floats; of integers, small ones to small exponents, which do not wrap.
void add_power(Sketch& s) {
  const DType dtype = s.float_type();
  Value* x = s.value(dtype, 0, 4);
  if (s.choices.chance(0.5)) x = s.add("abs", {x});
  if (s.choices.chance(0.5))
    return static_cast<void>(s.add("power", {x, s.scalar(dtype, s.choices.of({2.0, 3.0, 0.5, -1.0, 1.7}))}));
  s.add("power", {x, beside(s, *x, dtype)});
}

void add_mod(Sketch& s) {
  Value* x = s.value(s.number_type(), 0, 4);
  const bool floating = is_float(x->type.dtype);
  s.add<ModAttrs>("mod", {x, beside(s, *x, x->type.dtype)},
                  [&](ModAttrs& a) { a.fmod = floating || s.choices.chance(0.5); });
}

void add_comparison(Sketch& s) {
  Value* x = s.value(s.number_type(), 0, 4);
  add_in_some_order(s, s.choices.of({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}),
                    x, beside(s, *x, x->type.dtype));
}

void add_logic(Sketch& s) {
  Value* x = s.value(DType::kBool, 0, 4);
  if (s.choices.chance(0.25)) return static_cast<void>(s.add("logical_not", {x}));
  s.add(s.choices.of({"logical_and", "logical_or", "logical_xor"}), {x, beside(s, *x, DType::kBool)});
}

void add_bits(Sketch& s) {
  const DType dtype = s.choices.of({DType::kI32, DType::kI64, DType::kU8});
  Value* x = s.value(dtype, 0, 4);
  if (s.choices.chance(0.25)) return static_cast<void>(s.add("bitwise_not", {x}));
  const bool shifts = dtype == DType::kU8 && s.choices.chance(0.5);
  s.add(shifts ? s.choices.of({"shift_left", "shift_right"})
               : s.choices.of({"bitwise_and", "bitwise_or", "bitwise_xor"}),
        {x, beside(s, *x, dtype)});
}

void add_where(Sketch& s) {
  Value* x = s.value(s.any_type(), 0, 4);
  Value* condition = s.choices.chance(0.5) && is_float(x->type.dtype)
                         ? s.add("less", {x, s.scalar(x->type.dtype, 0)})
                         : beside(s, *x, DType::kBool);
  Value* other = beside(s, *x, x->type.dtype);
  s.choices.chance(0.5) ? s.add("where", {condition, x, other}) : s.add("where", {condition, other, x});
}

void add_prelu(Sketch& s) {
  Value* x = s.value(s.float_type(), 1, 4);
  Shape slope = x->type.shape;
  for (Dim& d : slope) {
    if (s.choices.chance(0.5)) d = 1;
  }
  s.add("nn.prelu", {x, s.operand({x->type.dtype, slope})});
}

}  // namespace

std::vector<Family> elementwise_families() {
  return {{"math", 6, add_math},
          {"sign", 2, add_sign},
          {"activation", 8, add_activation},
          {"clip", 2, add_clip},
          {"cast", 4, add_cast},
          {"test", 1, add_test},
          {"arithmetic", 14, add_arithmetic},
          {"power", 2, add_power},
          {"mod", 1, add_mod},
          {"comparison", 3, add_comparison},
          {"logic", 2, add_logic},
          {"bits", 2, add_bits},
          {"where", 3, add_where},
          {"prelu", 2, add_prelu}};
}

}  // namespace gantry::random_graphs
