// Numbers as text, and back.
#include <string.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>

#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {
namespace {

constexpr auto kString = ElementType::kString;

// --- format

/// Digits d1 d2 … and the exponent of d1: d1.d2… * 10^exponent.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

/// From "d.dde[+-]dd".
Decimal decimal_of(std::string_view scientific) {
  Decimal decimal;
  const size_t e = scientific.find('e');
  for (const char c : scientific.substr(0, e)) {
    if (c != '.') decimal.digits += c;
  }
  const char* exponent = scientific.data() + e + 1;
  if (*exponent == '+') ++exponent;
  std::from_chars(exponent, scientific.data() + scientific.size(), decimal.exponent);
  return decimal;
}

/// The fewest digits from which a value of `bits` significand bits is read back, and whose smallest step is
/// 2^least.
Decimal shortest(double value, int64_t bits, int64_t least) {
  int exponent = 0;
  const double significand = std::frexp(value, &exponent);
  const double step = std::ldexp(1.0, static_cast<int>(std::max<int64_t>(exponent - bits, least)));
  const double below =
      significand == 0.5 ? step / 2 : step;  // a power of two is nearer to the value below it
  char text[64];
  for (int digits = 1;; ++digits) {
    const auto [end, code] =
        std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, digits - 1);
    double read = 0;
    std::from_chars(text, end, read);
    if ((read >= value ? (read - value) * 2 < step : (value - read) * 2 < below) || digits == 17)
      return decimal_of({text, static_cast<size_t>(end - text)});
  }
}

template <typename T>
Decimal shortest(T value) {
  char text[64];
  const auto [end, code] = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  return decimal_of({text, static_cast<size_t>(end - text)});
}

/// As NumPy's str() puts the digits of a value down: with an exponent below 1e-4 and from 1e16 on, with a
/// fraction otherwise (NumPy 1's; 2.3 and later begin to write exponents earlier for narrow types).
std::string placed(const Decimal& decimal, double value) {
  const auto& [digits, exponent] = decimal;
  const auto count = static_cast<int>(digits.size());
  if (value < 1e-4 || value >= 1e16) {
    std::string text =
        digits.substr(0, 1) + (count > 1 ? "." + digits.substr(1) : "") + (exponent < 0 ? "e-" : "e+");
    const std::string power = std::to_string(std::abs(exponent));
    return text + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (exponent >= count - 1)
    return digits + std::string(static_cast<size_t>(exponent - count + 1), '0') + ".0";
  return digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

/// `bits` and `least` as in FormatAttrs.
template <typename T>
std::string float_text(T value, int64_t bits, int64_t least) {
  if (std::isnan(value)) return "nan";
  const std::string sign = std::signbit(value) ? "-" : "";
  const T size = std::abs(value);
  if (std::isinf(value)) return sign + "inf";
  if (size == 0) return sign + "0.0";
  const auto wide = static_cast<double>(size);
  return sign + placed(bits > 0 ? shortest(wide, bits, least) : shortest(size), wide);
}

std::string number_text(const BuiltinTensor& x, uint64_t i, int64_t bits, int64_t least) {
  switch (x.type) {
    case ElementType::kF32:
      return float_text(x.as<float>()[i], bits, least);
    case ElementType::kF64:
      return float_text(x.as<double>()[i], bits, least);
    case ElementType::kBool:
      return x.as<uint8_t>()[i] != 0 ? "True" : "False";
    case ElementType::kI8:
      return std::to_string(x.as<int8_t>()[i]);
    case ElementType::kI16:
      return std::to_string(x.as<int16_t>()[i]);
    case ElementType::kI32:
      return std::to_string(x.as<int32_t>()[i]);
    case ElementType::kI64:
      return std::to_string(x.as<int64_t>()[i]);
    case ElementType::kU8:
      return std::to_string(x.as<uint8_t>()[i]);
    case ElementType::kU16:
      return std::to_string(x.as<uint16_t>()[i]);
    case ElementType::kU32:
      return std::to_string(x.as<uint32_t>()[i]);
    case ElementType::kU64:
      return std::to_string(x.as<uint64_t>()[i]);
    default:
      return {};
  }
}

// --- parse

std::string_view without_white_space(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    const CodePoint c = code_point_at(text, begin);
    if (!is_white_space(c.value)) break;
    begin += c.bytes;
  }
  size_t end = begin;
  for (size_t at = begin; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    at += c.bytes;
    if (!is_white_space(c.value)) end = at;
  }
  return text.substr(begin, end - begin);
}

/// from_chars takes no plus, but a minus.
bool drop_plus(std::string_view& text) {
  if (!text.starts_with('+')) return true;
  text.remove_prefix(1);
  return !text.starts_with('-') && !text.starts_with('+');
}

/// The exponent that is written at the end of a number, "e-10"; what has more than 64 bits is far beyond any
/// place of a digit. 0 for "".
int64_t written_exponent(std::string_view text) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 2;
  text.remove_prefix(std::min<size_t>(text.size(), 1));
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t exponent = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error == std::errc::result_out_of_range) return text.starts_with('-') ? -kMost : kMost;
  return std::clamp(exponent, -kMost, kMost);
}

