/// The side of a compile host: builds programs for one tuner at a time.
#ifndef GANTRY_RPC_BUILDS_BUILD_SERVER_H
#define GANTRY_RPC_BUILDS_BUILD_SERVER_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rpc/builds/build_message.h"
#include "rpc/security/key.h"

namespace gantry::rpc {

/// What is done with what a tuner sends. Called by the thread that is in BuildServer::run(). What a function
/// throws is told to the tuner and ends its connection.
class BuildHandler {
 public:
  virtual ~BuildHandler() = default;
  /// A model begins, in the place of the former: bytes of its text follow, then those of its weights.
  virtual void begin_model(const std::string& options, std::uint64_t text_size,
                           std::uint64_t weights_size) = 0;
  virtual void add_to_model(std::span<const std::byte> piece) = 0;
  virtual void end_model() = 0;
  /// A program of the model by decisions as text. What they cannot give is an answer, too.
  virtual BuildAnswer build(const std::string& decisions) = 0;
};

struct BuildServerOptions {
  PskKey key;
  std::string address = "0.0.0.0";  ///< of this machine
  std::uint16_t port = 0;           ///< 0: one that is free
  std::string generator;            ///< what makes code here; tuners of another are refused
  /// Without a tuner that has the key: it is gone.
  std::chrono::milliseconds unused{60'000};
};

/// Listens as soon as it is made: who connects waits for run(). Every connection is of TLS with the key.
class BuildServer {
 public:
  /// Throws Error(kBoard) where it cannot listen. `handler` must outlive it.
  BuildServer(BuildServerOptions options, BuildHandler& handler);
  ~BuildServer();
  BuildServer(const BuildServer&) = delete;
  BuildServer& operator=(const BuildServer&) = delete;

  std::uint16_t port() const;
  /// Serves one tuner after another, until there has been none for `unused`; then it is of no use any more.
  /// Who has not the key keeps no tuner waiting.
  void run();
  /// Ends run(), once what is being built is done. May be called by any thread.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantry::rpc
#endif
