// Where a module runs: this machine or a board, behind one interface.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device_runtime/src/memory.h"
#include "host/cli/boards_file.h"
#include "host/cli/tensor_text.h"
#include "rpc/client/types.h"

namespace gantry::cli {

/// A machine with at most one module loaded. Errors: gantry::Error of kind kUser for inputs that do not fit,
/// rpc::Error or gantry::Error of kind kBoard for what failed there. Belongs to one thread.
class Machine {
 public:
  virtual ~Machine() = default;
  /// "this machine", or "pi (192.168.1.20:7453)".
  virtual std::string label() const = 0;
  /// HOST:PORT; empty for this machine.
  virtual std::string address() const { return ""; }
  virtual const rpc::BoardInfo& info() = 0;
  /// info() with what the machine's GPUs say of themselves, which can take a second.
  virtual const rpc::BoardInfo& info_with_gpus() = 0;

  /// Loads a module file's bytes (which start at a multiple of 64) and drops what was loaded before.
  virtual const rpc::LoadedModule& load(const runtime::SharedBytes& module, const rpc::LoadOptions& options,
                                        const rpc::UploadProgress& progress) = 0;
  virtual void set_input(int index, const HostTensor& tensor) = 0;
  /// Runs once; the time that it took there.
  virtual rpc::RunTime run() = 0;
  /// Output of the last run.
  virtual HostTensor output(int index) = 0;
  virtual rpc::BenchmarkResult benchmark(const rpc::BenchmarkOptions& options,
                                         const rpc::BenchmarkProgress& progress) = 0;
  /// Its benchmarks run under a lease that this user has taken on the board; `progress` hears where they wait
  /// for it.
  virtual void join_lease(uint64_t, const rpc::LeaseProgress&) {}
  /// Who measures there; none where nobody counts them.
  virtual std::optional<rpc::MeasuringQueue> leases() { return std::nullopt; }
};

/// The machine that this program runs on: a gantry-device of its own, which ends with the result. User error
/// where that program is missing.
std::unique_ptr<Machine> this_machine();
/// This machine as one of another architecture ("aarch64"), whose gantry-device `program` runs under qemu's emulation
/// of a user's process. User error where qemu's program for it is not on the path.
std::unique_ptr<Machine> emulated_machine(const std::string& architecture,
                                          const std::filesystem::path& program);
/// Connects; errors say what could not be reached and why.
std::unique_ptr<Machine> connect_board(const BoardChoice& board);

}  // namespace gantry::cli
