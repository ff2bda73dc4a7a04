// PTX as text, line by line.
#pragma once

#include <algorithm>
#include <string_view>

#include "host/support/words.h"

namespace gantry::cuda {

/// Calls `visit` with each line, without its end.
template <typename Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// Whether the line is one of the directives with which a text says what it is; a program has them once.
inline bool is_head(std::string_view line) {
  const std::string_view words = trim(line);
  return words.starts_with(".version") || words.starts_with(".target") || words.starts_with(".address_size");
}

}  // namespace gantry::cuda
