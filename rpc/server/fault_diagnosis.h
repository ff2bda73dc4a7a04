/// Finds out which kernel of a session faulted on a GPU, where the executor that it killed could not tell.
#ifndef GANTRY_RPC_SERVER_FAULT_DIAGNOSIS_H
#define GANTRY_RPC_SERVER_FAULT_DIAGNOSIS_H

#include <map>
#include <optional>
#include <string>

#include "rpc/server/executor_process.h"

namespace gantry::rpc {

/// Whether the module is to be loaded for a GPU.
bool is_on_gpu(const wire::LoadModuleT& load);

/// Remembers what brought a module to its state: the requests that loaded it and set its inputs, with their
/// data. After a fault a fresh executor gets the same, and runs it kernel by kernel.
class FaultDiagnosis {
 public:
  /// `setup` must outlive the object.
  FaultDiagnosis(asio::any_io_executor executor, const ExecutorSetup& setup);

  /// A request that was answered without an error. The attachments are the caller's; they are duplicated
  /// where needed.
  void note(const wire::RequestT& request, const Attachments& attachments, const wire::ResponseT& answer);
  /// Everything that was loaded is gone.
  void forget() { loaded_.clear(); }
  /// Runs again what ran under `handle`: a text to append to the error. Throws nothing.
  asio::awaitable<std::string> run_again(std::uint32_t handle, std::chrono::milliseconds deadline);
  /// Ends a run_again() that waits: its client is gone.
  void kill() noexcept;

 private:
  struct Request {
    wire::RequestT request;
    Attachments attachments;
  };
  struct Loaded {
    Request load;
    std::map<int, Request> inputs;
  };
  asio::awaitable<wire::ResponseT> ask(const Request& request, std::chrono::milliseconds deadline);

  asio::any_io_executor executor_;
  const ExecutorSetup& setup_;
  std::map<std::uint32_t, Loaded> loaded_;
  std::optional<ExecutorProcess> process_;  ///< while run_again() runs
  bool killed_ = false;
};

}  // namespace gantry::rpc
#endif
