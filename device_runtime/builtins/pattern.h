// Regular expressions in RE2's syntax (github.com/google/re2/wiki/Syntax), which the whole of a text is to
// match.
//
// The matching is std::regex's over code points, by its algorithm whose time is at most proportional to the
// length of the text times that of the pattern, and whose stack does not grow with the text. What RE2 writes
// in another way than ECMAScript is rewritten; what cannot be is refused by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

class Pattern {
 public:
  Pattern();
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  /// INVALID_ARGUMENT names what is wrong, or is not known here.
  static Result<Pattern> compile(std::string_view re2);
  /// INVALID_ARGUMENT for a text of more than 1 MiB.
  Result<bool> matches(std::string_view text) const;
  /// Appends what matches in the text, from left to right and each as long as it can be. Where that is fewer
  /// than `least` code points (at least 1), it is none, and the search goes on one code point behind its
  /// first. Errors as matches().
  Status find(std::string_view text, size_t least, std::vector<std::string_view>& found) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// The pattern of a builtin's text, compiled once while a thread asks for the same: it stays until the thread
/// asks for another. Errors as compile().
Result<const Pattern*> pattern_of(std::string_view re2);

/// The pattern as ECMAScript has it, over code points. Errors as compile().
Result<std::wstring> ecmascript_of(std::string_view re2);

}  // namespace gantry::runtime
