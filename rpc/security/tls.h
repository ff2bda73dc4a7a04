/// TLS 1.3 with pre-shared keys: both ends prove that they hold the same one, and a fresh key encrypts each
/// connection.
#ifndef GANTRY_RPC_SECURITY_TLS_H
#define GANTRY_RPC_SECURITY_TLS_H

#include <memory>
#include <stdexcept>
#include <string>

#include "rpc/security/key.h"
#include "rpc/security/server_keys.h"

struct ssl_ctx_st;
struct ssl_st;

namespace gantry::rpc {

using TlsContext = std::shared_ptr<ssl_ctx_st>;
TlsContext make_client_context(const PskKey& key);
/// `keys` may change; a handshake takes them as they are.
TlsContext make_server_context(std::shared_ptr<ServerKeys> keys);
/// Those of a server's context.
ServerKeys& keys_of(ssl_ctx_st* server_context);
/// After a handshake: OpenSSL has the key in what it would give out tickets for; it does not any longer.
void forget_key(ssl_st* connection);

/// A failed TLS operation, with what the other side seems to have against it.
class TlsError : public std::runtime_error {
 public:
  enum class Reason { kOther, kKeyRefused, kPeerHasNoKey, kNotTls };
  TlsError(Reason reason, const std::string& message) : std::runtime_error(message), reason_(reason) {}
  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};
/// The error in OpenSSL's queue of this thread, which is emptied.
TlsError take_tls_error();

/// The TLS alert record with which a server that has no key answers a TLS client: level fatal,
/// no_application_protocol(120), which gantry's TLS never sends otherwise.
inline constexpr unsigned char kNoKeyAlert[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x78};

}  // namespace gantry::rpc
#endif
