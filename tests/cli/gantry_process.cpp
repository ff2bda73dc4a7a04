#include "tests/cli/gantry_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace gantry::testing {
namespace fs = std::filesystem;

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.push_back(entry.path().lexically_relative(folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

GantryFolders::GantryFolders() {
  for (const char* name : {"work", "tmp", "cache", "config", "runtime", "streams"})
    fs::create_directory(root_.path() / name);
}

fs::path GantryFolders::write(const std::string& name, const std::string& bytes) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

int GantryFolders::start(const std::vector<std::string>& arguments, int stdout_descriptor,
                         int ignored) const {
  std::vector<std::string> command = {GANTRY_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : command) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const fs::path out = root_.path() / "streams" / "out", err = root_.path() / "streams" / "err";
  const int pid = ::fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(120);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(number, SIG_DFL);
  if (ignored != 0) ::signal(ignored, SIG_IGN);
  const auto open_as = [](const fs::path& path, int flags, int number) {
    const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
    ::dup2(file, number);
  };
  open_as("/dev/null", O_RDONLY, 0);
  if (stdout_descriptor >= 0) {
    ::dup2(stdout_descriptor, 1);
  } else {
    open_as(out, O_WRONLY | O_CREAT | O_TRUNC, 1);
  }
  open_as(err, O_WRONLY | O_CREAT | O_TRUNC, 2);
  ::setenv("TMPDIR", temporary().c_str(), 1);
  ::setenv("GANTRY_CACHE_DIR", cache().c_str(), 1);
  ::setenv("XDG_CONFIG_HOME", (root_.path() / "config").c_str(), 1);
  ::setenv("XDG_RUNTIME_DIR", (root_.path() / "runtime").c_str(), 1);  // has the file by which turns are taken
  if (::chdir(work().c_str()) != 0) ::_exit(126);
  ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

Outcome GantryFolders::wait(int pid) const {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  Outcome outcome;
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.out = contents(root_.path() / "streams" / "out");
  outcome.err = contents(root_.path() / "streams" / "err");
  return outcome;
}

}  // namespace gantry::testing
