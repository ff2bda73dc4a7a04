#include "rpc/security/key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "rpc/error.h"

namespace gantry::rpc {
namespace {

constexpr char kFormat[] = "gantry-psk-v1";

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kRequest, message);
}

bool valid_identity(const std::string& identity) {
  return !identity.empty() && identity.size() <= 64 &&
         std::all_of(identity.begin(), identity.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_'; });
}

std::string hex(const std::uint8_t* bytes, std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

PskKey generate_key(std::string identity) {
  PskKey key;
  std::uint8_t random[4];
  if (RAND_bytes(key.secret.data(), static_cast<int>(key.secret.size())) != 1 || RAND_bytes(random, 4) != 1)
    throw Error(ErrorKind::kBoard, "the operating system gives no random numbers for a key");
  key.identity = identity.empty() ? "key-" + hex(random, 4) : std::move(identity);
  if (!valid_identity(key.identity))
    refuse("key identity '" + key.identity + "': use 1 to 64 letters, digits, '.', '-' or '_'");
  return key;
}

std::string key_file_text(const PskKey& key) {
  return std::string(kFormat) + " " + key.identity + " " + hex(key.secret.data(), key.secret.size()) + "\n";
}

PskKey read_key_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) refuse("cannot read the key file " + path.string() + ": " + std::strerror(errno));
  struct stat status {};
  char buffer[512];
  const bool known = ::fstat(fd, &status) == 0;
  const ssize_t size = ::read(fd, buffer, sizeof buffer);
  ::close(fd);
  if (known && (status.st_mode & 077) != 0)
    refuse("key file " + path.string() + " can be read by other users: run 'chmod 600 " + path.string() +
           "'");
  const std::string bad = path.string() + " is not a gantry key file; 'gantry keygen' makes one";
  if (size <= 0 || size == sizeof buffer) refuse(bad);
  std::istringstream text(std::string(buffer, static_cast<std::size_t>(size)));
  OPENSSL_cleanse(buffer, sizeof buffer);
  PskKey key;
  std::string format, digits, rest;
  if (!(text >> format >> key.identity >> digits) || format != kFormat || (text >> rest) ||
      !valid_identity(key.identity) || digits.size() != 2 * key.secret.size())
    refuse(bad);
  for (std::size_t i = 0; i < key.secret.size(); ++i) {
    const int high = hex_value(digits[2 * i]), low = hex_value(digits[2 * i + 1]);
    if (high < 0 || low < 0) refuse(bad);
    key.secret[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return key;
}

}  // namespace gantry::rpc
