/// Whether a peer gets a session: what a session's process asks of its parent, and what peers and the log are
/// told.
#ifndef GANTRY_RPC_SERVER_ADMISSION_H
#define GANTRY_RPC_SERVER_ADMISSION_H

#include <asio/awaitable.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <optional>
#include <string>

#include "rpc/protocol/message.h"
#include "rpc/security/server_keys.h"
#include "rpc/security/tls.h"

namespace gantry::rpc {

/// A session's process asks once, in a message of its own, when its peer has authenticated.
struct AskAdmission {
  KeySerial key = 0;  ///< that the peer holds; 0 for a server without keys
};
/// What the parent tells it, a byte a message.
inline constexpr char kAdmitted = 'y';
inline constexpr char kFull = 'n';
inline constexpr char kKeyRevoked = 'r';  ///< the peer's key is not accepted any longer: say so and end
inline constexpr char kShutDown = 's';    ///< finish the running request, then end
inline constexpr char kEndNow = 'e';      ///< say so to the client and end, whatever runs

/// None: it is admitted. Else why not. `parent` need not be open: then nobody is asked.
asio::awaitable<std::optional<wire::ResponseT>> ask_admission(asio::posix::stream_descriptor& parent,
                                                              const ServerKeys::Offer& key,
                                                              std::uint32_t max_sessions);

/// For the peer: its key is gone.
std::string revocation_of(const ServerKeys::Offer& key);

/// For the log: why the peer that offered this could not authenticate.
std::string complaint_about(const ServerKeys::Offer& offer, const TlsError& error);

}  // namespace gantry::rpc
#endif
