#include "host/cli/npy_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "device_runtime/builtins/functions.h"
#include "host/compiler/string_tensors.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Code point or byte `index`.
char32_t character(const NpyStrings& type, std::span<const std::byte> element, size_t index) {
  const auto bytes = element.subspan(index * type.character_bytes, type.character_bytes);
  char32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<char32_t>(bytes[i]);
    value |= byte << (8 * (type.big_endian ? bytes.size() - 1 - i : i));
  }
  return value;
}

std::string text_of(const NpyStrings& type, std::span<const std::byte> element) {
  size_t length = type.characters;
  while (length > 0 && character(type, element, length - 1) == 0) --length;
  std::string text;
  for (size_t i = 0; i < length; ++i) {
    const char32_t value = character(type, element, i);
    if (type.character_bytes == 1) {
      text += static_cast<char>(value);
    } else {
      runtime::append_utf8(text, value <= 0x10ffff ? value : U'\ufffd');
    }
  }
  return text;
}

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  for (size_t at = 0; at < text.size();) {
    const runtime::CodePoint point = runtime::code_point_at(text, at);
    points.push_back(point.value);
    at += point.bytes;
  }
  return points;
}

}  // namespace

std::optional<NpyStrings> strings_of_descr(std::string_view descr) {
  if (descr.size() < 2 || (descr[1] != 'U' && descr[1] != 'S')) return std::nullopt;
  NpyStrings type;
  type.character_bytes = descr[1] == 'U' ? 4 : 1;
  type.big_endian = descr[0] == '>';
  const char* end = descr.data() + descr.size();
  const auto [stop, error] = std::from_chars(descr.data() + 2, end, type.characters);
  constexpr size_t kMost = size_t{1} << 28;
  if (error != std::errc() || stop != end || type.characters == 0 || type.characters > kMost) return std::nullopt;
  return type;
}

std::vector<std::byte> strings_from_npy(const NpyStrings& type, size_t elements,
                                        std::span<const std::byte> data) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < elements; ++i)
    texts.push_back(text_of(type, data.subspan(i * type.element_bytes(), type.element_bytes())));
  return packed_strings(std::vector<std::string_view>(texts.begin(), texts.end()));
}

NpyElements strings_to_npy(const HostTensor& tensor) {
  const auto count = static_cast<size_t>(element_count(tensor.shape));
  std::vector<std::vector<char32_t>> texts;
  size_t longest = 1;  // NumPy has no elements of no bytes
  for (const std::string_view text : unpacked_strings(count, tensor.bytes)) {
    if (text.ends_with('\0'))
      user_error("a string ends with a zero, which NumPy's files cannot say; write a .pb file");
    texts.push_back(code_points(text));
    longest = std::max(longest, texts.back().size());
  }
  std::string bytes(count * longest * 4, '\0');
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < texts[i].size(); ++k) {
      for (size_t b = 0; b < 4; ++b)
        bytes[(i * longest + k) * 4 + b] = static_cast<char>(texts[i][k] >> (8 * b) & 0xff);
    }
  }
  return {fmt::format("<U{}", longest), std::move(bytes)};
}

}  // namespace gantry::cli
