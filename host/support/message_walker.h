// Messages of Protocol Buffers in files too large to be parsed for what is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host/support/mapped_file.h"

namespace gantry {

/// Single bytes of a file, by a window that moves to where they are asked for.
class FileWindow {
 public:
  /// The file outlives it.
  explicit FileWindow(const InputFile& file) : file_(file) {}
  /// Nothing behind the end.
  std::optional<uint8_t> at(uint64_t offset);

 private:
  const InputFile& file_;
  std::vector<char> bytes_;
  uint64_t begin_ = 0;  ///< of the window in the file
};

/// Walks over the fields of one serialised message. Their contents are skipped, so that a large one takes no
/// longer than a small one. Groups, which ONNX and Perfetto do without, are no fields to it.
class MessageWalker {
 public:
  /// The message is the file's bytes from `begin` to `end`. The window outlives it.
  MessageWalker(FileWindow& window, uint64_t begin, uint64_t end) : window_(window), at_(begin), end_(end) {}

  struct Field {
    uint64_t number = 0, wire_type = 0;
    uint64_t value = 0;    ///< of a varint; else the bytes that it has, all of them in the message
    uint64_t begin = 0;    ///< where in the file its tag begins
    uint64_t content = 0;  ///< where these bytes begin
  };
  /// Wire types, of the encoding.
  static constexpr uint64_t kVarint = 0, kEightBytes = 1, kLengthDelimited = 2, kFourBytes = 5;

  /// The next field; nothing at the end, or where there is none.
  std::optional<Field> next();
  /// Whether what was walked over is such a message up to its end.
  bool whole() const { return at_ == end_ && !failed_; }

 private:
  std::nullopt_t fail();
  std::optional<uint64_t> varint(int most_bytes);

  FileWindow& window_;
  uint64_t at_, end_;
  bool failed_ = false;
};

}  // namespace gantry
