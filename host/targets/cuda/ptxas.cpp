#include "host/targets/cuda/ptxas.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "host/support/cleanup.h"
#include "host/support/error.h"
#include "host/support/input_file.h"
#include "host/support/program.h"
#include "host/support/shortage.h"
#include "host/support/temporary.h"
#include "host/targets/cuda/ptx_text.h"

extern char** environ;  // NOLINT: POSIX wants it declared

namespace gantry::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "ptxas";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// This process's environment, with temporary files in `folder`.
std::vector<std::string> environment_in(const fs::path& folder) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("TMPDIR=")) variables.emplace_back(*variable);
  }
  variables.push_back("TMPDIR=" + folder.string());
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// How a program ended.
struct Ending {
  int code = 0;    ///< its exit code
  int signal = 0;  ///< that ended it; 0: none
  bool ok() const { return code == 0 && signal == 0; }
};

/// Runs the program; its output goes to the file `log`, its temporary files beside that.
Ending run(std::vector<std::string> command, const fs::path& log) {
  std::vector<std::string> variables = environment_in(log.parent_path());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  cleanup::Child child(command[0], pointers_to(command).data(), actions, pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (child.error() != 0) user_error("{}: cannot be run: {}", command[0], std::strerror(child.error()));
  const int status = child.wait();
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

bool is_full(int error) {
  return error == ENOSPC || error == EDQUOT;
}

/// Whether so many bytes more have a place in the folder, as far as it tells.
bool has_room(const fs::path& folder, size_t bytes) {
  const TemporaryFile file(folder / "room", 0600);
  if (!file.ok()) return !is_full(file.error());
  return !is_full(::posix_fallocate(file.descriptor(), 0, static_cast<off_t>(bytes)));
}

/// Whether the program's messages say that a disk is full.
bool tells_of_full_disk(std::string_view messages) {
  return messages.find(std::strerror(ENOSPC)) != std::string_view::npos ||
         messages.find(std::strerror(EDQUOT)) != std::string_view::npos;
}

constexpr std::string_view kOtherwise = "GANTRY_PTXAS=none leaves the kernels to the driver of the board",
                           kMakeRoom = "make room there, or set TMPDIR to a folder on another disk";
constexpr size_t kMostQuoted = 500;

std::string quoted(const std::string& messages) {
  return messages.empty() ? "" : "; it wrote:\n" + messages.substr(0, kMostQuoted);
}

/// What it writes of code that large is not larger, its temporary files among it.
size_t room_for(size_t ptx_bytes) {
  constexpr size_t kTimes = 2, kLeast = 1 << 20;
  return kTimes * ptx_bytes + kLeast;
}

/// User errors where it assembled nothing for another reason than the text: it was killed, or does not say
/// what is wrong with it. A Shortage where `folder` has no room for it, of `room` bytes: then its messages
/// are lost like its output, or tell of an error like any other, and some of the disk may be free again
/// behind it.
void expect_complaint(const fs::path& program, const Ending& ending, const std::string& messages,
                      const fs::path& folder, size_t room) {
  if (ending.signal != 0) {
    user_error("{}: ended by signal {} ({}): is there memory enough? {}", program.string(), ending.signal,
               ::strsignal(ending.signal), kOtherwise);
  }
  const std::string parent = folder.parent_path().string();
  if (tells_of_full_disk(messages) || !has_room(folder, room)) {
    throw Shortage(fmt::format("{}: ended with exit code {}: the disk of {} is full; {}{}", program.string(),
                               ending.code, parent, kMakeRoom, quoted(messages)));
  }
  if (!first_error(messages).empty()) return;
  user_error("{}: ended with exit code {} and neither code nor an error: is there room in {}? {}{}",
             program.string(), ending.code, parent, kOtherwise, quoted(messages));
}

/// User errors: it cannot be written; a Shortage where the disk is full.
void write_source(const fs::path& source, const std::string& ptx) {
  std::ofstream file(source, std::ios::binary);
  file.write(ptx.data(), static_cast<std::streamsize>(ptx.size()));
  file.close();
  if (file) return;
  const int error = errno;
  const std::string what = fmt::format("{}: cannot be written: {}", source.string(), std::strerror(error));
  if (is_full(error)) throw Shortage(fmt::format("{}; {}", what, kMakeRoom));
  user_error("{}", what);
}

}  // namespace

std::optional<fs::path> find_ptxas() {
  if (const std::string named = environment("GANTRY_PTXAS"); !named.empty()) {
    if (named == "none") return std::nullopt;
    if (!is_program(named)) user_error("GANTRY_PTXAS={}: not a program", named);
    return named;
  }
  if (const auto program = find_program(kProgram)) return program;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string home = environment(variable);
    if (!home.empty() && is_program(fs::path(home) / "bin" / kProgram))
      return fs::path(home) / "bin" / kProgram;
  }
  const fs::path usual = fs::path("/usr/local/cuda/bin") / kProgram;
  if (is_program(usual)) return usual;
  return std::nullopt;
}

std::string ptxas_version(const fs::path& program) {
  const TemporaryFolder folder("ptxas");
  const fs::path log = folder.path() / "version";
  if (!run({program.string(), "--version"}, log).ok()) return "";
  const std::string text = contents_if_readable(log), marker = "release ";
  const size_t at = text.find(marker);
  if (at == std::string::npos) return "";
  const size_t start = at + marker.size();
  return text.substr(start, text.find('\n', start) - start);
}

std::string_view first_error(std::string_view messages) {
  std::string_view first;
  for_each_line(messages, [&](std::string_view line) {
    if (first.empty() &&
        (line.find("error") != std::string_view::npos || line.find("fatal") != std::string_view::npos)) {
      first = line;
    }
  });
  return first;
}

PtxasResult run_ptxas(const fs::path& program, const std::string& ptx, const std::string& arch, int threads) {
  const TemporaryFolder folder("ptxas");
  const fs::path source = folder.path() / "kernels.ptx", cubin = folder.path() / "kernels.cubin",
                 log = folder.path() / "messages";
  write_source(source, ptx);
  std::vector<std::string> command = {program.string(), "-v", "-arch=" + arch,
                                      source.string(),  "-o", cubin.string()};
  if (threads > 1) command.push_back("--split-compile=" + std::to_string(threads));
  PtxasResult result;
  Ending ending = run(command, log);
  result.messages = contents_if_readable(log);
  auto complains_of = [&](const char* option) { return result.messages.find(option) != std::string::npos; };
  if (!ending.ok() && threads > 1 && complains_of("split-compile")) {  // older than CUDA 12
    command.pop_back();
    ending = run(command, log);
    result.messages = contents_if_readable(log);
  }
  if (ending.signal == 0 && ending.code != 0 && complains_of("gpu-name")) {
    result.outcome = PtxasResult::Outcome::kUnknownArchitecture;
    return result;
  }
  const std::string bytes = ending.ok() ? contents_if_readable(cubin) : "";
  if (bytes.empty()) {
    expect_complaint(program, ending, result.messages, folder.path(), room_for(ptx.size()));
    return result;
  }
  result.outcome = PtxasResult::Outcome::kAssembled;
  result.cubin.resize(bytes.size());
  std::memcpy(result.cubin.data(), bytes.data(), bytes.size());
  return result;
}

}  // namespace gantry::cuda
