// Errors of the host: what the user can mend is an Error, what only we can mend is a bug.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace gantry {

/// Who can do something about an error; the numbers are the program's exit codes.
enum class ErrorKind {
  kUser = 1,      ///< the request, the model or a file is wrong: change the input
  kBoard = 2,     ///< the board or the network failed: check it, then retry
  kInternal = 3,  ///< a bug in gantry: report it
};

/// The one exception type that crosses layers of the host.
/// The message says what failed, on which user-visible thing (file, node, board), and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws an Error of kind kUser with a fmt-formatted message.
template <typename... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kUser, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error of kind kBoard with a fmt-formatted message.
template <typename... Args>
[[noreturn]] void board_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kBoard, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error of kind kInternal with a fmt-formatted message.
template <typename... Args>
[[noreturn]] void internal_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kInternal, fmt::format(format, std::forward<Args>(args)...));
}

/// An invariant of our own that survives release builds.
template <typename... Args>
void internal_check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) internal_error(format, std::forward<Args>(args)...);
}

}  // namespace gantry
