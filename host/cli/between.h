// Options that are numbers within bounds.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace gantry::cli {

/// Accepts the numbers from `least` to `most`; says of others which would do.
template <typename Number>
CLI::Validator between(Number least, Number most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        Number number{};
        // The parser takes -1 for the largest of them, and so what is larger than it.
        const bool negative = std::is_unsigned_v<Number> && text.starts_with('-');
        errno = 0;
        const bool read =
            CLI::detail::lexical_cast(text, number) && (!std::is_integral_v<Number> || errno != ERANGE);
        if (!negative && read && number >= least && number <= most) return std::string();
        return fmt::format("'{}' is not a {} from {} to {}", text.substr(0, 64),
                           std::is_integral_v<Number> ? "whole number" : "number", least, most);
      },
      "");
}

/// Of one run.
inline CLI::Validator is_thread_count() {
  constexpr int kMostThreads = 1024;
  return between(1, kMostThreads);
}

/// Of made-up data.
inline CLI::Validator is_seed() {
  return between(uint64_t{0}, std::numeric_limits<uint64_t>::max());
}

}  // namespace gantry::cli
