// Elements of constants as text.
#include <charconv>
#include <cmath>
#include <cstring>

#include "host/graph/strings.h"
#include "host/graph/text.h"
#include "host/support/error.h"

namespace gantry {
namespace {

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T, typename Bits>
std::string print_float(const std::byte* at) {
  const T value = load<T>(at);
  return std::isnan(value) ? fmt::format("{:#x}", load<Bits>(at)) : fmt::format("{}", value);
}

std::string print_element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return print_float<float, uint32_t>(at);
    case DType::kF64:
      return print_float<double, uint64_t>(at);
    case DType::kF16:
    case DType::kBF16:
      return fmt::format("{:#x}", load<uint16_t>(at));
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0FNU:
    case DType::kF6E2M3FN:
    case DType::kF6E3M2FN:
    case DType::kF4E2M1FN:
      return fmt::format("{:#x}", load<uint8_t>(at));
    case DType::kI4:
    case DType::kI2:
    case DType::kI8:
      return std::to_string(load<int8_t>(at));
    case DType::kI16:
      return std::to_string(load<int16_t>(at));
    case DType::kI32:
      return std::to_string(load<int32_t>(at));
    case DType::kI64:
      return std::to_string(load<int64_t>(at));
    case DType::kU4:
    case DType::kU2:
    case DType::kU8:
      return std::to_string(load<uint8_t>(at));
    case DType::kU16:
      return std::to_string(load<uint16_t>(at));
    case DType::kU32:
      return std::to_string(load<uint32_t>(at));
    case DType::kU64:
      return std::to_string(load<uint64_t>(at));
    case DType::kBool:
      return load<uint8_t>(at) != 0 ? "true" : "false";
    case DType::kString:
      return quote(string_of(load<uint64_t>(at)));
  }
  internal_error("there is no dtype number {}", static_cast<int>(dtype));
}

template <typename T>
bool parse_number(std::string_view text, std::byte* target) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  std::memcpy(target, &value, sizeof(T));
  return true;
}

template <typename Bits>
bool parse_bits(std::string_view text, std::byte* target) {
  Bits value{};
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  std::memcpy(target, &value, sizeof(Bits));
  return true;
}

bool parse_string(std::string_view text, std::byte* target) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return false;
  try {
    const uint64_t number = intern(unquote(text));
    std::memcpy(target, &number, sizeof number);
    return true;
  } catch (const Error&) {  // an escape that is none
    return false;
  }
}

/// A number of fewer bits than T.
template <typename T>
bool parse_narrow(std::string_view text, int bits, std::byte* target) {
  if (!parse_number<T>(text, target)) return false;
  const int value = load<T>(target), range = 1 << (bits - (std::is_signed_v<T> ? 1 : 0));
  return value < range && value >= (std::is_signed_v<T> ? -range : 0);
}

}  // namespace

std::string print_constant(const ConstantData& constant) {
  std::string dims, elements;
  for (const Dim& dim : constant.type.shape) dims += (dims.empty() ? "" : ", ") + dim.str();
  const auto width = static_cast<size_t>(byte_width(constant.type.dtype));
  for (size_t at = 0; at + width <= constant.size; at += width) {
    elements += (at > 0 ? ", " : "") + print_element(constant.type.dtype, constant.bytes + at);
  }
  return fmt::format("const({}, [{}], [{}])", name_of(constant.type.dtype), dims, elements);
}

bool parse_element(std::string_view text, DType dtype, std::byte* target) {
  const bool bits = text.size() > 2 && text[0] == '0' && text[1] == 'x';
  switch (dtype) {
    case DType::kF32:
      return bits ? parse_bits<uint32_t>(text, target) : parse_number<float>(text, target);
    case DType::kF64:
      return bits ? parse_bits<uint64_t>(text, target) : parse_number<double>(text, target);
    case DType::kF16:
    case DType::kBF16:
      return bits && parse_bits<uint16_t>(text, target);
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0FNU:
    case DType::kF6E2M3FN:
    case DType::kF6E3M2FN:
    case DType::kF4E2M1FN:
      return bits && parse_bits<uint8_t>(text, target) && load<uint8_t>(target) >> bit_width(dtype) == 0;
    case DType::kI4:
    case DType::kI2:
      return parse_narrow<int8_t>(text, bit_width(dtype), target);
    case DType::kU4:
    case DType::kU2:
      return parse_narrow<uint8_t>(text, bit_width(dtype), target);
    case DType::kI8:
      return parse_number<int8_t>(text, target);
    case DType::kI16:
      return parse_number<int16_t>(text, target);
    case DType::kI32:
      return parse_number<int32_t>(text, target);
    case DType::kI64:
      return parse_number<int64_t>(text, target);
    case DType::kU8:
      return parse_number<uint8_t>(text, target);
    case DType::kU16:
      return parse_number<uint16_t>(text, target);
    case DType::kU32:
      return parse_number<uint32_t>(text, target);
    case DType::kU64:
      return parse_number<uint64_t>(text, target);
    case DType::kString:
      return parse_string(text, target);
    case DType::kBool:
      break;
  }
  if (text != "true" && text != "false") return false;
  *target = static_cast<std::byte>(text == "true");
  return true;
}

}  // namespace gantry
