// What a session's executor does for it. Private to rpc/server.
#pragma once

#include <string>

#include "rpc/server/executor_process.h"
#include "rpc/server/fault_diagnosis.h"
#include "rpc/server/measured_beside.h"
#include "rpc/server/session_parts.h"

namespace gantry::rpc {

/// Serves one request after another, with an executor where it takes one, and keeps account of what is loaded
/// in it.
class SessionExecution {
 public:
  SessionExecution(asio::io_context& io, SessionParts& session);

  /// Answers the request, with a failure where it fails. Throws what broke the connection.
  asio::awaitable<void> execute(SessionWork work);
  /// Ends the executor at once; what waits for it fails.
  void kill() noexcept;

 private:
  asio::awaitable<void> execute_and_answer(SessionWork& work);
  asio::awaitable<void> measure_and_answer(SessionWork& work);
  asio::awaitable<void> ask_executor(SessionWork& work);
  Attachments attachments_of(SessionWork& work);
  asio::awaitable<void> tell_beside(std::uint32_t id);
  asio::awaitable<void> look_into(const SessionWork& work, const Attachments& attachments,
                                  const wire::ResponseT& response, Finish finish);
  asio::awaitable<std::string> run_again(const SessionWork& work, std::chrono::milliseconds most);
  void forget_loaded();
  void report_gaps();
  void report_load(const wire::LoadModuleT& load, const wire::ResponseT& response);

  SessionParts& session_;
  ExecutorSetup setup_;
  ExecutorProcess executor_;
  FaultDiagnosis diagnosis_;
  MeasuredBeside beside_;
  bool gaps_reported_ = false;
};

}  // namespace gantry::rpc
