#include "rpc/security/tls.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace gantry::rpc {
namespace {

unsigned client_psk(SSL* ssl, const char*, char* identity, unsigned max_identity, unsigned char* psk,
                    unsigned max_psk) {
  const auto& key = *static_cast<const PskKey*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  if (key.identity.size() + 1 > max_identity || key.secret.size() > max_psk) return 0;
  std::memcpy(identity, key.identity.c_str(), key.identity.size() + 1);
  std::copy(key.secret.begin(), key.secret.end(), psk);
  return static_cast<unsigned>(key.secret.size());
}

unsigned server_psk(SSL* ssl, const char* identity, unsigned char* psk, unsigned max_psk) {
  if (max_psk < kSecretBytes) return 0;
  const std::span<std::uint8_t, kSecretBytes> secret(psk, kSecretBytes);
  return keys_of(SSL_get_SSL_CTX(ssl)).look_up(identity, secret) ? unsigned{kSecretBytes} : 0;
}

/// `data` is for the context's callbacks.
template <typename Data>
TlsContext make_context(const SSL_METHOD* method, std::shared_ptr<Data> data) {
  SSL_CTX* raw = SSL_CTX_new(method);
  if (!raw) throw std::bad_alloc();
  TlsContext context(raw, [data](SSL_CTX* doomed) { SSL_CTX_free(doomed); });
  SSL_CTX_set_app_data(raw, data.get());
  SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION);
  // Suites whose hash is SHA-256, as the key's; the second is for boards without AES instructions.
  if (SSL_CTX_set_ciphersuites(raw, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") != 1)
    throw TlsError(TlsError::Reason::kOther, "OpenSSL does not offer the cipher suites that gantry needs");
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_default_read_buffer_len(raw, 128 * 1024);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  return context;
}

}  // namespace

TlsContext make_client_context(const PskKey& key) {
  TlsContext context = make_context(TLS_client_method(), std::make_shared<PskKey>(key));
  SSL_CTX_set_psk_client_callback(context.get(), client_psk);
  // The key authenticates the server; without it no certificate would be believed either.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

TlsContext make_server_context(std::shared_ptr<ServerKeys> keys) {
  TlsContext context = make_context(TLS_server_method(), std::move(keys));
  SSL_CTX_set_psk_server_callback(context.get(), server_psk);
  SSL_CTX_set_num_tickets(context.get(), 0);
  return context;
}

ServerKeys& keys_of(ssl_ctx_st* server_context) {
  return *static_cast<ServerKeys*>(SSL_CTX_get_app_data(server_context));
}

void forget_key(ssl_st* connection) {
  const Secret nothing;
  if (SSL_SESSION* session = SSL_get_session(connection))
    SSL_SESSION_set1_master_key(session, nothing.data(), nothing.size());
}

TlsError take_tls_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  char text[256] = "the connection broke off";
  if (code != 0) ERR_error_string_n(code, text, sizeof text);
  auto reason = TlsError::Reason::kOther;
  switch (ERR_GET_REASON(code)) {
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY:
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
      reason = TlsError::Reason::kKeyRefused;
      break;
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
      reason = TlsError::Reason::kPeerHasNoKey;
      break;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
      reason = TlsError::Reason::kNotTls;
      break;
    default:
      break;
  }
  return TlsError(reason, text);
}

}  // namespace gantry::rpc
