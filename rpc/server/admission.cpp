#include "rpc/server/admission.h"

#include <asio/use_awaitable.hpp>

namespace gantry::rpc {

asio::awaitable<std::optional<wire::ResponseT>> ask_admission(asio::posix::stream_descriptor& parent,
                                                              const ServerKeys::Offer& key,
                                                              std::uint32_t max_sessions) {
  if (!parent.is_open()) co_return std::nullopt;
  AskAdmission question{key.serial};
  char answer = 0;
  co_await parent.async_write_some(asio::buffer(&question, sizeof question), asio::use_awaitable);
  co_await parent.async_read_some(asio::buffer(&answer, 1), asio::use_awaitable);
  if (answer == kAdmitted) co_return std::nullopt;
  if (answer == kKeyRevoked) co_return make_failure(ErrorKind::kReconnect, revocation_of(key));
  co_return make_failure(
      ErrorKind::kRetry,
      "it serves " + std::to_string(max_sessions) +
          " sessions already; try again later, or start gantry-device with a larger --max-sessions");
}

std::string revocation_of(const ServerKeys::Offer& key) {
  return "its key was revoked ('" + key.identity + "'): ask whoever runs the board for another one";
}

std::string complaint_about(const ServerKeys::Offer& offer, const TlsError& error) {
  if (error.reason() != TlsError::Reason::kKeyRefused) return error.what();
  if (offer.identity.empty()) return "the peer has no key, not this server's";
  const std::string named = "the peer has a key named '" + offer.identity + "'";
  return named + (offer.serial == 0 ? ", not this server's" : ", but not this server's key of that name");
}

}  // namespace gantry::rpc
