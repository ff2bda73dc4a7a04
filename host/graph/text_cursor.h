// Characters of graph text, read from left to right.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/text.h"

namespace gantry {

/// A place in the text. Methods throw TextError at the place that is wrong.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(const std::string& what) { fail_at(place(), what); }
  [[noreturn]] static void fail_at(size_t place, const std::string& what) { throw TextError(place, what); }
  /// Fails here with what was expected and what stands here.
  [[noreturn]] void fail_expected(std::string_view expected);

  /// Offset of what comes next, behind blanks, line ends and comments.
  size_t place() {
    skip();
    return at_;
  }
  /// Line of the last place that was asked for, from 1 on.
  size_t line();
  bool at_end() { return place() >= text_.size(); }
  /// What comes next; '\0' at the end.
  char peek() { return at_end() ? '\0' : text_[at_]; }

  /// Takes the token if it is next; a word only as a whole.
  bool accept(std::string_view token);
  /// As accept, but not beyond the end of the line or into a comment.
  bool accept_in_line(std::string_view token);
  void expect(std::string_view token);
  /// As accept() of that word and a '(' behind it, which is not taken.
  bool accept_call(std::string_view word);

  /// A plain or quoted name; `what` is for the message where there is none.
  std::string name(std::string_view what);
  /// What a string in quotes says.
  std::string string();
  /// Everything up to an outermost character of `stops`, which is not taken; without blanks at its end.
  std::string_view until(std::string_view stops);
  /// The comment in the rest of this line, without its slashes; empty if there is none.
  std::string_view trailing_comment();
  /// "OPEN item, item CLOSE": calls `item` where each begins, which takes it.
  void list(char open, char close, const std::function<void()>& item);

 private:
  void skip();
  void skip_in_line();
  /// A string with its quotes.
  std::string_view quoted();

  std::string_view text_;
  size_t at_ = 0;
  size_t counted_ = 0, line_ = 1;  ///< that far line ends are counted
};

/// What `read` gives; what it finds wrong in what the user wrote is said at that place of the text.
template <typename Read>
auto at_place(size_t place, const Read& read) {
  try {
    return read();
  } catch (const TextError&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    TextCursor::fail_at(place, error.what());
  }
}

}  // namespace gantry
