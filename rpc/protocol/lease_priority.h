/// The order in which boards let sessions measure.
#ifndef GANTRY_RPC_PROTOCOL_LEASE_PRIORITY_H
#define GANTRY_RPC_PROTOCOL_LEASE_PRIORITY_H

#include <cstdint>

namespace gantry::rpc {

enum class LeasePriority : std::uint8_t { kBackground, kNormal, kUrgent };

}  // namespace gantry::rpc
#endif
