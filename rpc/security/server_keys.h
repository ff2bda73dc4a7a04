/// The keys of those who may use a board.
#ifndef GANTRY_RPC_SECURITY_SERVER_KEYS_H
#define GANTRY_RPC_SECURITY_SERVER_KEYS_H

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/security/key.h"

namespace gantry::rpc {

/// Names a key for as long as a server runs: another secret under the same identity has another serial. 0:
/// none.
using KeySerial = std::uint32_t;

class ServerKeys {
 public:
  struct Entry {
    PskKey key;
    KeySerial serial = 0;
    std::filesystem::path file;
  };
  /// What a peer has offered.
  struct Offer {
    std::string identity;  ///< foreign text; "": nothing so far
    KeySerial serial = 0;  ///< of the key with this identity; whether the peer holds it, the handshake tells
  };

  const std::vector<Entry>& entries() const { return entries_; }
  void set(std::vector<Entry> entries) { entries_ = std::move(entries); }
  bool hold(KeySerial serial) const;
  /// Of the key with that serial; "": there is none.
  std::string identity_of(KeySerial serial) const;
  /// Sets the secret of this identity or, where there is none, random bytes that no peer has: the handshake
  /// then fails as with a wrong key. Takes as long for either. False if there is no randomness.
  bool look_up(std::string_view identity, std::span<std::uint8_t, kSecretBytes> secret);
  /// What was looked up last, in this process.
  const Offer& offer() const { return offer_; }
  /// Wipes the keys.
  void forget();

 private:
  std::vector<Entry> entries_;  // identities are unique
  Offer offer_;
};

}  // namespace gantry::rpc
#endif
