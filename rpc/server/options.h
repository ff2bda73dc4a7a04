#ifndef GANTRY_RPC_SERVER_OPTIONS_H
#define GANTRY_RPC_SERVER_OPTIONS_H

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rpc/server/lease_queue.h"
#include "rpc/server/log.h"

namespace gantry::rpc {

struct ServeOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7453;                ///< 0: any free one
  std::vector<std::filesystem::path> keys;  ///< files and folders of them; none: loopback only, unencrypted
  std::string user;             ///< to become after the port is bound and the keys are read; empty: none
  std::filesystem::path cache;  ///< empty: default_cache_directory()
  std::uint64_t cache_bytes = std::uint64_t{4} << 30;
  std::uint32_t max_sessions = 32;                    ///< who waits to measure has one too
  std::uint32_t max_handshakes = 32;                  ///< processes of peers that have not authenticated yet
  std::uint32_t max_handshakes_of_one_address = 8;    ///< of them
  std::uint32_t max_waiting_peers = 256;              ///< connections that have no process yet
  std::uint32_t max_waiting_of_one_address = 64;      ///< of them
  std::uint64_t session_memory_bytes = 0;             ///< 0: three quarters of usable_memory_bytes()
  std::chrono::milliseconds deadline{600'000};        ///< the longest that one request may run
  std::chrono::milliseconds idle_timeout{3'600'000};  ///< a session without a request ends
  std::chrono::milliseconds stall_timeout{60'000};    ///< a peer that stands still within a message; 0: never
  std::chrono::milliseconds handshake_timeout{5'000};  ///< from connect to the first exchange
  std::chrono::milliseconds shutdown_grace{5'000};     ///< for running requests, after SIGTERM
  LeaseTerms lease;                                    ///< its longest_measurement follows from `deadline`
  std::vector<std::string> urgent_keys;                ///< identities of keys that may measure urgently
  std::optional<std::string> announce;                 ///< on the network by this name; empty: the machine's
  int program = -1;                                    ///< of executors: see ExecutorSetup
  LogLevel log_level = LogLevel::kInfo;                ///< the least grave events that are reported
};

}  // namespace gantry::rpc
#endif
