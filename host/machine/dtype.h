// Types of elements: what memory holds and instructions compute on.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gantry {

enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kF6E2M3FN,
  kF6E3M2FN,
  kF4E2M1FN,
  kI4,
  kU4,
  kI2,
  kU2,
  kString
};
inline constexpr int kDTypeCount = 26;

/// Bytes an element takes in memory. Whatever has less than 8 bits (bool too) lies in a byte of its own: integers
/// extended to 8 bits by their sign, floats in the low bits below zeros. Only ONNX's files pack them. A string is 8 bytes: the
/// number that it has among the strings of whoever holds the tensor; equal strings have equal numbers.
int byte_width(DType dtype);
/// Bits of a value: 4 of i4, 6 of f6e2m3fn; bool has 8, string 64.
int bit_width(DType dtype);
/// "f32", "i64", "bool", "f8e4m3fn", …
std::string_view name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
bool is_float(DType dtype);
/// Of 8 bits or less.
bool is_small_float(DType dtype);
bool is_signed_int(DType dtype);
bool is_unsigned_int(DType dtype);  // bool is not one

}  // namespace gantry
