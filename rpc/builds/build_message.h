/// What a tuner and a compile host say to each other, as frames and back. docs/farm.md says what it is for.
#ifndef GANTRY_RPC_BUILDS_BUILD_MESSAGE_H
#define GANTRY_RPC_BUILDS_BUILD_MESSAGE_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "builds_generated.h"
#include "rpc/protocol/message.h"

namespace gantry::rpc {

inline constexpr std::uint16_t kBuildProtocolVersion = 1;
/// Of graph text, of decisions, and of what a program's steps compute.
inline constexpr std::uint64_t kMaxBuildText = std::uint64_t{256} << 20;

/// What became of decisions.
struct BuildAnswer {
  struct Failure {
    bool misfit = false;  ///< they ask for more than the target has; else they give no program
    std::string why;
  };
  std::optional<Failure> failure;
  std::vector<std::byte> module;  ///< where there is no failure
  std::string steps;              ///< what its steps compute, as who builds writes it
};

Bytes encode_build_request(std::uint32_t id, const build_wire::RequestT& request);
Bytes encode_build_response(std::uint32_t id, const build_wire::ResponseT& response);

/// Verify structure and meaning. Throw Error(kBug) on bytes that are no message, Error(kRequest) on one that
/// asks for more than the limits above, and on one of a kind that only a newer peer knows.
build_wire::RequestT decode_build_request(std::span<const std::uint8_t> payload);
build_wire::ResponseT decode_build_response(std::span<const std::uint8_t> payload);

/// Bytes of data frames that follow this message.
std::uint64_t following_bytes(const build_wire::RequestT& request);
std::uint64_t following_bytes(const build_wire::ResponseT& response);

}  // namespace gantry::rpc
#endif
