#ifndef GANTRY_RPC_ERROR_H
#define GANTRY_RPC_ERROR_H

#include <stdexcept>
#include <string>

namespace gantry::rpc {

/// What the caller should do about a failure.
enum class ErrorKind : unsigned char {
  kRetry,      ///< the board is busy, its disk is full, or a deadline passed: the same call may succeed later
  kReconnect,  ///< the connection or the board is gone: connect again, check address, key and network
  kBoard,      ///< the board could not do it: the module crashed there, memory ran out
  kRequest,    ///< the request is wrong: fix the input
  kBug,        ///< gantry broke its own protocol: report it
};

/// A failed remote call. what() names the board and says what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, bool unsupported = false)
      : std::runtime_error(message), kind_(kind), unsupported_(unsupported) {}
  ErrorKind kind() const { return kind_; }
  /// Whether one of the two ends is too old to know what the other sent: an older way may do.
  bool unsupported() const { return unsupported_; }

 private:
  ErrorKind kind_;
  bool unsupported_;
};

/// Exit code of a program that ends with this error: 1 the user's request, 2 board or network, 3 a bug.
constexpr int exit_code(ErrorKind kind) {
  return kind == ErrorKind::kRequest ? 1 : kind == ErrorKind::kBug ? 3 : 2;
}

}  // namespace gantry::rpc
#endif
