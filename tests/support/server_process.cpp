#include "tests/support/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

namespace gantry::testing {
namespace fs = std::filesystem;
namespace {

/// Starts the program with its stdout on a pipe, its stderr in the file `errors` or, if that is empty, on the
/// pipe too; returns pid and the pipe's end.
std::pair<int, int> start(std::vector<std::string> arguments, const fs::path& errors,
                          const std::string& program = {}) {
  std::istringstream words(program);
  std::vector<std::string> command{std::istream_iterator<std::string>(words), {}};
  if (command.empty()) command = {GANTRY_DEVICE_PROGRAM};
  arguments.insert(arguments.begin(), command.begin(), command.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no server outlives a test that was killed
    ::dup2(ends[1], 1);
    const int file =
        errors.empty() ? ends[1] : ::open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file >= 0) ::dup2(file, 2);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  char name[] = "/tmp/gantry-test-XXXXXX";
  if (!::mkdtemp(name)) throw std::runtime_error("no temporary directory");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

ServerProcess::ServerProcess(const std::vector<std::string>& arguments, const std::string& program) {
  const auto has = [&](const char* option) {
    return std::find(arguments.begin(), arguments.end(), option) != arguments.end();
  };
  std::vector<std::string> all = {"serve"};
  if (!has("--listen")) all.insert(all.end(), {"--listen", "127.0.0.1:0"});
  if (!has("--cache")) all.insert(all.end(), {"--cache", (cache_.path() / "cache").string()});
  all.insert(all.end(), arguments.begin(), arguments.end());
  const auto [pid, output] = start(all, cache_.path() / "errors", program);
  process_ = rpc::ChildProcess(pid);
  std::string line;
  char byte = 0;
  while (::read(output, &byte, 1) == 1 && byte != '\n') line += byte;
  ::close(output);
  const std::size_t at = line.find("listening on ");
  if (at == std::string::npos) throw std::runtime_error("gantry-device did not start: " + line);
  port_ = static_cast<std::uint16_t>(std::stoi(line.substr(line.find(':', at) + 1)));
}

ServerProcess::~ServerProcess() {
  stop();
  std::cerr << errors();
}

int ServerProcess::stop() {
  process_.signal(SIGTERM);
  const std::optional<int> status = process_.wait();
  return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
}

std::size_t ServerProcess::descriptors() const {
  std::error_code hidden;
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(pid()) + "/fd", hidden))
    ++count;
  return count;
}

bool ServerProcess::shows_descriptors() const {
  return ::access(("/proc/" + std::to_string(pid()) + "/fd").c_str(), R_OK) == 0;
}

std::size_t ServerProcess::resident_kilobytes() const {
  std::ifstream status("/proc/" + std::to_string(pid()) + "/status");
  std::string word;
  while (status >> word)
    if (word == "VmRSS:" && status >> word) return std::stoul(word);
  return 0;
}

std::string ServerProcess::errors() const {
  std::ifstream file(cache_.path() / "errors");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<int> ServerProcess::processes() const {
  std::multimap<int, int> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (!std::getline(file, line) || line.find(')') == std::string::npos) continue;
    char state = 0;
    int parent = 0;
    std::istringstream(line.substr(line.rfind(')') + 1)) >> state >> parent;
    if (state != 'Z') children.emplace(parent, std::atoi(entry.path().filename().c_str()));
  }
  std::vector<int> found = {pid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto it = first; it != last; ++it) found.push_back(it->second);
  }
  return found;
}

std::pair<int, std::string> run_device(const std::vector<std::string>& arguments) {
  const auto [pid, output] = start(arguments, {});
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(output, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  ::close(output);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

}  // namespace gantry::testing