/// Whether a number as from_chars reads it, without a sign, is 1 or more: whether its first digit that
/// is not 0 stands for ones or a higher power of ten.
bool is_one_or_more(std::string_view text) {
  const size_t end = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, end);
  const size_t point = std::min(digits.find('.'), end), first = digits.find_first_of("123456789");
  if (first == digits.npos) return false;
  const auto place = static_cast<int64_t>(point) - static_cast<int64_t>(first);  // ones: 1, tenths: -1
  return written_exponent(text.substr(end)) + (place > 0 ? place - 1 : place) >= 0;
}

/// What from_chars cannot hold: infinite, or 0.
template <typename T>
T beyond(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const T size = is_one_or_more(text) ? std::numeric_limits<T>::infinity() : T{0};
  return negative ? -size : size;
}

template <typename T>
bool parse_float(std::string_view text, T& value) {
  if (!drop_plus(text)) return false;
  if (text.find('(') != text.npos) return false;  // from_chars takes nan(…)
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) value = beyond<T>(text);
  return error != std::errc::invalid_argument && stop == end;
}

template <typename T>
bool parse_integer(std::string_view text, T& value) {
  if (!drop_plus(text)) return false;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

bool parse_truth(std::string_view text, uint8_t& value) {
  const bool yes = text == "True" || text == "true", no = text == "False" || text == "false";
  double number = 0;
  if (!yes && !no && !parse_float(text, number)) return false;
  value = yes || number != 0 ? 1 : 0;
  return true;
}

bool parse_into(std::string_view text, const BuiltinTensor& result, uint64_t i) {
  switch (result.type) {
    case ElementType::kF32:
      return parse_float(text, result.as<float>()[i]);
    case ElementType::kF64:
      return parse_float(text, result.as<double>()[i]);
    case ElementType::kI64:
      return parse_integer(text, result.as<int64_t>()[i]);
    case ElementType::kU64:
      return parse_integer(text, result.as<uint64_t>()[i]);
    case ElementType::kBool:
      return parse_truth(text, result.as<uint8_t>()[i]);
    default:
      return false;
  }
}

}  // namespace

Status format_numbers(const BuiltinCall& call) {
  if (call.inputs.empty() || call.integers.size() < 2) return bad_call(call);
  const BuiltinTensor& x = call.inputs[0];
  GANTRY_TRY(check_call(call, {x.type}, {kString}));
  if (call.outputs[0].elements != x.elements) return bad_call(call);
  for (uint64_t i = 0; i < x.elements; ++i) {
    const std::string text = number_text(x, i, call.integers[0], call.integers[1]);
    if (text.empty()) return bad_call(call);
    GANTRY_TRY(put_text(call, call.outputs[0], i, text));
  }
  return Status();
}

Status parse_numbers(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString}, {}));
  if (call.outputs.empty() || call.outputs[0].elements != call.inputs[0].elements) return bad_call(call);
  for (uint64_t i = 0; i < call.inputs[0].elements; ++i) {
    Result<std::string_view> text = text_at(call, call.inputs[0], i);
    if (!text.ok()) return text.status();
    if (parse_into(without_white_space(*text), call.outputs[0], i)) continue;
    return failure(GANTRY_INVALID_ARGUMENT, "element %llu, %s, is no %s", static_cast<unsigned long long>(i),
                   shown(*text).c_str(), element_name(call.outputs[0].type));
  }
  return Status();
}

}  // namespace gantry::runtime
