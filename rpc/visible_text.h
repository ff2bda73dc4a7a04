/// Text that somebody else wrote, made safe to print: control characters become visible.
#ifndef GANTRY_RPC_VISIBLE_TEXT_H
#define GANTRY_RPC_VISIBLE_TEXT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gantry::rpc {

/// One character of a UTF-8 text.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 1;  ///< that it takes; 1 where the bytes are no character
  bool valid = false;
};

/// The character at the start of a text that is not empty. Overlong forms, surrogates and what lies beyond
/// U+10FFFF are no characters (RFC 3629).
inline CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t value = lead & (0xff >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kSmallest[bytes] || value > 0x10ffff || surrogate) return {};
  return {value, bytes, true};
}

/// Whether a terminal acts on a character rather than showing it: controls (C0, DEL, C1), line and paragraph
/// separators, and what turns the direction of writing.
inline bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

enum class Lines {
  kOne,   ///< the text belongs into one line: line ends and tabs become visible too
  kMany,  ///< line ends and tabs stay
};

/// The text with its control characters as \n, \t, \r or \u001b, and bytes that are no UTF-8 as \xff. The
/// former are also what they are in JSON: a JSON document stays the same document.
inline std::string visible_text(std::string_view text, Lines lines) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const char32_t c = point.value;
    if (!point.valid) {
      const auto byte = static_cast<unsigned char>(text[0]);
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else if (!is_control(c) || (lines == Lines::kMany && (c == '\n' || c == '\t'))) {
      out += text.substr(0, point.bytes);
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += {'\\', c == '\n' ? 'n' : c == '\t' ? 't' : 'r'};
    } else {
      out += {'\\', 'u', kDigits[c >> 12 & 15], kDigits[c >> 8 & 15], kDigits[c >> 4 & 15], kDigits[c & 15]};
    }
    text.remove_prefix(point.bytes);
  }
  return out;
}

}  // namespace gantry::rpc
#endif
