// Options that are numbers within bounds.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

namespace gantry::cli {

/// Accepts the numbers from `least` to `most`; says of others which would do.
template <typename Number>
CLI::Validator between(Number least, Number most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        Number number{};
        if (CLI::detail::lexical_cast(text, number) && number >= least && number <= most)
          return std::string();
        return fmt::format("'{}' is not a {} from {} to {}", text.substr(0, 64),
                           std::is_integral_v<Number> ? "whole number" : "number", least, most);
      },
      "");
}

}  // namespace gantry::cli
