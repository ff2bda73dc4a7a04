#include "device_runtime/src/data_type.h"

#include "device_runtime/src/status.h"

namespace gantry::runtime {
namespace {

struct TypeRow {
  const char* name;
  DLDataType dlpack;
};

const TypeRow& row(ElementType type) {
  static const TypeRow kRows[kElementTypeCount] = {
      {"f32", {kDLFloat, 32, 1}},   {"f64", {kDLFloat, 64, 1}}, {"f16", {kDLFloat, 16, 1}},
      {"bf16", {kDLBfloat, 16, 1}}, {"i8", {kDLInt, 8, 1}},     {"i16", {kDLInt, 16, 1}},
      {"i32", {kDLInt, 32, 1}},     {"i64", {kDLInt, 64, 1}},   {"u8", {kDLUInt, 8, 1}},
      {"u16", {kDLUInt, 16, 1}},    {"u32", {kDLUInt, 32, 1}},  {"u64", {kDLUInt, 64, 1}},
      {"bool", {kDLBool, 8, 1}},
      {"f8e4m3fn", {kDLFloat8_e4m3fn, 8, 1}},
      {"f8e4m3fnuz", {kDLFloat8_e4m3fnuz, 8, 1}},
      {"f8e5m2", {kDLFloat8_e5m2, 8, 1}},
      {"f8e5m2fnuz", {kDLFloat8_e5m2fnuz, 8, 1}},
      {"f8e8m0fnu", {kDLFloat8_e8m0fnu, 8, 1}},
      {"f6e2m3fn", {kDLFloat6_e2m3fn, 6, 1}},
      {"f6e3m2fn", {kDLFloat6_e3m2fn, 6, 1}},
      {"f4e2m1fn", {kDLFloat4_e2m1fn, 4, 1}},
      {"i4", {kDLInt, 4, 1}},
      {"u4", {kDLUInt, 4, 1}},
      {"i2", {kDLInt, 2, 1}},
      {"u2", {kDLUInt, 2, 1}},
      {"string", {kDLOpaqueHandle, 64, 1}},
  };
  return kRows[static_cast<uint8_t>(type) % kElementTypeCount];
}

}  // namespace

uint64_t element_bytes(ElementType type) {
  return (row(type).dlpack.bits + 7) / 8;
}
const char* element_name(ElementType type) {
  return row(type).name;
}
DLDataType to_dlpack(ElementType type) {
  return row(type).dlpack;
}

bool same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

std::string dlpack_name(DLDataType type) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const TypeRow& known = row(static_cast<ElementType>(i));
    if (same_type(known.dlpack, type)) return known.name;
  }
  static const char* const kCodes[] = {"i", "u", "f", "handle", "bf", "complex", "bool"};
  std::string name = type.code < 7 ? kCodes[type.code] : format_text("type%d:", type.code);
  name += std::to_string(type.bits);
  if (type.lanes != 1) name += "x" + std::to_string(type.lanes);
  return name;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + ")";
}

bool dense_bytes(std::span<const int64_t> shape, ElementType type, uint64_t* bytes) {
  uint64_t total = element_bytes(type);
  bool empty = false;
  for (int64_t dimension : shape) {
    if (dimension < 0) return false;
    empty = empty || dimension == 0;
    if (dimension != 0 && __builtin_mul_overflow(total, static_cast<uint64_t>(dimension), &total))
      return false;
  }
  *bytes = empty ? 0 : total;
  return total <= static_cast<uint64_t>(INT64_MAX);
}

}  // namespace gantry::runtime
