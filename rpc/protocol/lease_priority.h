/// The order in which boards let sessions measure.
#ifndef GANTRY_RPC_PROTOCOL_LEASE_PRIORITY_H
#define GANTRY_RPC_PROTOCOL_LEASE_PRIORITY_H

#include <cstdint>

namespace gantry::rpc {

enum class LeasePriority : std::uint8_t { kBackground, kNormal, kUrgent };
inline constexpr auto kMaxLeasePriority = static_cast<std::uint8_t>(LeasePriority::kUrgent);

}  // namespace gantry::rpc
#endif
