// What every command shares: the parsed command line and where messages go.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/cli/outputs.h"
#include "host/cli/progress.h"
#include "host/cli/style.h"
#include "host/support/span_recorder.h"

namespace gantry::cli {

/// One call of the program.
struct Invocation {
  std::vector<std::string> arguments;  ///< argv
  std::string command = {};            ///< its name, "bench"; empty where there is no command line
  bool verbose = false;
  bool quiet = false;
  /// The command chosen, set while parsing; returns the exit code.
  std::function<int()> action;
  /// Takes warnings and notes, in the place of stderr, where somebody calls who is no user at a terminal.
  std::function<void(const std::string& message, bool warning)> hear;
  /// Asked between the steps of a compilation, which what it throws ends; empty where signals end the
  /// process.
  std::function<void()> check_interrupt;
  /// Its files.
  std::shared_ptr<OutputPlan> outputs = std::make_shared<OutputPlan>();
  /// What the command does when; null unless --trace asks.
  std::shared_ptr<SpanRecorder> spans;

  Verbosity verbosity() const {
    return quiet ? Verbosity::kQuiet : verbose ? Verbosity::kVerbose : Verbosity::kNormal;
  }
  void warn(const std::string& message) const {
    if (hear) return hear(message, true);
    if (quiet) return;
    print_err(fmt::format("{} {}\n", styled("gantry: warning:", Style::kWarning, stderr),
                          printable(message, stderr)));
  }
  /// For what is worth knowing but not asked for.
  void note(const std::string& message) const {
    if (hear) return hear(message, false);
    if (quiet) return;
    print_err(fmt::format("{} {}\n", styled("gantry:", Style::kNote, stderr), printable(message, stderr)));
  }
};

/// Whoever read stdout has seen enough, as `head` has: the program ends without a word.
class ReaderGone : public std::exception {};

/// Writes text or JSON to stdout, control characters made visible (printable()). User error if that fails (a
/// full disk), ReaderGone where the pipe is closed.
void print_out(const std::string& text);
/// Writes bytes to stdout as they are. Errors of print_out().
void write_out(std::string_view bytes);
/// print_out of what is to be said beside a command's outputs; nothing where one of them is stdout itself, by
/// a name such as /dev/stdout, whose reader wants the file alone.
void print_about(const OutputPlan& outputs, const std::string& text);

}  // namespace gantry::cli
