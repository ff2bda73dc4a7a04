// Element types: the manifest's numbers, their sizes, names and DLPack equivalents.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "gantry/dlpack.h"

namespace gantry::runtime {

/// An element type, numbered as in device_runtime/schema/module.fbs.
enum class ElementType : uint8_t {
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
inline constexpr int kElementTypeCount = 26;

/// What has less than 8 bits lies in a byte of its own (DLPack: DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED). A string is
/// its number in the session's table of strings.
uint64_t element_bytes(ElementType type);
/// "f32", "bool", …
const char* element_name(ElementType type);
DLDataType to_dlpack(ElementType type);
/// "f32", or e.g. "complex64" or "f32x4" for what models do not have.
std::string dlpack_name(DLDataType type);
bool same_type(DLDataType a, DLDataType b);

/// "(1, 3, 224, 224)"
std::string shape_text(std::span<const int64_t> shape);
/// Bytes of a dense tensor; false on overflow or a negative dimension.
bool dense_bytes(std::span<const int64_t> shape, ElementType type, uint64_t* bytes);

}  // namespace gantry::runtime
