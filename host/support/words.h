// Small things that text is asked for.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

namespace gantry {

/// Without the blanks around it: spaces, tabs, ends of lines.
inline std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

/// Without the mark that some editors put in front of UTF-8.
inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

/// "1 record", "12 records"; `several` where more of it are not called so with an s.
inline std::string counted(int64_t count, std::string_view one, std::string_view several = {}) {
  if (count == 1) return fmt::format("1 {}", one);
  return several.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, several);
}

/// What a board, or its type, may be called: letters, digits, '.', '-' and '_', 64 of them at most.
inline bool is_board_word(std::string_view text) {
  constexpr std::string_view kOthers = ".-_";
  constexpr size_t kMost = 64;
  return !text.empty() && text.size() <= kMost && std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kOthers.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace gantry
