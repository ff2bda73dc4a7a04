#include "host/cli/avahi_browse.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "host/cli/terminal.h"
#include "host/support/cleanup.h"
#include "host/support/error.h"
#include "host/support/program.h"

extern char** environ;  // NOLINT: POSIX wants it declared

namespace gantry::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kProgram = "avahi-browse";
/// A network of thousands of boards prints less.
constexpr size_t kMostBytes = size_t{4} << 20;
/// For a program that has closed its streams to end.
constexpr milliseconds kFarewell{200};

/// What a program writes on one of its streams.
class Stream {
 public:
  Stream() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0)
      user_error("{}: cannot be run: {}", kProgram, std::strerror(errno));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    close(0);
    close(1);
  }
  void give_to(posix_spawn_file_actions_t& actions, int number) const {
    posix_spawn_file_actions_adddup2(&actions, ends_[1], number);
  }
  /// Once the program has it.
  void close_writing_end() { close(1); }
  bool open() const { return ends_[0] >= 0; }
  int descriptor() const { return ends_[0]; }
  /// Takes what is there, after poll().
  void read() {
    std::array<char, 1 << 16> bytes;
    const ssize_t count = ::read(ends_[0], bytes.data(), bytes.size());
    if (count > 0) text_.append(bytes.data(), static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) close(0);
  }
  const std::string& text() const { return text_; }

 private:
  void close(size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }

  std::array<int, 2> ends_ = {-1, -1};
  std::string text_;
};

/// The environment, with messages as we know them.
std::vector<std::string> environment() {
  std::vector<std::string> variables = {"LC_ALL=C"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("LC_ALL=")) variables.emplace_back(*variable);
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Until both streams end; false: until the deadline, or kMostBytes.
bool read_until(Clock::time_point deadline, Stream& out, Stream& err) {
  while (out.open() || err.open()) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || out.text().size() + err.text().size() > kMostBytes) return false;
    std::array<pollfd, 2> ends = {pollfd{out.descriptor(), POLLIN, 0}, pollfd{err.descriptor(), POLLIN, 0}};
    if (::poll(ends.data(), ends.size(), static_cast<int>(std::min<long long>(left, 60'000))) <= 0) continue;
    if (ends[0].revents != 0) out.read();
    if (ends[1].revents != 0) err.read();
  }
  return true;
}

[[noreturn]] void refuse(const std::string& message) {
  const std::string_view first = std::string_view(message).substr(0, message.find('\n'));
  user_error(
      "this machine's Avahi daemon, which hears what boards announce, cannot be asked: {}: {}; start it with "
      "`systemctl start avahi-daemon` (Debian's package avahi-daemon)",
      kProgram, first.empty() ? "it ended without a word" : visible_line(first));
}

}  // namespace

Browsed browse(const std::string& type, milliseconds patience) {
  const auto program = find_program(kProgram);
  if (!program) {
    user_error(
        "there is no program {} in $PATH, which finds boards; `apt install avahi-utils avahi-daemon` puts it "
        "there",
        kProgram);
  }
  std::vector<std::string> command = {kProgram, "--resolve", "--parsable", "--terminate", type},
                           variables = environment();
  Stream out, err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  out.give_to(actions, STDOUT_FILENO);
  err.give_to(actions, STDERR_FILENO);
  const auto deadline = Clock::now() + patience;
  cleanup::Child child(*program, pointers_to(command).data(), actions, pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (child.error() != 0)
    user_error("{}: cannot be run: {}", program->string(), std::strerror(child.error()));
  out.close_writing_end();
  err.close_writing_end();

  Browsed result;
  result.complete = read_until(deadline, out, err);
  result.lines = out.text();
  if (!result.complete && result.lines.empty()) {
    board_error(
        "no answer from Avahi within {:.1f} s: {}; give it longer with --timeout, or see "
        "`systemctl status avahi-daemon`",
        std::chrono::duration<double>(patience).count(),
        err.text().empty() ? "is its daemon running?" : visible_line(err.text()));
  }
  if (result.complete && child.ends_within(kFarewell)) {
    const int status = child.wait();
    if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0)) refuse(err.text());
  }
  return result;
}

}  // namespace gantry::cli
