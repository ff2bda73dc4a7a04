#include "host/cli/quantities.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string_view>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

struct Quantity {
  double value = 0;
  std::string_view unit;
};

/// A number and what follows it; a NaN where there is none.
Quantity split(std::string_view text) {
  Quantity quantity;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quantity.value);
  if (error != std::errc()) quantity.value = std::nan("");
  quantity.unit = text.substr(static_cast<size_t>(end - text.data()));
  return quantity;
}

constexpr std::pair<std::string_view, double> kSeconds[] = {{"", 1},     {"s", 1},  {"ms", 1e-3},
                                                            {"min", 60}, {"m", 60}, {"h", 3600}};
constexpr double kWeek = 7 * 24 * 3600;

/// CLI11 shows what a transform throws as a ValidationError as the option's complaint.
template <typename Value, typename Parse>
CLI::Option* add_parsed(CLI::App& command, const std::string& option, Value& value,
                        const std::string& description, const char* type, Parse parse) {
  return command
      .add_option_function<std::string>(
          option,
          [&value, option, parse](const std::string& text) {
            try {
              value = parse(text, option);
            } catch (const Error& error) {
              throw CLI::ValidationError(error.what());
            }
          },
          description)
      ->type_name(type);
}

}  // namespace

double parse_share(const std::string& text, const std::string& option, double most) {
  const Quantity quantity = split(text);
  const double share = quantity.unit == "%" ? quantity.value / 100 : quantity.value;
  if ((quantity.unit.empty() || quantity.unit == "%") && share > 0 && share < most) return share;
  user_error("{}: '{}' is not a share like 1% or 0.01", option, text.substr(0, 64));
}

double parse_duration(const std::string& text, const std::string& option) {
  const Quantity quantity = split(text);
  for (const auto& [unit, seconds] : kSeconds) {
    const double duration = quantity.value * seconds;
    if (quantity.unit == unit && duration > 0 && duration <= kWeek) return duration;
  }
  user_error("{}: '{}' is not a time like 30s, 500ms or 2min", option, text.substr(0, 64));
}

CLI::Option* add_share(CLI::App& command, const std::string& option, double& share,
                       const std::string& description) {
  return add_parsed(command, option, share, description, "SHARE",
                    [](const std::string& text, const std::string& name) { return parse_share(text, name); });
}

CLI::Option* add_limit(CLI::App& command, const std::string& option, std::optional<double>& limit,
                       const std::string& description) {
  constexpr double kMost = 1000;
  return add_parsed(
      command, option, limit, description, "SHARE",
      [](const std::string& text, const std::string& name) { return parse_share(text, name, kMost); });
}

CLI::Option* add_duration(CLI::App& command, const std::string& option, double& seconds,
                          const std::string& description) {
  return add_parsed(command, option, seconds, description, "TIME", parse_duration);
}

}  // namespace gantry::cli
