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
#include <string_view>
#include <utility>

#include "rpc/error.h"

namespace gantry::rpc {
namespace {

constexpr char kFormat[] = "gantry-psk-v1";

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::kRequest, message);
}

bool valid_identity(const std::string& identity) {
  return !identity.empty() && identity.size() <= kMaxIdentity &&
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

/// Takes the words of a text one by one, without a copy of them.
struct Words {
  std::string_view text;
  std::string_view next() {
    constexpr char kSpace[] = " \t\r\n\v\f";
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    const std::string_view word = text.substr(0, text.find_first_of(kSpace));
    text.remove_prefix(word.size());
    return word;
  }
};

KeyFile read_file(const std::filesystem::path& path, bool regular_only) {
  const int flags = regular_only ? O_NONBLOCK : 0;  // opening a pipe would wait
  const std::string name = path.string();
  KeyFile file;
  const auto unreadable = [&] {
    file.system_error = errno;
    file.problem = "cannot read the key file " + name + ": " + std::strerror(errno);
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) unreadable();
  file.owner = status.st_uid;
  char buffer[512];
  ssize_t size = 0;
  const bool is_read = S_ISREG(status.st_mode) || (!regular_only && !S_ISDIR(status.st_mode));
  if (file.system_error == 0 && is_read && (size = ::read(fd, buffer, sizeof buffer)) < 0) unreadable();
  if (fd >= 0) ::close(fd);
  if (file.system_error != 0) return file;
  if (is_read && (status.st_mode & 077) != 0) {
    file.problem = "key file " + name + " can be read by other users: run 'chmod 600 " + name + "'";
  } else {
    if (size > 0 && static_cast<std::size_t>(size) < sizeof buffer)
      file.key = parse_key({buffer, static_cast<std::size_t>(size)});
    if (!file.key) file.problem = name + " is not a gantry key file; 'gantry keygen' makes one";
  }
  OPENSSL_cleanse(buffer, sizeof buffer);
  return file;
}

#if __has_cpp_attribute(gnu::zero_call_used_regs)
#define GANTRY_ZERO_REGISTERS [[gnu::zero_call_used_regs("all")]]
#else
#define GANTRY_ZERO_REGISTERS
#endif

/// Vector registers keep what was copied last, and the dynamic linker puts all of them on the stack. Those
/// that this code is compiled for, and those that the C library picks at run time.
GANTRY_ZERO_REGISTERS [[gnu::noinline]] void wipe_registers() {
  std::array<std::uint8_t, 1024> zeros{};
  void* (*volatile copy)(void*, const void*, std::size_t) = std::memmove;
  for (const std::size_t size : {32, 64, 128, 256, 512}) copy(zeros.data(), zeros.data() + size, size);
}

[[gnu::noinline]] void wipe_dead_stack() {
  std::array<std::uint8_t, 64 * 1024> dead;
  OPENSSL_cleanse(dead.data(), dead.size());
}

}  // namespace

std::optional<PskKey> parse_key(std::string_view text) {
  Words words{text};
  if (words.next() != kFormat) return std::nullopt;
  std::optional<PskKey> key(std::in_place);
  key->identity = words.next();
  const std::string_view digits = words.next();
  if (!valid_identity(key->identity) || digits.size() != 2 * key->secret.size() || !words.next().empty())
    return std::nullopt;
  for (std::size_t i = 0; i < key->secret.size(); ++i) {
    const int high = hex_value(digits[2 * i]), low = hex_value(digits[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key->secret[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return key;
}

Secret::~Secret() {
  OPENSSL_cleanse(data(), size());
}

void wipe_traces() {
  wipe_registers();
  wipe_dead_stack();
}

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

KeyFile try_read_key_file(const std::filesystem::path& path) {
  return read_file(path, true);
}

PskKey read_key_file(const std::filesystem::path& path) {
  KeyFile file = read_file(path, false);
  if (!file.key) refuse(file.problem);
  return std::move(*file.key);
}

}  // namespace gantry::rpc
