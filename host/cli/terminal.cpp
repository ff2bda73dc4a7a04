#include "host/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <span>

#include "rpc/visible_text.h"

namespace gantry::cli {
namespace {

struct Range {
  char32_t first, last;
};

constexpr Range kWide[] = {
    {0x1100, 0x115f},    // Hangul Jamo
    {0x231a, 0x231b},    // watch, hourglass
    {0x23e9, 0x23ec},    // playing forwards and backwards
    {0x2705, 0x2705},    // check mark
    {0x274c, 0x274c},    // cross mark
    {0x2e80, 0x303e},    // CJK radicals, punctuation
    {0x3041, 0x4dbf},    // kana, compatibility, ideographs A
    {0x4e00, 0xa4cf},    // ideographs, Yi
    {0xa960, 0xa97c},    // Hangul Jamo
    {0xac00, 0xd7a3},    // Hangul
    {0xf900, 0xfaff},    // compatibility ideographs
    {0xfe30, 0xfe6f},    // vertical and small forms
    {0xff00, 0xff60},    // full-width forms
    {0xffe0, 0xffe6},    // full-width signs
    {0x1f300, 0x1f64f},  // pictographs, emoticons
    {0x1f680, 0x1f6ff},  // transport
    {0x1f900, 0x1f9ff},  // more pictographs
    {0x20000, 0x3fffd},  // ideographs of other planes
};
constexpr Range kCombining[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd},   {0x064b, 0x065f}, {0x0900, 0x0902},
    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200d},   {0x20d0, 0x20ff}, {0xfe00, 0xfe0f},
    {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xe0100, 0xe01ef},
};

bool contains(std::span<const Range> ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

size_t columns_of(char32_t c) {
  if (c < 0x0300) return 1;
  return contains(kCombining, c) ? 0 : contains(kWide, c) ? 2 : 1;
}

size_t width_of(int descriptor) {
  if (isatty(descriptor) == 0) return 0;
  if (const char* given = std::getenv("COLUMNS"); given != nullptr) {
    size_t columns = 0;
    const char* end = given + std::strlen(given);
    const auto [stop, error] = std::from_chars(given, end, columns);
    if (error == std::errc() && stop == end && columns > 0) return columns;
  }
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

size_t terminal_width() {
  return width_of(STDOUT_FILENO);
}

size_t error_terminal_width() {
  return width_of(STDERR_FILENO);
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const rpc::CodePoint point = rpc::first_code_point(text);
    width += point.valid ? columns_of(point.value) : 1;
    text.remove_prefix(point.bytes);
  }
  return width;
}

std::string shorten(std::string_view text, size_t width) {
  if (width == 0 || display_width(text) <= width) return std::string(text);
  size_t end = 0, columns = 0;
  while (end < text.size()) {
    const rpc::CodePoint point = rpc::first_code_point(text.substr(end));
    const size_t next = point.valid ? columns_of(point.value) : 1;
    if (columns + next + 1 > width) break;
    columns += next;
    end += point.bytes;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::vector<std::string> wrap(std::string_view text, size_t width) {
  if (width == 0) return {std::string(text)};
  std::vector<std::string> lines(1);
  size_t columns = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    const size_t word_columns = display_width(word);
    if (columns > 0 && columns + 1 + word_columns > width) {
      lines.emplace_back();
      columns = 0;
    }
    if (columns > 0) lines.back() += ' ';
    lines.back() += word;
    columns += word_columns + (columns > 0 ? 1 : 0);
  }
  return lines;
}

std::string visible_line(std::string_view text) {
  return rpc::visible_text(text, rpc::Lines::kOne);
}

}  // namespace gantry::cli
