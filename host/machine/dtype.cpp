#include "host/machine/dtype.h"

#include <array>

#include "host/support/error.h"

namespace gantry {
namespace {

struct DTypeInfo {
  std::string_view name;
  int bits;
};

// In the order of DType.
constexpr std::array<DTypeInfo, kDTypeCount> kDTypes = {{{"f32", 32},
                                                         {"f64", 64},
                                                         {"f16", 16},
                                                         {"bf16", 16},
                                                         {"i8", 8},
                                                         {"i16", 16},
                                                         {"i32", 32},
                                                         {"i64", 64},
                                                         {"u8", 8},
                                                         {"u16", 16},
                                                         {"u32", 32},
                                                         {"u64", 64},
                                                         {"bool", 8},
                                                         {"f8e4m3fn", 8},
                                                         {"f8e4m3fnuz", 8},
                                                         {"f8e5m2", 8},
                                                         {"f8e5m2fnuz", 8},
                                                         {"f8e8m0fnu", 8},
                                                         {"f6e2m3fn", 6},
                                                         {"f6e3m2fn", 6},
                                                         {"f4e2m1fn", 4},
                                                         {"i4", 4},
                                                         {"u4", 4},
                                                         {"i2", 2},
                                                         {"u2", 2},
                                                         {"string", 64}}};

const DTypeInfo& info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  internal_check(index < kDTypes.size(), "there is no dtype number {}", index);
  return kDTypes[index];
}

}  // namespace

int byte_width(DType dtype) {
  return (info(dtype).bits + 7) / 8;
}
int bit_width(DType dtype) {
  return info(dtype).bits;
}
std::string_view name_of(DType dtype) {
  return info(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_float(DType dtype) {
  return dtype <= DType::kBF16 || is_small_float(dtype);
}
bool is_small_float(DType dtype) {
  return dtype >= DType::kF8E4M3FN && dtype <= DType::kF4E2M1FN;
}
bool is_signed_int(DType dtype) {
  return (dtype >= DType::kI8 && dtype <= DType::kI64) || dtype == DType::kI4 || dtype == DType::kI2;
}
bool is_unsigned_int(DType dtype) {
  return (dtype >= DType::kU8 && dtype <= DType::kU64) || dtype == DType::kU4 || dtype == DType::kU2;
}

}  // namespace gantry
