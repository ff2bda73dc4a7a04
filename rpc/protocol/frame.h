/// The frame around everything on the wire: a fixed header of 16 bytes, then `length` bytes.
#ifndef GANTRY_RPC_PROTOCOL_FRAME_H
#define GANTRY_RPC_PROTOCOL_FRAME_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gantry::rpc {

/// First bytes of every frame: neither text nor the first byte of a TLS record.
inline constexpr std::array<std::uint8_t, 4> kFrameMagic = {0xf5, 'G', 'T', 'Y'};
inline constexpr std::size_t kFrameHeaderSize = 16;
/// Longest payload of a control frame and of a data frame. Nothing longer is ever allocated for a peer.
inline constexpr std::uint32_t kMaxControlBytes = 1u << 20;
inline constexpr std::uint32_t kMaxDataBytes = 1u << 20;
/// Before the version exchange a peer has shown nothing yet: its one message is short.
inline constexpr std::uint32_t kMaxHelloBytes = 4096;
inline constexpr std::uint16_t kProtocolVersion = 1;

enum class FrameType : std::uint8_t {
  kRequest = 1,   ///< FlatBuffer wire::Request
  kResponse = 2,  ///< FlatBuffer wire::Response; the last control frame for its request id
  kProgress = 3,  ///< FlatBuffer wire::Response; more follow
  kData = 4,      ///< raw bytes that belong to the request or response of the same id just before
};

struct FrameHeader {
  FrameType type = FrameType::kRequest;
  std::uint32_t id = 0;      ///< chosen by the client, echoed by the board
  std::uint32_t length = 0;  ///< bytes after the header
};

using FrameHeaderBytes = std::array<std::uint8_t, kFrameHeaderSize>;
FrameHeaderBytes encode_header(const FrameHeader& header);
/// Throws Error(kBug) if the bytes are no frame header, or if the length exceeds `max_control` or
/// kMaxDataBytes.
FrameHeader decode_header(std::span<const std::uint8_t, kFrameHeaderSize> bytes,
                          std::uint32_t max_control = kMaxControlBytes);

}  // namespace gantry::rpc
#endif
