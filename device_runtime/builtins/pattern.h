// Regular expressions in RE2's syntax (github.com/google/re2/wiki/Syntax), which the whole of a text is to
// match.
//
// A pattern becomes a program whose states are all followed at once (Thompson, "Regular Expression Search
// Algorithm", 1968), so that the time is at most proportional to the length of the text times that of the
// program, and neither stack nor memory grow with the text. Bytes that are no UTF-8 match nothing.
#pragma once

#include <string_view>
#include <vector>

#include "device_runtime/builtins/pattern_program.h"

namespace gantry::runtime {

class Pattern {
 public:
  /// INVALID_ARGUMENT names what is wrong, or is not known here.
  static Result<Pattern> compile(std::string_view re2);
  bool matches(std::string_view text) const;
  /// What matches in the text, from left to right and each as long as it can be. Where that is fewer than
  /// `least` code points (at least 1), it is none, and the search goes on one code point behind its first.
  std::vector<std::string_view> find(std::string_view text, size_t least) const;

 private:
  PatternProgram program_;
};

/// The pattern of a builtin's text, compiled once while a thread asks for the same: it stays until the thread
/// asks for another. Errors as compile().
Result<const Pattern*> pattern_of(std::string_view re2);

}  // namespace gantry::runtime
