// Precisions: the arithmetic of products.
#pragma once

#include <cstdint>
#include <string_view>

namespace gantry {

/// Arithmetic of convolutions and matrix products whose tensors are f32; sums are f32, except for those of a
/// CPU's kFp16, which are f16 over a few products.
enum class Precision : uint8_t {
  kAuto,        ///< the fastest at f32's accuracy: kFp32Split where tile units are that fast, else kFp32
  kFp32,        ///< multiply-adds in f32
  kTf32,        ///< GPUs
  kBf16,        ///< operands rounded to bf16
  kFp16,        ///< operands rounded to f16
  kFp32Split,   ///< CPUs that multiply tiles of bf16: each f32 as two of them
  kFp32Split3,  ///< as three, as exact as f32
};

/// "auto", "fp32", "tf32", "bf16", "fp16", "fp32-split", "fp32-split3".
std::string_view name_of(Precision precision);
/// A user error lists the names.
Precision find_precision(std::string_view name);

}  // namespace gantry
