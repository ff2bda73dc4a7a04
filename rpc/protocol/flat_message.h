/// FlatBuffers as control messages: frames that carry them, and the checks of their structure.
#ifndef GANTRY_RPC_PROTOCOL_FLAT_MESSAGE_H
#define GANTRY_RPC_PROTOCOL_FLAT_MESSAGE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rpc/protocol/message.h"

namespace gantry::rpc {

/// A frame (header and payload) of a table that has a union `body`. Throws Error(kRequest) where it is too
/// long for a control message.
template <typename Table, typename Native>
Bytes encode_flat(std::uint32_t id, const Native& message, FrameType type) {
  flatbuffers::FlatBufferBuilder builder(256);
  builder.Finish(Table::Pack(builder, &message));
  if (builder.GetSize() > kMaxControlBytes)
    throw Error(ErrorKind::kRequest, "a control message of " + std::to_string(builder.GetSize()) +
                                         " bytes is longer than the protocol allows");
  Bytes frame(kFrameHeaderSize + builder.GetSize());
  const FrameHeaderBytes header = encode_header({type, id, builder.GetSize()});
  std::copy(header.begin(), header.end(), frame.begin());
  std::copy_n(builder.GetBufferPointer(), builder.GetSize(), frame.begin() + kFrameHeaderSize);
  return frame;
}

/// A payload whose structure verifies, with a copy of its bytes. Its union may be of a kind that only a newer
/// peer knows.
template <typename Table>
class FlatMessage {
 public:
  /// Throws Error(kBug) on bytes that are no such message.
  explicit FlatMessage(std::span<const std::uint8_t> payload) : aligned_((payload.size() + 7) / 8) {
    // Offsets are read as aligned integers: the payload is copied to a place that is aligned for them.
    std::copy(payload.begin(), payload.end(), reinterpret_cast<std::uint8_t*>(aligned_.data()));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(aligned_.data());
    const std::size_t tables = std::max(kMaxTables, payload.size() / kBytesOfTable);
    flatbuffers::Verifier verifier(bytes, payload.size(), 16, static_cast<flatbuffers::uoffset_t>(tables));
    if (payload.size() < 8 || !verifier.VerifyBuffer<Table>(nullptr))
      throw Error(ErrorKind::kBug, "a message is damaged: its structure does not verify");
    message_ = flatbuffers::GetRoot<Table>(bytes);
    if (message_->body_type() == decltype(message_->body_type())::NONE)
      throw Error(ErrorKind::kBug, "a message is damaged: it has no kind");
  }
  FlatMessage(const FlatMessage&) = delete;
  FlatMessage& operator=(const FlatMessage&) = delete;

  const Table& operator*() const { return *message_; }
  const Table* operator->() const { return message_; }

 private:
  /// Tables that a message may have; a longer one may have one in so many bytes, which all of ours take.
  static constexpr std::size_t kMaxTables = 65536, kBytesOfTable = 64;

  std::vector<std::uint64_t> aligned_;
  const Table* message_ = nullptr;
};

}  // namespace gantry::rpc
#endif
