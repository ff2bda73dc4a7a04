#include "host/cli/boards/board_work.h"

#include <fstream>
#include <span>
#include <sstream>

#include "device_runtime/src/sha256.h"
#include "host/cli/boards/first_check.h"
#include "host/cli/text.h"
#include "host/support/error.h"
#include "host/support/input_file.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

using std::chrono::seconds;

constexpr seconds kShort{60};
/// A slow board reads and hashes some MiB, and a slow network carries them.
constexpr seconds kLong{900};
/// How the scripts are asked for more time, and told that all is well: 8 bytes each.
constexpr const char* kWaiting = "waiting\n";

/// The error with more text, of the same kind.
[[noreturn]] void rethrow_with(const std::string& more) {
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.kind(), error.what() + more);
  } catch (const rpc::Error& error) {
    throw rpc::Error(error.kind(), error.what() + more);
  }
}

std::string outcome_text(const std::string& outcome, const std::string& label) {
  if (outcome == "undone") return "; nothing of it is left on the board";
  if (outcome == "restored") return "; the old program is back and runs";
  if (outcome.empty()) return "; the board undoes it by itself";
  return fmt::format("; {}: undoing it: {}", label, visible_line(outcome));
}

}  // namespace

void Steps::done(const std::string& what) {
  progress_.clear();
  if (!invocation_.quiet) {
    print_out(fmt::format("{:7.2f} s  {}\n", step_.seconds(), what));
    std::fflush(stdout);
  }
  step_ = Stopwatch();
}

std::string header_entry(std::string_view contents) {
  return fmt::format("{} {}", contents.size(),
                     runtime::to_hex(runtime::sha256(std::as_bytes(std::span(contents)))));
}

void begin_script(BoardShell& shell, const std::string& script, const std::string& verb, bool sudo,
                  const std::string& header) {
  shell.go_on_with(script, verb, sudo);
  shell.expect("ready", kShort);
  shell.send(header + "end\n");
}

void send_file(BoardShell& shell, const std::string& name, std::string_view contents,
               const std::function<void(size_t)>& progress) {
  const std::string wanted = shell.expect("send", kShort);
  internal_check(wanted == name, "the script asks for '{}' before '{}'", wanted, name);
  shell.send(contents, progress);
}

std::string send_program(BoardShell& shell, const DeviceProgram& program, Steps& steps) {
  const std::string contents = read_program(program);
  send_file(shell, "gantry-device", contents, [&](size_t sent) {
    steps.doing(fmt::format("sending: {} of {}", bytes_text(static_cast<double>(sent)),
                            bytes_text(static_cast<double>(contents.size()))),
                static_cast<double>(sent) / static_cast<double>(contents.size()));
  });
  return visible_line(shell.expect("version", kLong));
}

void check_board(BoardShell& shell, const std::string& label, const std::string& address,
                 const rpc::PskKey& key, Steps& steps, const Invocation& invocation) {
  shell.send(kWaiting);
  steps.doing("connecting to " + address);
  const std::unique_ptr<Machine> machine = connect_with_key(label, address, key);
  machine->info();
  steps.done(fmt::format("connected to {} with the key", address));
  shell.send(kWaiting);
  steps.doing(fmt::format("compiling {} for it", kCheckNetwork));
  const runtime::SharedBytes module = compile_check(*machine, invocation);
  steps.done(fmt::format("compiled {} for exactly this board", kCheckNetwork));
  shell.send(kWaiting);
  steps.doing("running it there");
  const double median = time_check(*machine, module);
  steps.done(fmt::format("ran it there: {0} ({1} x {1}) takes {2}", kCheckNetwork, kCheckSize,
                         duration_text(median)));
}

void undo_where_it_fails(BoardShell& shell, const std::string& label, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception&) {
    rethrow_with(outcome_text(shell.undo(), label));
  }
}

std::string read_program(const DeviceProgram& program) {
  std::ifstream file(program.path, std::ios::binary);
  if (!file) cannot_read(program.path, errno);
  std::ostringstream contents;
  contents << file.rdbuf();
  if (!file || contents.view().size() != program.bytes)
    user_error("{}: has changed while it was read; try again", program.path.string());
  return std::move(contents).str();
}

}  // namespace gantry::cli
