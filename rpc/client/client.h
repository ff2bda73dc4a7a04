/// A board, as a program on the workstation sees it. Blocking; everything runs on the calling thread.
#ifndef GANTRY_RPC_CLIENT_CLIENT_H
#define GANTRY_RPC_CLIENT_CLIENT_H

#include <filesystem>
#include <memory>

#include "rpc/client/types.h"
#include "rpc/error.h"

namespace gantry::rpc {

/// A module of which every segment lies on the board. Valid for the client that made it.
class ModuleHandle {
 public:
  ModuleHandle();
  ~ModuleHandle();
  ModuleHandle(ModuleHandle&&) noexcept;
  ModuleHandle& operator=(ModuleHandle&&) noexcept;
  const UploadReport& report() const;

 private:
  friend class BoardClient;
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// One connection to a board, which is one session there. Every call throws Error, whose text names the
/// board. After kReconnect the client is of no more use. After kBoard from run() or benchmark() (the module
/// crashed, hung or ran out of memory) the connection lives, but what was loaded is gone: load() again.
/// Belongs to one thread at a time.
class BoardClient {
 public:
  /// Connects, authenticates and agrees on a protocol version.
  static std::unique_ptr<BoardClient> connect(const ConnectOptions& options);
  /// Speaks over a connected stream socket of this machine, which it owns from now on; `options` say the name
  /// for errors (address) and the timeouts.
  static std::unique_ptr<BoardClient> adopt(int socket, const ConnectOptions& options);
  ~BoardClient();
  BoardClient(const BoardClient&) = delete;
  BoardClient& operator=(const BoardClient&) = delete;

  /// "HOST:PORT" as connected.
  const std::string& address() const;
  /// `gpus`: also ask its GPUs, which can take a second.
  BoardInfo board_info(bool gpus = false);
  /// An empty call's round trip.
  std::chrono::nanoseconds ping();

  /// Sends the segments that the board lacks; an earlier upload that was cut off goes on where it stopped, or
  /// begins anew where what it had left is damaged: then the total that `progress` hears grows.
  ModuleHandle upload(const std::filesystem::path& module_file, const UploadProgress& progress = {});
  ModuleHandle upload(std::span<const std::byte> module_file, const UploadProgress& progress = {});

  /// Maps the module on the board and makes its threads.
  LoadedModule load(const ModuleHandle& module, const LoadOptions& options = {});
  /// Sends the module's whole file and keeps nothing of it on the board; for boards from 0.2 on.
  LoadedModule load_whole(std::span<const std::byte> module_file, const LoadOptions& options = {});
  void unload(std::uint32_t handle);

  /// `bytes`: dense row-major. Throws kRequest if type or shape contradict the model.
  void set_input(std::uint32_t handle, std::int32_t index, ElementType type,
                 std::span<const std::int64_t> shape, std::span<const std::byte> bytes);
  /// Runs once. deadline 0: the board's longest.
  RunTime run(std::uint32_t handle, std::chrono::milliseconds deadline = {});
  /// Output of the last run.
  Tensor get_output(std::uint32_t handle, std::int32_t index);
  /// Whether its gantry-device knows leases. Where it does not, the four calls below throw kRequest, and
  /// others may measure at the same time.
  bool has_leases() const;
  /// Waits until this session may measure alone, it and those that join_lease(). Again, while it holds the
  /// lease: gives way, if it is to, and waits for its next turn. Ends with the connection. Throws kRetry
  /// where `longest_wait` is over.
  Lease take_lease(const LeaseOptions& options, const LeaseProgress& progress = {});
  /// From now on this session's benchmarks run under that lease, and wait for it where it was lost. Throws
  /// kRetry where there is no such lease any more.
  void join_lease(std::uint64_t token, LeaseProgress progress = {});
  void release_lease();
  /// Who measures on the board, and who waits to.
  MeasuringQueue leases();

  /// Times the module on the board with the inputs that were set. A session without a lease waits for others
  /// half of its deadline at most.
  BenchmarkResult benchmark(std::uint32_t handle, const BenchmarkOptions& options,
                            const BenchmarkProgress& progress = {});

 private:
  struct Impl;
  explicit BoardClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry::rpc
#endif
