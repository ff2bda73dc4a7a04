/// The tuner's side of a compile host.
#ifndef GANTRY_RPC_BUILDS_BUILD_CLIENT_H
#define GANTRY_RPC_BUILDS_BUILD_CLIENT_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rpc/builds/build_message.h"
#include "rpc/security/key.h"

namespace gantry::rpc {

struct BuildClientOptions {
  std::string address;  ///< HOST:PORT
  PskKey key;
  std::string generator;  ///< what makes code here; a host of another refuses
  std::chrono::milliseconds connect_timeout{30'000};
  /// Of a model that is sent, and of a build that is given none.
  std::chrono::milliseconds build_timeout{1'800'000};
  std::uint64_t most_module_bytes = kMaxModuleBytes;  ///< that a program may have
};

/// One connection; belongs to one thread but for interrupt(). Every call throws an Error that names the host:
/// kReconnect where it is gone or does not answer, kBoard for what it says that it cannot, kBug for what is
/// none of the protocol's. After an error it is of no use any more.
class BuildClient {
 public:
  explicit BuildClient(BuildClientOptions options);
  ~BuildClient();
  BuildClient(const BuildClient&) = delete;
  BuildClient& operator=(const BuildClient&) = delete;

  /// First.
  void connect();
  /// What programs are built of: `bytes` are `text_size` of text, then the weights.
  void put_model(const std::string& options, std::span<const std::byte> bytes, std::uint64_t text_size);
  /// Of the last model. Nothing of the answer has been looked at but its size.
  BuildAnswer build(std::string_view decisions, std::chrono::milliseconds timeout = {});
  /// By any thread: what goes on fails at once, and whatever follows does.
  void interrupt() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry::rpc
#endif
