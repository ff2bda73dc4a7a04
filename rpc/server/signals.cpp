#include "rpc/server/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "rpc/error.h"

namespace gantry::rpc {
namespace {

int signal_pipe[2] = {-1, -1};
std::vector<int> handled;

void on_signal(int number) {
  const int saved = errno;
  const char byte = static_cast<char>(number);
  (void)!::write(signal_pipe[1], &byte, 1);
  errno = saved;
}

void handle_signal(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | (number == SIGCHLD ? SA_NOCLDSTOP : 0);
  ::sigaction(number, &action, nullptr);
}

}  // namespace

int open_signal_pipe(const std::vector<int>& signals) {
  if (::pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(ErrorKind::kBoard, std::string("the system refuses a pipe: ") + std::strerror(errno));
  handled = signals;
  for (const int number : handled) handle_signal(number, on_signal);
  return signal_pipe[0];
}

void close_signal_pipe(const std::vector<int>& ignored) {
  for (const int number : handled) {
    const bool ignore = std::find(ignored.begin(), ignored.end(), number) != ignored.end();
    handle_signal(number, ignore ? SIG_IGN : SIG_DFL);
  }
  for (int& end : signal_pipe) {
    ::close(end);
    end = -1;
  }
}

void ignore_signal(int number) {
  handle_signal(number, SIG_IGN);
}

}  // namespace gantry::rpc
