#include "rpc/server/server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/memory.h"
#include "gantry/runtime.h"
#include "rpc/protocol/frame.h"
#include "rpc/protocol/service.h"
#include "rpc/server/announcement.h"
#include "rpc/server/board_info.h"
#include "rpc/server/cache.h"
#include "rpc/server/executor_start.h"
#include "rpc/server/key_store.h"
#include "rpc/server/parent_process.h"
#include "rpc/server/rights.h"
#include "rpc/server/service_manager.h"
#include "rpc/server/session.h"
#include "rpc/server/signals.h"

namespace gantry::rpc {
namespace {

UniqueFd listen_on(const ServeOptions& options, asio::ip::tcp::endpoint& endpoint) {
  const auto fail = [&](const char* what) {
    return Error(ErrorKind::kBoard, std::string(what) + " " + options.host + ":" +
                                        std::to_string(options.port) + ": " + std::strerror(errno) +
                                        "; choose another address with --listen");
  };
  UniqueFd listener(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (listener) ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!listener || ::bind(listener.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    throw fail("cannot listen on");
  if (::listen(listener.get(), 1024) != 0) throw fail("cannot listen on");
  socklen_t length = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(listener.get(), endpoint.data(), &length) == 0) endpoint.resize(length);
  return listener;
}

bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

void leave_no_core() {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
}

asio::ip::address address_of(const std::string& host) {
  std::error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error)
    throw Error(ErrorKind::kRequest,
                "'" + host + "' is not an IP address; listen on e.g. 0.0.0.0:7453 or 127.0.0.1:7453");
  return address;
}

/// Null for a server without keys. The key files' names do not stay in `options`, which sessions have.
std::unique_ptr<KeyStore> read_keys(ServeOptions& options, const asio::ip::address& address) {
  if (options.keys.empty() && !is_loopback(address))
    throw Error(ErrorKind::kRequest,
                "listening on " + options.host +
                    " would let anyone on the network run code on this board: make a key with "
                    "'gantry keygen' and start the server with --key FILE, or listen on 127.0.0.1");
  if (options.keys.empty()) return nullptr;
  const std::string first = options.keys[0].string();
  auto keys = std::make_unique<KeyStore>(std::exchange(options.keys, {}));
  if (keys->keys()->entries().empty() && !is_loopback(address))
    throw Error(ErrorKind::kRequest,
                "there is no key in " + first +
                    ", so nobody could connect: make one with 'gantry keygen' and put it "
                    "there, a file for each user");
  return keys;
}

/// On stdout, for whoever started it, to the service manager, and in the log.
void announce(const ServeOptions& options, const asio::ip::tcp::endpoint& endpoint, const KeyStore* keys) {
  const auto address = endpoint.address();
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  const std::string place = host + ":" + std::to_string(endpoint.port());
  const std::string protection = keys ? "TLS 1.3, " + keys->names() : "no key, this machine only";
  std::printf("gantry-device %s listening on %s (%s), cache %s%s\n", gantry_version(), place.c_str(),
              protection.c_str(), options.cache.c_str(), ::geteuid() == 0 ? ", as root: see --user" : "");
  std::fflush(stdout);
  tell_service_manager_ready("listening on " + place + " (" + protection + ")");
  Log log(options.log_level);
  log.info(std::string("gantry-device ") + gantry_version() + " listens on " + place + ", " +
           (keys ? keys->names() : "no key"));
  if (keys && keys->keys()->entries().empty())
    log.warning("there is no key, so nobody can connect until one is put where --key says");
}

/// Checks the name, and that anybody on the network could connect. None where nothing is to be announced.
std::optional<std::string> name_to_announce(const ServeOptions& options, const asio::ip::address& address) {
  if (!options.announce) return std::nullopt;
  if (is_loopback(address))
    throw Error(ErrorKind::kRequest, "--announce: nobody else can connect to " + options.host +
                                         ": listen on e.g. 0.0.0.0:7453, with --key, or leave it out");
  return checked_service_name(*options.announce);
}

/// What the network is told. Nothing of keys but that one is needed: not even their names.
AnnouncedService service_of(const std::string& name, const asio::ip::tcp::endpoint& endpoint, bool has_keys) {
  const auto entry = [](const char* key, const std::string& value) { return std::string(key) + "=" + value; };
  return {
      name,
      endpoint.port(),
      {entry(service_text::kVersion, "1"), entry(service_text::kProtocol, std::to_string(kProtocolVersion)),
       entry(service_text::kArchitecture, runtime::cpu_info().architecture),
       entry(service_text::kProgramVersion, gantry_version()),
       entry(service_text::kKey, has_keys ? "required" : "none"),
       entry(service_text::kListens, endpoint.address().to_string())}};
}

/// Makes the cache's directories, or makes sure of them. `hint`: what else to do where that fails.
void prepare_cache(ServeOptions& options, const std::string& hint) {
  if (options.cache.empty()) options.cache = default_cache_directory();
  options.cache = std::filesystem::absolute(options.cache);
  try {
    const SegmentCache cache(options.cache, options.cache_bytes);
  } catch (const Error& error) {
    throw Error(error.kind(), error.what() + hint);
  }
}

/// For a cache that cannot be used once rights are given up.
std::string cache_hint(const ServeOptions& options, const SystemUser* user) {
  if (user)
    return "; the server runs as user '" + user->name + "': 'install -d -m 700 -o " + user->name + " " +
           (options.cache.empty() ? "DIR" : options.cache.string()) + "' makes a directory for it";
  return ::geteuid() == 0 ? "; the server gives up root's right to what belongs to others" : "";
}

/// Gives up what the server has more rights than it needs, and reports what modules will have.
void give_up_rights(const SystemUser* user, KeyStore* keys, Log& log) {
  if (user) become(*user);
  if (!drop_capabilities(keys ? kReadAllFiles : 0))
    log.info("the kernel does not let the server give up its capabilities");
  // A module's process, which is the same user's, could trace this one or its sessions and read the key.
  hide_memory();
  if (keys && !keys->can_be_read_again())
    log.warning(
        "this user cannot read the keys again: the server has to be started again when one is "
        "added, changed or revoked");
  if (::geteuid() == 0)
    log.warning(
        "the server runs as root, and so does what clients send: it can read the keys and change "
        "root's files; start the server with --user NAME");
  else if (user && keys)
    for (const std::filesystem::path& file : keys->files_of(user->uid))
      log.warning("what clients send runs as user '" + user->name + "', to whom the key file " +
                  file.string() + " belongs: it can read it; run 'chown root " + file.string() + "'");
}

}  // namespace

int serve(const ServeOptions& given) {
  ServeOptions options = given;
  const asio::ip::address address = address_of(options.host);
  const std::optional<std::string> name = name_to_announce(options, address);
  std::optional<SystemUser> other;
  if (!options.user.empty()) other = find_user(options.user);
  const SystemUser* user = other ? &*other : nullptr;
  auto keys = read_keys(options, address);
  options.session_memory_bytes = session_memory(options);
  // As root, who may make directories where others may not; sessions have less rights, see below.
  if (!user && ::geteuid() == 0) prepare_cache(options, "");

  asio::ip::tcp::endpoint endpoint(address, options.port);
  UniqueFd listener = listen_on(options, endpoint);
  const UniqueFd program(open_this_program());
  options.program = program.get();
  leave_no_core();
  Log log(options.log_level);
  give_up_rights(user, keys.get(), log);
  prepare_cache(options, cache_hint(options, user));
  const KeyStore* shown = keys.get();
  ParentProcess parent(options, std::move(listener), std::move(keys));
  announce(options, endpoint, shown);
  if (name) parent.announce(service_of(*name, endpoint, shown != nullptr));
  return parent.run();
}

int serve_connection(int socket) {
  leave_no_core();
  ignore_signal(SIGPIPE);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  ServeOptions options;
  options.program = open_this_program();
  options.session_memory_bytes = runtime::usable_memory_bytes();
  options.deadline = options.idle_timeout = std::chrono::hours(24 * 30);
  options.handshake_timeout = std::chrono::minutes(1);
  options.log_level = LogLevel::kError;  // its one client is the program that started it
  options.stall_timeout = std::chrono::milliseconds(0);
  return run_session(socket, -1, nullptr, options, {});
}

}  // namespace gantry::rpc
