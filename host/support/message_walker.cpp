#include "host/support/message_walker.h"

namespace gantry {

std::optional<uint8_t> FileWindow::at(uint64_t offset) {
  constexpr size_t kSize = size_t{64} << 10;
  if (offset < begin_ || offset - begin_ >= bytes_.size()) {
    bytes_.resize(kSize);
    bytes_.resize(file_.read(bytes_, offset));
    begin_ = offset;
    if (bytes_.empty()) return std::nullopt;
  }
  return static_cast<uint8_t>(bytes_[offset - begin_]);
}

std::nullopt_t MessageWalker::fail() {
  failed_ = true;
  return std::nullopt;
}

std::optional<uint64_t> MessageWalker::varint(int most_bytes) {
  uint64_t value = 0;
  for (int i = 0, shift = 0; i < most_bytes && at_ < end_; ++i, shift += 7) {
    const auto byte = window_.at(at_);
    if (!byte) return std::nullopt;
    ++at_;
    value |= static_cast<uint64_t>(*byte & 127) << shift;
    if (*byte < 128) return value;
  }
  return std::nullopt;
}

std::optional<MessageWalker::Field> MessageWalker::next() {
  if (failed_ || at_ >= end_) return std::nullopt;
  // As Protocol Buffers has them: of values, and of tags and lengths.
  constexpr int kLongest = 10, kShort = 5;
  const uint64_t begin = at_;
  const std::optional<uint64_t> tag = varint(kShort);
  if (!tag) return fail();
  Field field{*tag >> 3, *tag & 7};
  const bool fixed = field.wire_type == kEightBytes || field.wire_type == kFourBytes;
  if (!fixed && field.wire_type != kVarint && field.wire_type != kLengthDelimited) return fail();
  const std::optional<uint64_t> value = fixed ? field.wire_type == kEightBytes ? 8 : 4
                                              : varint(field.wire_type == kVarint ? kLongest : kShort);
  if (!value) return fail();
  field.value = *value;
  field.begin = begin;
  field.content = at_;
  if (field.wire_type == kVarint) return field;
  if (*value > end_ - at_) return fail();
  at_ += *value;
  return field;
}

}  // namespace gantry
