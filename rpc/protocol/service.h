/// How a board is found on the local network, by DNS-SD.
#ifndef GANTRY_RPC_PROTOCOL_SERVICE_H
#define GANTRY_RPC_PROTOCOL_SERVICE_H

namespace gantry::rpc {

inline constexpr char kServiceType[] = "_gantry._tcp";

/// Keys of its text record (RFC 6763, 6).
namespace service_text {
inline constexpr char kVersion[] = "txtvers";         ///< of these keys: 1
inline constexpr char kProtocol[] = "protocol";       ///< kProtocolVersion
inline constexpr char kArchitecture[] = "arch";       ///< "aarch64"
inline constexpr char kProgramVersion[] = "version";  ///< of gantry-device
inline constexpr char kKey[] = "key";                 ///< "required" or "none"
inline constexpr char kListens[] =
    "listen";  ///< the address that it listens on: "0.0.0.0", "::", one of the machine's
}  // namespace service_text

}  // namespace gantry::rpc
#endif
