/// What the server reports of itself: a line an event, on stderr.
#ifndef GANTRY_RPC_SERVER_LOG_H
#define GANTRY_RPC_SERVER_LOG_H

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace gantry::rpc {

/// How grave an event is; also the least grave that is reported.
enum class LogLevel : unsigned char { kError, kWarning, kInfo };

/// Writes "TIME LEVEL PEER KEY TEXT": UTC as ISO 8601 with milliseconds; "error", "warning" or "info"; the
/// peer's ADDRESS:PORT and the identity of the key that it has shown to hold, "-" for none. Control
/// characters in the text are made visible. A line goes out in one write(), so that those of several
/// processes do not mix, and none is kept back. Where nobody reads stderr, lines are left out rather than
/// waited for: the next one that fits says how many.
class Log {
 public:
  explicit Log(LogLevel least, std::string peer = "-") : least_(least), peer_(std::move(peer)) {}
  /// The peer has shown that it holds this key.
  void set_key(const std::string& identity) { key_ = identity; }
  void error(const std::string& text) { write(LogLevel::kError, text); }
  void warning(const std::string& text) { write(LogLevel::kWarning, text); }
  void info(const std::string& text) { write(LogLevel::kInfo, text); }
  const std::string& peer() const { return peer_; }
  /// "192.168.1.5" of "192.168.1.5:40122".
  std::string peer_address() const { return peer_.substr(0, peer_.rfind(':')); }

 private:
  void write(LogLevel level, std::string_view text);

  LogLevel least_;
  std::string peer_;
  std::string key_ = "-";
  std::size_t lost_ = 0;
};

/// "192.168.1.5:40122", "[fe80::1]:40122"; "-" where the socket has no such peer.
std::string peer_of(int socket);

}  // namespace gantry::rpc
#endif
