/// Names of signals that end a program. glibc's own sigabbrev_np is too new for the oldest systems served (2.32).
#ifndef GANTRY_RPC_SIGNAL_NAME_H
#define GANTRY_RPC_SIGNAL_NAME_H

#include <csignal>
#include <string>
#include <utility>

namespace gantry::rpc {

/// "SIGSEGV", "signal 42"
inline std::string signal_name(int number) {
  static constexpr std::pair<int, const char*> kNames[] = {
      {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},   {SIGABRT, "SIGABRT"},
      {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"},   {SIGKILL, "SIGKILL"}, {SIGXCPU, "SIGXCPU"}, {SIGTERM, "SIGTERM"},
      {SIGINT, "SIGINT"},   {SIGPIPE, "SIGPIPE"}, {SIGHUP, "SIGHUP"},   {SIGQUIT, "SIGQUIT"}};
  for (const auto& [known, name] : kNames) {
    if (known == number) return name;
  }
  return "signal " + std::to_string(number);
}

}  // namespace gantry::rpc

#endif  // GANTRY_RPC_SIGNAL_NAME_H
