#include "host/support/child_pipes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "host/support/error.h"
#include "host/support/program.h"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kMostOfLine = size_t{64} << 10;
constexpr size_t kMostOfWords = size_t{4} << 10;
/// What is sent before progress is told again.
constexpr size_t kPiece = size_t{64} << 10;
/// After the child's end, for what others (a connection that is kept open for later) still hold open.
constexpr milliseconds kAfterEnd{200};

/// An end of a pipe.
class End {
 public:
  explicit End(int descriptor = -1) : descriptor_(descriptor) {}
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() { close(); }
  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void set(int descriptor) { descriptor_ = descriptor; }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

void make_pipe(End& read, End& write) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) user_error("a pipe cannot be made: {}", std::strerror(errno));
  read.set(ends[0]);
  write.set(ends[1]);
}

}  // namespace

struct ChildPipes::Streams {
  End in, out, err;
  std::optional<cleanup::Child> child;
};

ChildPipes::ChildPipes(const std::vector<std::string>& arguments, cleanup::Child::Group group,
                       const std::string& purpose)
    : streams_(std::make_unique<Streams>()) {
  const auto program = find_program(arguments[0]);
  if (!program)
    user_error("{} needs the program {}, which is not on the path; install it", purpose, arguments[0]);
  End child_in, child_out, child_err;
  make_pipe(child_in, streams_->in);
  make_pipe(streams_->out, child_out);
  make_pipe(streams_->err, child_err);
  for (const End* end : {&streams_->in, &streams_->out, &streams_->err})
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, child_err.get(), STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  streams_->child.emplace(*program, words.data(), actions, environ, group);
  ::posix_spawn_file_actions_destroy(&actions);
  if (const int error = streams_->child->error(); error != 0)
    user_error("{}: cannot be started: {}", program->string(), std::strerror(error));
}

ChildPipes::~ChildPipes() = default;

void ChildPipes::read_words() {
  char buffer[4096];
  const ssize_t size = ::read(streams_->err.get(), buffer, sizeof buffer);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return streams_->err.close();
  words_.append(buffer, static_cast<size_t>(size));
  if (words_.size() > kMostOfWords) words_.erase(0, words_.size() - kMostOfWords);
}

void ChildPipes::read_lines() {
  char buffer[4096];
  const ssize_t size = ::read(streams_->out.get(), buffer, sizeof buffer);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return streams_->out.close();
  partial_.append(buffer, static_cast<size_t>(size));
  for (;;) {
    const size_t end = partial_.find('\n');
    if (end == std::string::npos && partial_.size() < kMostOfLine) return;
    const size_t length = std::min(end, kMostOfLine);
    lines_.push_back(partial_.substr(0, length));
    partial_.erase(0, length == end ? length + 1 : length);
  }
}

bool ChildPipes::take(bool wants_to_write, milliseconds patience) {
  pollfd polled[3] = {{streams_->out.get(), POLLIN, 0},
                      {streams_->err.get(), POLLIN, 0},
                      {wants_to_write ? streams_->in.get() : -1, POLLOUT, 0}};
  const int ready = ::poll(polled, std::size(polled), static_cast<int>(patience.count()));
  if (ready <= 0) return ready < 0 && errno == EINTR;
  if (polled[0].revents != 0) read_lines();
  if (polled[1].revents != 0) read_words();
  writable_ = polled[2].revents != 0;
  return true;
}

bool ChildPipes::send(std::string_view bytes, const std::function<void(size_t)>& progress) {
  constexpr milliseconds kStalled{120'000};
  size_t sent = 0;
  while (sent < bytes.size()) {
    if (!streams_->in.open() || !streams_->out.open()) return false;
    if (!take(true, kStalled)) return false;
    if (!writable_) continue;
    const ssize_t size =
        ::write(streams_->in.get(), bytes.data() + sent, std::min(kPiece, bytes.size() - sent));
    if (size < 0 && errno != EAGAIN && errno != EINTR) {
      close_input();
      return false;
    }
    sent += size > 0 ? static_cast<size_t>(size) : 0;
    if (progress) progress(sent);
  }
  return true;
}

void ChildPipes::close_input() {
  streams_->in.close();
}

ChildPipes::Next ChildPipes::next_line(std::string& line, milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (lines_.empty() && streams_->out.open()) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return Next::kTimeout;
    // In between, an end that closes no pipe is looked for.
    take(false, std::min(left, kAfterEnd));
    if (lines_.empty() && streams_->child->ends_within(milliseconds(1))) {
      while (streams_->out.open() && take(false, kAfterEnd)) {
      }
      break;
    }
  }
  if (lines_.empty() && !partial_.empty()) lines_.push_back(std::exchange(partial_, {}));
  if (lines_.empty()) return Next::kEnd;
  line = std::move(lines_.front());
  lines_.pop_front();
  return Next::kLine;
}

void ChildPipes::settle() {
  const auto deadline = Clock::now() + kAfterEnd;
  while (Clock::now() < deadline && (streams_->out.open() || streams_->err.open()))
    take(false, milliseconds(20));
}

int ChildPipes::finish(milliseconds patience) {
  if (exit_code_) return *exit_code_;
  close_input();
  const auto deadline = Clock::now() + patience;
  while (!streams_->child->ends_within(milliseconds(1)) && Clock::now() < deadline) {
    if (streams_->out.open() || streams_->err.open()) take(false, milliseconds(50));
  }
  while (streams_->err.open() && take(false, milliseconds(0))) {
  }
  if (!streams_->child->ends_within(milliseconds(1))) streams_->child->kill();
  const int status = streams_->child->wait();
  streams_->out.close();
  streams_->err.close();
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return *exit_code_;
}

}  // namespace gantry
