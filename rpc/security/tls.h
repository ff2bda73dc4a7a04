/// TLS 1.3 with one pre-shared key: both ends prove that they hold it, and a fresh key encrypts each
/// connection.
#ifndef GANTRY_RPC_SECURITY_TLS_H
#define GANTRY_RPC_SECURITY_TLS_H

#include <memory>
#include <stdexcept>
#include <string>

#include "rpc/security/key.h"

struct ssl_ctx_st;

namespace gantry::rpc {

using TlsContext = std::shared_ptr<ssl_ctx_st>;
TlsContext make_client_context(const PskKey& key);
TlsContext make_server_context(const PskKey& key);

/// The identity of the key that the last peer of a server's context offered, in this process; "" if none has
/// come so far. Foreign text.
const std::string& offered_identity();

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
