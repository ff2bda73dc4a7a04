#include "host/support/shortened_file.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "host/support/cleanup.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// The file that is mapped at an address to be read, not to be written or run; empty where there is none.
std::string file_at(uintptr_t address) {
  std::ifstream mappings("/proc/self/maps");
  for (std::string line; std::getline(mappings, line);) {
    uintptr_t begin = 0, end = 0;
    char rights[5] = "";
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, rights) != 3) continue;
    if (address < begin || address >= end) continue;
    const size_t path = line.find('/');
    return path == std::string::npos || !std::string_view(rights).starts_with("r--") ? "" : line.substr(path);
  }
  return "";
}

void write_error(std::string text) {
  // A model may have chosen the file's name: nothing in it steers a terminal.
  for (char& letter : text)
    if (static_cast<unsigned char>(letter) < ' ' || letter == 127) letter = '?';
  // A line of progress may stand there.
  const std::string line =
      fmt::format("{}gantry: error: {}\n", ::isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "", text);
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

// What reads mapped bytes holds no lock of the allocator's, so this may be ordinary code.
void on_bus_error(int number, siginfo_t* info, void* /*context*/) {
  static std::atomic_flag ending;
  const std::string file =
      info->si_code == BUS_ADRERR ? file_at(reinterpret_cast<uintptr_t>(info->si_addr)) : "";
  if (file.empty()) {
    ::signal(number, SIG_DFL);
    ::raise(number);  // once this has returned
    return;
  }
  while (ending.test_and_set()) ::pause();  // another thread does it
  write_error(fmt::format(
      "{}: the file has become shorter while gantry was reading it; start again when nobody writes to it",
      file));
  cleanup::end_process(static_cast<int>(ErrorKind::kUser));
}

}  // namespace

void report_shortened_files() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace gantry
