#include "host/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "host/cli/style.h"
#include "host/cli/terminal.h"

namespace gantry::cli {
namespace {

constexpr auto kDelay = std::chrono::seconds(1);
constexpr auto kRefresh = std::chrono::milliseconds(80);
constexpr size_t kLineWidth = 78;  ///< of terminals that do not say theirs

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

std::string bar(double done) {
  constexpr int kCells = 20;
  const int filled = static_cast<int>(std::lround(std::clamp(done, 0.0, 1.0) * kCells));
  return fmt::format("[{}{}] {:3.0f} %", std::string(static_cast<size_t>(filled), '#'),
                     std::string(static_cast<size_t>(kCells - filled), '.'),
                     std::clamp(done, 0.0, 1.0) * 100);
}

}  // namespace

Progress::Progress(Verbosity verbosity)
    : terminal_(verbosity != Verbosity::kQuiet && stderr_is_terminal()),
      lines_(verbosity == Verbosity::kVerbose && !terminal_),
      started_(Clock::now()) {}

void Progress::update(const std::string& what, double done) {
  if (!terminal_ && !lines_) return;
  if (lines_) {
    // One line a stage; a stage is the text before its details.
    const std::string stage = what.substr(0, what.find(':'));
    if (stage == last_line_) return;
    last_line_ = stage;
    print_err(fmt::format("gantry: {}\n", visible_line(what)));
    return;
  }
  const auto now = Clock::now();
  if (now - started_ < kDelay || now - shown_ < kRefresh) return;
  shown_ = now;
  const std::string line = done < 0 ? what + " …" : bar(done) + "  " + what;
  const size_t width = error_terminal_width();
  print_err(fmt::format("\r\x1b[K{}", shorten(visible_line(line), width > 1 ? width - 1 : kLineWidth)));
  visible_ = true;
}

void Progress::clear() {
  if (visible_) print_err("\r\x1b[K");
  visible_ = false;
}

}  // namespace gantry::cli
