#include "host/cli/tensor_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "host/compiler/string_tensors.h"
#include "host/graph/small_float.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

// DLPack's type codes.
enum Code : uint8_t {
  kInt = 0,
  kUint = 1,
  kFloat = 2,
  kHandle = 3,
  kBfloat = 4,
  kBool = 6,
  kFirstSmallFloat = 10
};

constexpr rpc::ElementType kNamelessByte{kHandle, 8};

struct NamedType {
  std::string_view name;
  rpc::ElementType type;
};
constexpr NamedType kTypes[] = {{"f32", {kFloat, 32}},
                                {"f64", {kFloat, 64}},
                                {"f16", {kFloat, 16}},
                                {"bf16", {kBfloat, 16}},
                                {"i8", {kInt, 8}},
                                {"i16", {kInt, 16}},
                                {"i32", {kInt, 32}},
                                {"i64", {kInt, 64}},
                                {"u8", {kUint, 8}},
                                {"u16", {kUint, 16}},
                                {"u32", {kUint, 32}},
                                {"u64", {kUint, 64}},
                                {"bool", {kBool, 8}},
                                {"f8e4m3fn", {kFirstSmallFloat, 8}},
                                {"f8e4m3fnuz", {kFirstSmallFloat + 1, 8}},
                                {"f8e5m2", {kFirstSmallFloat + 2, 8}},
                                {"f8e5m2fnuz", {kFirstSmallFloat + 3, 8}},
                                {"f8e8m0fnu", {kFirstSmallFloat + 4, 8}},
                                {"f6e2m3fn", {kFirstSmallFloat + 5, 6}},
                                {"f6e3m2fn", {kFirstSmallFloat + 6, 6}},
                                {"f4e2m1fn", {kFirstSmallFloat + 7, 4}},
                                {"i4", {kInt, 4}},
                                {"u4", {kUint, 4}},
                                {"i2", {kInt, 2}},
                                {"u2", {kUint, 2}},
                                {"V1", kNamelessByte},
                                {"string", {kHandle, 64}}};

template <typename T>
T element(const HostTensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double bfloat_to_double(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return static_cast<double>(value);
}

}  // namespace

bool is_string(const rpc::ElementType& type) {
  return type.code == kHandle && type.bits == 64;
}

std::vector<std::string_view> texts_of(const HostTensor& tensor) {
  return unpacked_strings(static_cast<size_t>(element_count(tensor.shape)), tensor.bytes);
}

std::string type_name(const rpc::ElementType& type) {
  for (const NamedType& named : kTypes) {
    if (named.type == type) return std::string(named.name);
  }
  return fmt::format("type(code={}, bits={})", type.code, type.bits);
}

std::optional<rpc::ElementType> parse_type_name(std::string_view name) {
  for (const NamedType& named : kTypes) {
    if (named.name == name) return named.type;
  }
  return std::nullopt;
}

rpc::ElementType stands_for(const rpc::ElementType& read, const rpc::ElementType& wanted) {
  const bool nameless = read == kNamelessByte;
  const bool is_byte = nameless || (read.bits == 8 && (read.code == kInt || read.code == kUint));
  const bool has_no_name = wanted.code >= kFirstSmallFloat || wanted.bits < 8;
  if (is_byte && has_no_name) return wanted;
  return nameless ? rpc::ElementType{kUint, 8} : read;
}

void read_as(HostTensor& tensor, const rpc::ElementType& wanted) {
  const bool nameless = tensor.type == kNamelessByte;
  tensor.type = stands_for(tensor.type, wanted);
  if (!nameless || tensor.type.code != kInt || tensor.type.bits >= 8) return;
  const int sign = 1 << (tensor.type.bits - 1);
  for (std::byte& byte : tensor.bytes) {
    const int code = static_cast<int>(byte);
    if (code < 2 * sign) byte = static_cast<std::byte>((code ^ sign) - sign);
  }
}

rpc::ElementType array_stands_for(const rpc::ElementType& given, const rpc::ElementType& wanted) {
  return given.code == wanted.code && given.bits == 8 && wanted.bits < 8 ? wanted : given;
}

void check_elements(const HostTensor& tensor, const std::string& source) {
  const rpc::ElementType& type = tensor.type;
  if (type.bits >= 8) return;
  const int low = type.code == kInt ? -(1 << (type.bits - 1)) : 0, high = low + (1 << type.bits) - 1;
  for (const auto byte : tensor.bytes) {
    const int value = type.code == kInt ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
    if (value < low || value > high)
      user_error("{}: an element is {}; {} has {} to {}", source, value, type_name(type), low, high);
  }
}

std::string shape_text(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += 'x';
    text += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  return text;
}

std::string type_and_shape(const rpc::ElementType& type, const std::vector<int64_t>& shape) {
  return type_name(type) + " " + shape_text(shape);
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      user_error("a tensor of shape {} is too large or has unknown dimensions", shape_text(shape));
    }
  }
  return count;
}

int64_t byte_count(const rpc::ElementType& type, const std::vector<int64_t>& shape) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(shape), static_cast<int64_t>((type.bits + 7) / 8), &bytes)) {
    user_error("a tensor of shape {} is too large", shape_text(shape));
  }
  return bytes;
}

double element_as_double(const HostTensor& tensor, int64_t index) {
  const rpc::ElementType& type = tensor.type;
  switch (type.code) {
    case kFloat:
      if (type.bits == 32) return static_cast<double>(element<float>(tensor, index));
      if (type.bits == 64) return element<double>(tensor, index);
      return half_to_double(element<uint16_t>(tensor, index));
    case kBfloat:
      return bfloat_to_double(element<uint16_t>(tensor, index));
    case kInt:
      if (type.bits <= 8) return element<int8_t>(tensor, index);
      if (type.bits == 16) return element<int16_t>(tensor, index);
      if (type.bits == 32) return element<int32_t>(tensor, index);
      return static_cast<double>(element<int64_t>(tensor, index));
    case kBool:
      return element<uint8_t>(tensor, index) != 0;
    default:
      if (type.code >= kFirstSmallFloat) {
        const auto dtype = static_cast<int>(DType::kF8E4M3FN) + type.code - kFirstSmallFloat;
        return small_float_value(static_cast<DType>(dtype), element<uint8_t>(tensor, index));
      }
      if (type.bits <= 8) return element<uint8_t>(tensor, index);
      if (type.bits == 16) return element<uint16_t>(tensor, index);
      if (type.bits == 32) return element<uint32_t>(tensor, index);
      return static_cast<double>(element<uint64_t>(tensor, index));
  }
}

TensorSummary summarise(const HostTensor& tensor) {
  TensorSummary summary;
  const int64_t count = element_count(tensor.shape);
  internal_check(static_cast<int64_t>(tensor.bytes.size()) == byte_count(tensor.type, tensor.shape),
                 "a tensor's bytes do not match its shape");
  double sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = element_as_double(tensor, i);
    if (i < 8) summary.first.push_back(value);
    if (!std::isfinite(value)) {
      ++summary.non_finite;
      continue;
    }
    summary.min = finite == 0 ? value : std::min(summary.min, value);
    summary.max = finite == 0 ? value : std::max(summary.max, value);
    sum += value;
    ++finite;
  }
  if (finite > 0) summary.mean = sum / static_cast<double>(finite);
  return summary;
}

}  // namespace gantry::cli
