// A space to search in, and what its decisions cost: made up.
#pragma once

#include <cmath>
#include <string>

#include "host/tune/search.h"

namespace gantry::tune {

/// Forms "direct" (block, rows) and "winograd" (block, chunk, input_first).
inline Space small_space() {
  Space space;
  const std::vector<int64_t> blocks{8, 16, 24, 32, 48, 64}, rows{1, 2, 3, 4, 6, 8, 12};
  space.forms = {{"direct", {{"block", 0, false, blocks}, {"rows", 0, true, rows}}},
                 {"winograd",
                  {{"block", 0, false, blocks},
                   {"chunk", 0, true, {4, 8, 16, 32, 64}},
                   {"input_first", 0, true, {0, 1}}}}};
  space.proposed = {{"direct", {{"block", 16}}}, {"winograd", {{"block", 32}}}};
  space.misfit = [](const Decision& decision) -> std::optional<std::string> {
    if (decision.knob("block") * decision.knob("rows", 1) > 256) return "more registers than there are";
    return std::nullopt;
  };
  return space;
}

/// Least for {form=winograd, block=48, chunk=16}.
inline double made_up_cost(const Decision& decision) {
  const auto off = [](double value, double best) { return std::abs(std::log2(value / best)); };
  if (decision.form == "direct")
    return 1 + 0.1 * off(double(decision.knob("block", 8)), 32) +
           0.05 * off(double(decision.knob("rows", 2)), 6);
  return 0.7 + 0.1 * off(double(decision.knob("block", 8)), 48) +
         0.05 * off(double(decision.knob("chunk", 64)), 16) + 0.02 * double(decision.knob("input_first"));
}

}  // namespace gantry::tune
