// A knob of the schedule that a decision gives a value which no plan of the kernel has: said by a predicate
// beside the model that makes the plans, asked by the rule, which refuses it, and by who looks for decisions
// that fit.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace gantry::costs {

struct UnfitKnob {
  std::string_view name;  ///< a literal
  int64_t value = 0;
  std::string why;  ///< and what there is

  /// "rows=9 does not fit: …"
  std::string str() const { return fmt::format("{}={} does not fit: {}", name, value, why); }
};

}  // namespace gantry::costs
