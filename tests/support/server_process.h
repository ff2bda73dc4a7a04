/// gantry-device as a process of its own, for tests over real sockets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rpc/server/child_process.h"

namespace gantry::testing {

/// A directory that is removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ServerProcess {
 public:
  /// Starts `gantry-device serve --listen 127.0.0.1:0` with more arguments, maybe another --listen with an
  /// IPv4 address, and waits until it listens. `program`: another one than this build's, as an emulator and
  /// what it runs: "qemu-aarch64 gantry-device".
  explicit ServerProcess(const std::vector<std::string>& arguments = {}, const std::string& program = {});
  /// Ends it if it still runs.
  ~ServerProcess();
  std::uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int pid() const { return process_.pid(); }
  void kill() { process_.kill(); }
  /// SIGTERM, then its exit code; -1 if a signal ended it, or if it has been stopped before.
  int stop();
  /// Open ones of the server itself; 0 for all but root, from whom alone a server does not hide: test with
  /// shows_descriptors().
  std::size_t descriptors() const;
  bool shows_descriptors() const;
  std::size_t resident_kilobytes() const;
  /// What it and its sessions have printed on stderr so far; shown in full when the object goes.
  std::string errors() const;
  /// Itself and the processes that it has started and that still live, theirs included; sessions come before
  /// executors.
  std::vector<int> processes() const;
  std::size_t descendants() const { return processes().size() - 1; }

 private:
  TemporaryDirectory cache_;
  rpc::ChildProcess process_;
  std::uint16_t port_ = 0;
};

/// Runs the program with arguments; returns its exit code and what it printed on both streams.
std::pair<int, std::string> run_device(const std::vector<std::string>& arguments);

}  // namespace gantry::testing
