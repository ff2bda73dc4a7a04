// Values of a block of elements, and the operators on them. Private to the interpreter.
#pragma once

#include <cstdint>
#include <vector>

#include "host/tensor/expr.h"

namespace gantry::interpreter {

/// Elements of a tensor that is held in memory.
struct Array {
  DType dtype = DType::kF32;
  const std::byte* bytes = nullptr;
  int64_t count = 0;
  std::vector<int64_t> strides;  ///< in elements
};

/// One value an element of the block. Floats are held as doubles that are rounded to their type, other types
/// as int64. Uniform and evenly spaced integers are not written out.
struct Block {
  enum class Form : uint8_t { kRamp /* ints: base + i*stride */, kUniformFloat, kInts, kFloats };
  Form form = Form::kRamp;
  int64_t base = 0, stride = 0;
  double value = 0;
  std::vector<int64_t> ints;
  std::vector<double> floats;

  static Block ramp(int64_t base, int64_t stride) {
    Block b;
    b.base = base;
    b.stride = stride;
    return b;
  }
  static Block uniform(double value) {
    Block b;
    b.form = Form::kUniformFloat;
    b.value = value;
    return b;
  }
  bool is_uniform() const { return form == Form::kUniformFloat || (form == Form::kRamp && stride == 0); }
  bool is_float() const { return form == Form::kUniformFloat || form == Form::kFloats; }
};

/// Lanes that count; null: all.
using Mask = const std::vector<int64_t>*;

/// Writes the elements out.
void spread(Block& b, size_t count);
/// Rounds (wraps) the elements to the type.
void round_to(Block& b, DType dtype);

Block apply_binary(BinaryOp op, DType dtype, Block a, Block b, size_t count, bool nan_passes = false);
Block apply_unary(UnaryOp op, DType dtype, Block a);
Block apply_call(MathFn fn, DType dtype, std::vector<Block> args, size_t count);
Block apply_cast(DType from, DType to, Block a);
Block choose(const Block& condition, Block if_true, Block if_false, size_t count);
/// Elements of `array` at flat indices; lanes that the mask drops are 0. An internal error names `what` if an
/// index is out of bounds.
Block gather(const Array& array, Block index, size_t count, Mask mask, const std::string& what);
/// Stores the first `count` elements from `at` on.
void scatter(DType dtype, std::byte* at, Block b, size_t count);

}  // namespace gantry::interpreter
