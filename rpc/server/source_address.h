/// Where a peer comes from, as far as fairness between peers goes.
#ifndef GANTRY_RPC_SERVER_SOURCE_ADDRESS_H
#define GANTRY_RPC_SERVER_SOURCE_ADDRESS_H

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>

namespace gantry::rpc {

/// An IPv4 address (mapped into IPv6), or the first 64 bits of an IPv6 address: a network gives each of its
/// machines as many of the others as it likes. Zeros for a socket of this machine.
struct SourceAddress {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const SourceAddress&) const = default;
};

SourceAddress source_of(const sockaddr_storage& peer);

}  // namespace gantry::rpc
#endif
