#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/board_machine.h"
#include "host/support/cleanup.h"
#include "host/support/error.h"
#include "host/support/program.h"
#include "rpc/protocol/local.h"

namespace gantry::cli {
namespace {

/// The one that came with this gantry, or what $GANTRY_DEVICE says.
std::filesystem::path device_program() {
  if (const char* given = std::getenv("GANTRY_DEVICE"); given != nullptr && *given != '\0') return given;
  return own_folder() / "gantry-device";
}

/// A gantry-device that serves this process only, over a socket pair, and ends when that closes.
class DeviceProcess {
 public:
  /// `words`: the program's name, and what comes before the server's command.
  DeviceProcess(const std::filesystem::path& program, std::vector<std::string> words) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail(program, errno);
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    // Its copy is not closed on exec; a descriptor that has that number already is duplicated onto itself,
    // which clears the flag too.
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], rpc::kLocalSocket);
    words.emplace_back(rpc::kLocalCommand);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    child_.emplace(program, arguments.data(), actions, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (child_->error() != 0) {
      ::close(socket_);
      fail(program, child_->error());
    }
  }
  DeviceProcess(const DeviceProcess&) = delete;
  DeviceProcess& operator=(const DeviceProcess&) = delete;
  ~DeviceProcess() {
    if (socket_ >= 0) ::close(socket_);
    // It ends by itself when its socket closes.
    if (child_->ends_within(std::chrono::seconds(2))) child_->wait();
  }

  /// The connection to it; the caller's from now on.
  int take_socket() {
    const int socket = socket_;
    socket_ = -1;
    return socket;
  }

 private:
  [[noreturn]] static void fail(const std::filesystem::path& program, int error) {
    user_error(
        "{}: cannot be started: {}; running a model needs gantry-device, which is installed beside gantry "
        "(or set "
        "GANTRY_DEVICE to its path)",
        program.string(), std::strerror(error));
  }

  std::optional<cleanup::Child> child_;
  int socket_ = -1;
};

/// Models run in a process of their own: what crashes there is named and costs nothing here, and neither this
/// program's memory nor what it has done before shows in what is measured.
class LocalMachine : public BoardMachine {
 public:
  LocalMachine(std::unique_ptr<DeviceProcess> process, const std::string& label)
      : BoardMachine(connect(*process, label), label, "", Sending::kWhole), process_(std::move(process)) {}
  ~LocalMachine() override { disconnect(); }

 private:
  static std::unique_ptr<rpc::BoardClient> connect(DeviceProcess& process, const std::string& label) {
    rpc::ConnectOptions options;
    options.label = label;
    options.connect_timeout = std::chrono::seconds(60);  // this machine may be busy
    return rpc::BoardClient::adopt(process.take_socket(), options);
  }

  std::unique_ptr<DeviceProcess> process_;
};

}  // namespace

std::unique_ptr<Machine> this_machine() {
  return std::make_unique<LocalMachine>(
      std::make_unique<DeviceProcess>(device_program(), std::vector<std::string>{"gantry-device"}), "this machine");
}

std::unique_ptr<Machine> emulated_machine(const std::string& architecture, const std::filesystem::path& program) {
  const std::string name = "qemu-" + architecture;
  const auto emulator = find_program(name);
  if (!emulator) user_error("running code for {} here needs the program {}; install qemu-user", architecture, name);
  return std::make_unique<LocalMachine>(
      std::make_unique<DeviceProcess>(*emulator, std::vector<std::string>{name, program.string()}),
      "this machine, under " + name);
}

}  // namespace gantry::cli
