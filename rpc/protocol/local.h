/// How a program of the same machine starts a server of its own.
#ifndef GANTRY_RPC_PROTOCOL_LOCAL_H
#define GANTRY_RPC_PROTOCOL_LOCAL_H

#include <string_view>

namespace gantry::rpc {

/// `gantry-device serve-connection` serves the one client that is connected to this descriptor, then ends.
inline constexpr std::string_view kLocalCommand = "serve-connection";
inline constexpr int kLocalSocket = 3;

}  // namespace gantry::rpc
#endif
