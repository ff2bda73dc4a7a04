#include "rpc/server/announcement.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "rpc/error.h"
#include "rpc/protocol/service.h"
#include "rpc/server/signals.h"
#include "rpc/visible_text.h"

namespace gantry::rpc {
namespace {

using std::chrono::seconds;

constexpr char kProgram[] = "avahi-publish-service";
constexpr std::size_t kLongestName = 63;
/// Of a line that the program prints; what is longer is reported in pieces.
constexpr std::size_t kLongestLine = 1024;
constexpr seconds kFirstPause{5}, kLongestPause{300};

/// Where an executable file of that name is in $PATH; "" if nowhere.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view folders = path ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
    std::string file = std::string(folder) + "/" + name;
    if (folder.starts_with('/') && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

/// What execve() gets. Made before the fork, as the child should do little.
class Command {
 public:
  Command(std::string program, const AnnouncedService& service)
      : program_(std::move(program)),
        // -f: waits for a daemon that is not there yet, or goes and comes back. -v: says so.
        words_{kProgram, "-f", "-v", "--", service.name, kServiceType, std::to_string(service.port)} {
    words_.insert(words_.end(), service.text.begin(), service.text.end());
    for (std::string& word : words_) arguments_.push_back(word.data());
    arguments_.push_back(nullptr);
    for (char** entry = environ; *entry; ++entry)
      for (const std::string_view known : {"PATH=", "DBUS_SYSTEM_BUS_ADDRESS="})
        if (std::string_view(*entry).starts_with(known)) environment_.push_back(*entry);
    environment_.push_back(locale_);
    environment_.push_back(nullptr);
  }
  /// Returns only if it fails, errno set.
  void execute() const { ::execve(program_.c_str(), arguments_.data(), environment_.data()); }

 private:
  std::string program_;
  std::vector<std::string> words_;
  char locale_[sizeof "LC_ALL=C"] = "LC_ALL=C";
  std::vector<char*> arguments_, environment_;
};

[[noreturn]] void be_program(const Command& command, int output, pid_t server) {
  close_signal_pipe({});
  ::signal(SIGPIPE, SIG_DFL);
  ::setpgid(0, 0);  // the terminal's SIGINT is the server's business
  const UniqueFd nothing(::open("/dev/null", O_RDONLY));
  ::dup2(nothing.get(), 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  close_descriptors_from(3);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != server) ::_exit(0);
  command.execute();
  ::dprintf(2, "it cannot be started: %s\n", std::strerror(errno));
  ::_exit(127);
}

std::string how_it_ended(const std::optional<int>& status) {
  if (status && WIFSIGNALED(*status)) return std::string(" ended by ") + ::strsignal(WTERMSIG(*status));
  return " ended" + (status ? " with exit code " + std::to_string(WEXITSTATUS(*status)) : std::string());
}

}  // namespace

std::string checked_service_name(std::string name) {
  if (name.empty()) {
    utsname system{};
    ::uname(&system);
    name = system.nodename;
  }
  if (name.empty() || name.size() > kLongestName || visible_text(name, Lines::kOne) != name)
    throw Error(ErrorKind::kRequest, "--announce " + name +
                                         ": a board's name on the network is UTF-8 text of 1 to 63 bytes "
                                         "without control characters, e.g. --announce 'pi in the lab'");
  return name;
}

void Announcement::start_if_due(Clock::time_point now) {
  if (!start_at_ || *start_at_ > now) return;
  start_at_.reset();
  const std::string program = find_program(kProgram);
  if (program.empty())
    return failed(std::string("there is no program ") + kProgram +
                      " here; Debian's package avahi-utils has it ('apt install avahi-daemon avahi-utils')",
                  now);
  if (!start(program))
    failed(std::string("the system has no room for its process: ") + std::strerror(errno), now);
}

/// False, errno set: it is not there.
bool Announcement::start(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  UniqueFd ours(ends[0]), theirs(ends[1]);
  ::fcntl(theirs.get(), F_SETFL, 0);  // it may wait for us, we never for it
  const Command command(program, service_);
  std::fflush(nullptr);
  const pid_t server = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) be_program(command, theirs.get(), server);
  process_ = ChildProcess(child);
  output_ = std::move(ours);
  return true;
}

void Announcement::read(Clock::time_point now) {
  char bytes[4096];
  ssize_t count = 0;
  while ((count = ::read(output_.get(), bytes, sizeof bytes)) > 0) {
    for (const char byte : std::string_view(bytes, static_cast<std::size_t>(count))) {
      if (byte != '\n') unread_ += byte;
      if (byte == '\n' || unread_.size() == kLongestLine) report(std::exchange(unread_, {}));
    }
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // Nobody can write there any more. It has ended, or will do nothing that we would hear of.
  if (!unread_.empty()) report(std::exchange(unread_, {}));
  output_.reset();
  auto status = process_.wait_if_ended();
  if (!status) status = process_.kill();
  failed(kProgram + how_it_ended(status) + (last_.empty() ? "" : ": " + last_), now);
  last_.clear();
}

void Announcement::report(const std::string& line) {
  if (line.starts_with("Established")) {
    pause_ = {};
    reported_.clear();
  }
  last_ = line;
  if (line.starts_with("Waiting for daemon"))
    log_.warning("the board is not announced until avahi-daemon runs here");
  else
    log_.info("announcing: " + line);
}

void Announcement::failed(const std::string& why, Clock::time_point now) {
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  start_at_ = now + pause_;
  if (std::exchange(reported_, why) == why) return;
  log_.error("the board serves, but is not announced on the network: " + why +
             "; trying again from time to time");
}

}  // namespace gantry::rpc
