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

std::optional<uint64_t> MessageWalker::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && at_ < end_; shift += 7) {
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
  const uint64_t begin = at_;
  const std::optional<uint64_t> tag = varint();
  if (!tag) return fail();
  Field field{*tag >> 3, *tag & 7};
  const bool fixed = field.wire_type == kEightBytes || field.wire_type == kFourBytes;
  if (!fixed && field.wire_type != kVarint && field.wire_type != kLengthDelimited) return fail();
  const std::optional<uint64_t> value = fixed ? field.wire_type == kEightBytes ? 8 : 4 : varint();
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
