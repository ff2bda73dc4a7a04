#include "host/graph/type.h"

#include <array>

#include "host/support/error.h"

namespace gantry {
namespace {

struct DTypeInfo {
  std::string_view name;
  int bytes;
};

// In the order of DType.
constexpr std::array<DTypeInfo, 13> kDTypes = {{{"f32", 4},
                                                {"f64", 8},
                                                {"f16", 2},
                                                {"bf16", 2},
                                                {"i8", 1},
                                                {"i16", 2},
                                                {"i32", 4},
                                                {"i64", 8},
                                                {"u8", 1},
                                                {"u16", 2},
                                                {"u32", 4},
                                                {"u64", 8},
                                                {"bool", 1}}};

const DTypeInfo& info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  internal_check(index < kDTypes.size(), "there is no dtype number {}", index);
  return kDTypes[index];
}

}  // namespace

int byte_width(DType dtype) {
  return info(dtype).bytes;
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
  return dtype <= DType::kBF16;
}
bool is_signed_int(DType dtype) {
  return dtype >= DType::kI8 && dtype <= DType::kI64;
}
bool is_unsigned_int(DType dtype) {
  return dtype >= DType::kU8 && dtype <= DType::kU64;
}

std::string TensorType::str() const {
  return fmt::format("Tensor[{}, {}]", to_string(shape), name_of(dtype));
}

bool may_be_equal(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (provably_different(a.shape[i], b.shape[i])) return false;
  }
  return true;
}

}  // namespace gantry
