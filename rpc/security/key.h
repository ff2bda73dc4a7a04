#ifndef GANTRY_RPC_SECURITY_KEY_H
#define GANTRY_RPC_SECURITY_KEY_H

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

namespace gantry::rpc {

/// A pre-shared key: whoever holds it may use the board.
struct PskKey {
  std::string identity;  ///< names the key in messages; sent in clear during the handshake
  std::array<std::uint8_t, 32> secret{};
};

/// A fresh key from the operating system's random generator. `identity` of 1 to 64 letters, digits, '.', '-',
/// '_'; empty: a random one. Throws Error(kRequest) on another identity.
PskKey generate_key(std::string identity = {});

/// What a key file holds: "gantry-psk-v1 <identity> <64 hex digits>". A secret: the file is for its owner alone
/// (mode 0600).
std::string key_file_text(const PskKey& key);

/// Reads a key file. Throws Error(kRequest) if it is missing, malformed, or readable by other users.
PskKey read_key_file(const std::filesystem::path& path);

}  // namespace gantry::rpc
#endif
