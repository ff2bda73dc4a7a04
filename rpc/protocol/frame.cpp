#include "rpc/protocol/frame.h"

#include <algorithm>
#include <string>

#include "rpc/error.h"

namespace gantry::rpc {
namespace {

void put_u32(std::uint8_t* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

std::uint32_t get_u32(const std::uint8_t* at) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<std::uint32_t>(at[i]) << (8 * i);
  return value;
}

}  // namespace

FrameHeaderBytes encode_header(const FrameHeader& header) {
  FrameHeaderBytes bytes{};
  std::copy(kFrameMagic.begin(), kFrameMagic.end(), bytes.begin());
  bytes[4] = static_cast<std::uint8_t>(header.type);
  put_u32(&bytes[8], header.id);
  put_u32(&bytes[12], header.length);
  return bytes;
}

FrameHeader decode_header(std::span<const std::uint8_t, kFrameHeaderSize> bytes, std::uint32_t max_control) {
  if (!std::equal(kFrameMagic.begin(), kFrameMagic.end(), bytes.begin()))
    throw Error(ErrorKind::kBug, "the peer does not speak gantry's protocol");
  if (bytes[5] != 0 || bytes[6] != 0 || bytes[7] != 0)
    throw Error(ErrorKind::kBug, "a frame's reserved bytes are not zero");
  FrameHeader header;
  header.id = get_u32(&bytes[8]);
  header.length = get_u32(&bytes[12]);
  if (bytes[4] < 1 || bytes[4] > 4)
    throw Error(ErrorKind::kBug, "a frame has the unknown type " + std::to_string(bytes[4]));
  header.type = static_cast<FrameType>(bytes[4]);
  const std::uint32_t limit = header.type == FrameType::kData ? kMaxDataBytes : max_control;
  if (header.length > limit)
    throw Error(ErrorKind::kBug, "a frame announces " + std::to_string(header.length) + " bytes where " +
                                     std::to_string(limit) + " are allowed");
  return header;
}

}  // namespace gantry::rpc
