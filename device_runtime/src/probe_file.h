// Files of /sys and /proc that are read again and again while a benchmark runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gantry::runtime {

/// Opened once, so that a reading costs one system call and no path is walked. Whatever stands in the file is
/// checked: what cannot be read or is not what was asked for is absent.
class ProbeFile {
 public:
  ProbeFile() = default;
  explicit ProbeFile(const std::string& path);
  ProbeFile(ProbeFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ProbeFile& operator=(ProbeFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~ProbeFile();

  bool is_open() const { return fd_ >= 0; }
  /// The decimal number that the file consists of.
  std::optional<int64_t> number() const;
  /// As number, where it lies within [least, most].
  std::optional<int64_t> number(int64_t least, int64_t most) const;
  /// The start of the file, at most `limit` bytes, without white space at the end.
  std::optional<std::string> text(size_t limit = 256) const;

 private:
  int fd_ = -1;
};

/// The number that all of `text` is in that base; absent for anything else.
std::optional<int64_t> parse_number(std::string_view text, int base = 10);
/// Entries of a folder whose names start with `prefix`, in the order of the numbers in their names.
std::vector<std::string> list_folder(const std::string& folder, std::string_view prefix);
/// A word that a machine's firmware or kernel chose, for people: printable ASCII, at most 64 characters, no
/// white space around it. "" where the file cannot be read.
std::string read_label(const std::string& path);
/// "a, b, c"
std::string join_words(const std::vector<std::string>& words);

}  // namespace gantry::runtime
