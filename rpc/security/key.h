#ifndef GANTRY_RPC_SECURITY_KEY_H
#define GANTRY_RPC_SECURITY_KEY_H

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gantry::rpc {

inline constexpr std::size_t kSecretBytes = 32;
inline constexpr std::size_t kMaxIdentity = 64;

/// Bytes that do not stay in memory when the object has gone.
struct Secret : std::array<std::uint8_t, kSecretBytes> {
  Secret() : array{} {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();
};

/// A pre-shared key: whoever holds it may use the board.
struct PskKey {
  std::string identity;  ///< names the key in messages; sent in clear during the handshake
  Secret secret;
};

/// Overwrites what functions that have returned left of secrets on this stack and in registers.
void wipe_traces();

/// A fresh key from the operating system's random generator. `identity` of 1 to 64 letters, digits, '.', '-',
/// '_'; empty: a random one. Throws Error(kRequest) on another identity.
PskKey generate_key(std::string identity = {});

/// What a key file holds: "gantry-psk-v1 <identity> <64 hex digits>". A secret: the file is for its owner
/// alone (mode 0600).
std::string key_file_text(const PskKey& key);

/// Nothing for another text.
std::optional<PskKey> parse_key(std::string_view text);

/// Reads a key file. Throws Error(kRequest) if it is missing, malformed, or readable by other users.
PskKey read_key_file(const std::filesystem::path& path);

/// A key file as it was found.
struct KeyFile {
  std::optional<PskKey> key;
  std::string problem;     ///< without a key: what is wrong, with the file's name, and what to do
  int system_error = 0;    ///< errno where the system did not let it be read
  unsigned int owner = 0;  ///< user id, where it could be opened
};

/// Reads a key file that is a regular one, so that it never waits.
KeyFile try_read_key_file(const std::filesystem::path& path);

}  // namespace gantry::rpc
#endif
