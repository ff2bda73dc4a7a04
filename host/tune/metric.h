// What a tuner makes less of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gantry::tune {

/// Amounts are of a run. Where a program is emulated, its time says nothing, and what it executes says
/// something: of two programs for one processor mostly which one is faster.
enum class Metric : uint8_t {
  kTime,          ///< milliseconds
  kInstructions,  ///< that are executed, on all threads
};

constexpr std::string_view name_of(Metric metric) {
  return metric == Metric::kTime ? "time" : "instructions";
}

constexpr std::optional<Metric> find_metric(std::string_view name) {
  for (const Metric metric : {Metric::kTime, Metric::kInstructions})
    if (name == name_of(metric)) return metric;
  return std::nullopt;
}

}  // namespace gantry::tune
