/// What a server says of itself on the local network, so that workstations find it without its address.
#ifndef GANTRY_RPC_SERVER_ANNOUNCEMENT_H
#define GANTRY_RPC_SERVER_ANNOUNCEMENT_H

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpc/server/child_process.h"
#include "rpc/server/log.h"
#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// A service of type kServiceType (RFC 6763).
struct AnnouncedService {
  std::string name;               ///< as people see it; see checked_service_name()
  std::uint16_t port = 0;         ///< of TCP
  std::vector<std::string> text;  ///< "KEY=VALUE", each
};

/// This machine's name where the user has given none. Throws Error(kRequest) for a name that is empty, longer
/// than 63 bytes (RFC 6763, 4.1.1), no UTF-8, or has control characters.
std::string checked_service_name(std::string name);

/// Owns `avahi-publish-service`, which has Avahi announce the service for as long as it runs, and starts it
/// again where it ends: the announcement is an extra, without which the server serves on. It ends with the
/// object, and with the server's process, however that ends. The program learns what is announced and no
/// more: it has no descriptors of the server's and three variables of its environment.
class Announcement {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts nothing yet. For a process with one thread that has open_signal_pipe() behind it.
  Announcement(AnnouncedService service, Log log) : service_(std::move(service)), log_(std::move(log)) {}

  /// What to wait for with poll(): the program says something or is gone. -1: nothing to wait for.
  int descriptor() const { return output_.get(); }
  /// When it is to be started; none while it runs.
  std::optional<Clock::time_point> start_at() const { return start_at_; }
  /// Starts it if it is time.
  void start_if_due(Clock::time_point now);
  /// Reports what it says; where it has ended, says so and plans the next start.
  void read(Clock::time_point now);

 private:
  bool start(const std::string& program);
  void report(const std::string& line);
  void failed(const std::string& why, Clock::time_point now);

  AnnouncedService service_;
  Log log_;
  ChildProcess process_;
  UniqueFd output_;            // the program's stdout and stderr
  std::string unread_, last_;  // the line that is not whole yet; the last one
  std::string reported_;       // the failure that the log has already
  std::optional<Clock::time_point> start_at_ = Clock::time_point{};
  std::chrono::seconds pause_{};
};

}  // namespace gantry::rpc
#endif
