// What patterns are compiled to.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "device_runtime/builtins/code_points.h"
#include "device_runtime/src/status.h"

namespace gantry::runtime {

/// A step of a pattern. What it does not say goes on with the next one.
struct PatternStep {
  enum class Kind : uint8_t {
    kCodePoint,   ///< takes the code point `value`
    kSet,         ///< takes one of the set `value`
    kSplit,       ///< goes on `value` steps from here too
    kJump,        ///< goes on `value` steps from here
    kTextBegin,   ///< these take nothing, and go on where the text begins,
    kTextEnd,     ///< ends,
    kLineBegin,   ///< begins or has a newline before,
    kLineEnd,     ///< ends or has a newline next,
    kWordEdge,    ///< has one of [0-9A-Za-z_] on one side alone,
    kNoWordEdge,  ///< or has not
    kMatch,
  };
  Kind kind = Kind::kMatch;
  int32_t value = 0;
};

/// Steps address each other by distances, so that a part of a program can be moved and copied.
struct PatternProgram {
  std::vector<PatternStep> steps;
  std::vector<CodePointSet> sets;
};

/// INVALID_ARGUMENT names what is wrong with a pattern of RE2's syntax, or is not known here.
Result<PatternProgram> compile_pattern(std::string_view re2);

}  // namespace gantry::runtime
