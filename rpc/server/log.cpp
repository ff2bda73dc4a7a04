#include "rpc/server/log.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <cstdio>

#include "rpc/visible_text.h"

namespace gantry::rpc {
namespace {

/// A pipe takes up to 4096 bytes whole or, where it says that it is ready, at once.
constexpr std::size_t kMaxLine = 4000;

std::string utc_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  char date[32], text[48];
  ::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%03ldZ", date, now.tv_nsec / 1'000'000);
  return text;
}

const char* name_of(LogLevel level) {
  return level == LogLevel::kError ? "error" : level == LogLevel::kWarning ? "warning" : "info";
}

/// Whether it could be written without waiting.
bool write_at_once(const std::string& line) {
  pollfd stream{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&stream, 1, 0) <= 0 || (stream.revents & POLLOUT) == 0) return false;
  ssize_t count = 0;
  while ((count = ::write(STDERR_FILENO, line.data(), line.size())) < 0 && errno == EINTR) {
  }
  return count >= 0;
}

}  // namespace

void Log::write(LogLevel level, std::string_view text) {
  if (level > least_) return;
  std::string line = utc_now() + " " + name_of(level) + " " + peer_ + " " + key_ + " ";
  if (lost_ > 0) line += "(" + std::to_string(lost_) + " lines before this one are lost) ";
  line += visible_text(text, Lines::kOne);
  if (line.size() > kMaxLine) line = line.substr(0, kMaxLine) + "...";
  lost_ = write_at_once(line + "\n") ? 0 : lost_ + 1;
}

std::string peer_of(int socket) {
  asio::ip::tcp::endpoint endpoint;
  socklen_t length = static_cast<socklen_t>(endpoint.capacity());
  if (::getpeername(socket, endpoint.data(), &length) != 0) return "-";
  const int family = endpoint.data()->sa_family;
  if (family != AF_INET && family != AF_INET6) return "-";
  endpoint.resize(length);
  asio::ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return host + ":" + std::to_string(endpoint.port());
}

}  // namespace gantry::rpc
