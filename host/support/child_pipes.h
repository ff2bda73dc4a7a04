// A program whose three standard streams are pipes of this process.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/support/cleanup.h"

namespace gantry {

/// Speaks with a child in lines while it takes what the child says at any time, so that neither waits for the
/// other with full pipes. Ended with the object. Belongs to one thread.
class ChildPipes {
 public:
  /// `group`: kShared for a program that may ask its user at the terminal. User error where the program is
  /// not found on the path or cannot be started; `purpose` says what for.
  ChildPipes(const std::vector<std::string>& arguments, cleanup::Child::Group group,
             const std::string& purpose);
  ChildPipes(const ChildPipes&) = delete;
  ChildPipes& operator=(const ChildPipes&) = delete;
  ~ChildPipes();

  /// Sends all of it, in pieces that are told. False where the child reads no more: why, it says in lines or
  /// in words().
  bool send(std::string_view bytes, const std::function<void(size_t sent)>& progress = {});
  void close_input();

  enum class Next { kLine, kEnd, kTimeout };
  /// The next line of its stdout, without its end. A line is of 64 KiB at most, the rest is another one.
  Next next_line(std::string& line, std::chrono::milliseconds patience);

  /// Takes what it says for a little while, so that words() has what was said before a line.
  void settle();
  /// The last of what it said on stderr, up to 4 KiB.
  const std::string& words() const { return words_; }
  /// Waits for its end, then ends it; its exit code, 128 + the signal's number where one ended it.
  int finish(std::chrono::milliseconds patience);

 private:
  struct Streams;
  /// Waits until something can be read, or written if there is something to write; takes it. False after
  /// `patience`.
  bool take(bool wants_to_write, std::chrono::milliseconds patience);
  void read_lines();
  void read_words();

  std::unique_ptr<Streams> streams_;
  std::string partial_, words_;
  std::deque<std::string> lines_;
  bool writable_ = false;
  std::optional<int> exit_code_;
};

}  // namespace gantry
