#include "rpc/server/session_life.h"

#include <cstdio>

namespace gantry::rpc {

std::optional<std::string> SessionLife::summary() const {
  if (!started_) return std::nullopt;
  const std::chrono::duration<double> lasted = Clock::now() - *started_;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f", lasted.count());
  return "session ended after " + std::string(seconds) +
         " s: " + (end_.empty() ? "the client closed the connection" : end_);
}

}  // namespace gantry::rpc
