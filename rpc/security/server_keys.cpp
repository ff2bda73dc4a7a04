#include "rpc/security/server_keys.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>

namespace gantry::rpc {
namespace {

/// An identity in memory of a fixed size; its last byte is 1 for one that is too long to be a key's.
using PaddedIdentity = std::array<char, kMaxIdentity + 1>;

PaddedIdentity padded(std::string_view identity) {
  PaddedIdentity bytes{};
  std::copy_n(identity.begin(), std::min(identity.size(), kMaxIdentity), bytes.begin());
  if (identity.size() > kMaxIdentity) bytes.back() = 1;
  return bytes;
}

}  // namespace

bool ServerKeys::hold(KeySerial serial) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [serial](const Entry& entry) { return entry.serial == serial; });
}

std::string ServerKeys::identity_of(KeySerial serial) const {
  const auto entry = std::ranges::find(entries_, serial, &Entry::serial);
  return entry == entries_.end() ? "" : entry->key.identity;
}

bool ServerKeys::look_up(std::string_view identity, std::span<std::uint8_t, kSecretBytes> secret) {
  offer_ = {std::string(identity), 0};
  if (RAND_bytes(secret.data(), static_cast<int>(secret.size())) != 1) return false;
  const PaddedIdentity wanted = padded(identity);
  for (const Entry& entry : entries_) {
    const PaddedIdentity own = padded(entry.key.identity);
    const auto differs = static_cast<unsigned>(CRYPTO_memcmp(own.data(), wanted.data(), own.size()) != 0);
    const auto take = static_cast<std::uint8_t>(differs - 1);
    for (std::size_t i = 0; i < secret.size(); ++i)
      secret[i] = static_cast<std::uint8_t>((secret[i] & ~take) | (entry.key.secret[i] & take));
    offer_.serial |= entry.serial & (differs - 1);
  }
  return true;
}

void ServerKeys::forget() {
  std::vector<Entry>().swap(entries_);  // a secret that goes is overwritten
  wipe_traces();
}

}  // namespace gantry::rpc
