/// Control messages to bytes and back, and the checks of their meaning.
#ifndef GANTRY_RPC_PROTOCOL_MESSAGE_H
#define GANTRY_RPC_PROTOCOL_MESSAGE_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol_generated.h"
#include "rpc/error.h"
#include "rpc/protocol/frame.h"
#include "rpc/protocol/lease_priority.h"

namespace gantry::rpc {

using Bytes = std::vector<std::uint8_t>;
using DigestBytes = std::array<std::uint8_t, 32>;

/// Bounds of what a request may ask for, whatever the board's own limits are.
inline constexpr std::uint64_t kMaxModuleBytes = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{64} << 20;
inline constexpr std::size_t kMaxSegments = 4096;
inline constexpr std::size_t kMaxTensorRank = 16;
inline constexpr std::size_t kMaxCpus = 4096;
inline constexpr std::uint32_t kMaxRepeats = 1'000'000;
inline constexpr std::uint32_t kMaxStreams = 1024;
/// The longest result of a benchmark that follows as data.
inline constexpr std::uint64_t kMaxResultBytes = std::uint64_t{64} << 20;
/// Bit of Welcome.features: the board can send such results.
inline constexpr std::uint64_t kFeatureLongResults = 1;
/// Bit of Hello.features and Welcome.features: this side knows leases.
inline constexpr std::uint64_t kFeatureLeases = 2;
/// The longest text of what a lease is for, of an address, and the rows of a list of those who wait or work.
inline constexpr std::size_t kMaxPurpose = 160;
inline constexpr std::size_t kMaxAddressText = 64;
inline constexpr std::size_t kMaxLeaseRows = 64;

/// A frame (header and payload) that carries the message.
Bytes encode_request(std::uint32_t id, const wire::RequestT& request);
Bytes encode_response(std::uint32_t id, const wire::ResponseT& response,
                      FrameType type = FrameType::kResponse);

/// Verifies structure and meaning. Throws Error(kBug) on bytes that are no message and Error(kRequest) on one
/// whose values contradict each other or exceed the limits above. Of a kind that only a newer peer knows:
/// Error(kRequest) for a request, Error(kBoard) for a response, both unsupported().
wire::RequestT decode_request(std::span<const std::uint8_t> payload);
wire::ResponseT decode_response(std::span<const std::uint8_t> payload);

/// The result of a benchmark, as long as it is, as the bytes that follow its announcement; and back, where
/// they are no such result: Error(kBug).
Bytes encode_long_result(const wire::ResponseT& result);
wire::ResponseT decode_long_result(std::span<const std::uint8_t> bytes);

/// Bytes of data frames that follow this message.
std::uint64_t following_bytes(const wire::RequestT& request);
std::uint64_t following_bytes(const wire::ResponseT& response);

/// A message, unpacked, of a table whose union `body` has the kind of the body.
template <typename Message, typename T>
Message with_body(T body) {
  Message message;
  message.body.Set(std::move(body));
  return message;
}
template <typename T>
wire::RequestT make_request(T body) {
  return with_body<wire::RequestT>(std::move(body));
}
template <typename T>
wire::ResponseT make_response(T body) {
  return with_body<wire::ResponseT>(std::move(body));
}
wire::ResponseT make_failure(ErrorKind kind, const std::string& message);
wire::ResponseT make_failure(const Error& error);
/// The Error that a Failure carries; kBoard for a kind that only a newer board knows.
Error to_error(const wire::FailureT& failure);

DigestBytes to_array(const wire::Digest& digest);
std::unique_ptr<wire::Digest> to_wire(const DigestBytes& digest);
std::string to_hex(const DigestBytes& digest);

/// Bytes of a dense tensor. Throws Error(kRequest) on a negative or overflowing shape or an odd element type.
std::uint64_t dense_bytes(std::uint8_t bits, std::span<const std::int64_t> shape);
/// DLPack's code of handles: strings, which travel as their lengths (32 bits each) and then all their bytes.
constexpr std::uint8_t kStringCode = 3;
/// Whether a tensor of that type and shape can have so many bytes on its way. Throws as dense_bytes.
bool has_fitting_bytes(std::uint8_t code, std::uint8_t bits, std::span<const std::int64_t> shape,
                       std::uint64_t bytes);

}  // namespace gantry::rpc
#endif
