#include "device_runtime/src/probe_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

namespace gantry::runtime {
namespace {

constexpr size_t kMostEntries = 4096;  // of a folder

}  // namespace

// Without blocking: a pipe in the place of a file would never open.
ProbeFile::ProbeFile(const std::string& path)
    : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}

ProbeFile::~ProbeFile() {
  if (fd_ >= 0) close(fd_);
}

std::optional<std::string> ProbeFile::text(size_t limit) const {
  if (fd_ < 0) return std::nullopt;
  std::string text;
  char block[4096];
  while (text.size() < limit) {
    const size_t wanted = std::min(sizeof block, limit - text.size());
    const ssize_t count = pread(fd_, block, wanted, static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    text.append(block, static_cast<size_t>(count));
  }
  text.erase(text.find_last_not_of(std::string_view(" \t\r\n\0", 5)) + 1);
  return text;
}

std::optional<int64_t> ProbeFile::number() const {
  const auto digits = text(64);
  return digits ? parse_number(*digits) : std::nullopt;
}

std::optional<int64_t> ProbeFile::number(int64_t least, int64_t most) const {
  const auto value = number();
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

std::optional<int64_t> parse_number(std::string_view text, int base) {
  const std::string digits(text);
  char* end = nullptr;
  errno = 0;
  const long long value = strtoll(digits.c_str(), &end, base);
  if (digits.empty() || errno != 0 || end != digits.c_str() + digits.size()) return std::nullopt;
  return value;
}

std::vector<std::string> list_folder(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> names;
  DIR* stream = opendir(folder.c_str());
  if (stream == nullptr) return names;
  while (const dirent* entry = readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name.substr(0, prefix.size()) == prefix && name != "." && name != "..") names.emplace_back(name);
    if (names.size() == kMostEntries) break;
  }
  closedir(stream);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return names;
}

std::string read_label(const std::string& path) {
  std::string label = ProbeFile(path).text(64).value_or("");
  for (char& c : label) {
    if (c < ' ' || c > '~') c = '?';
  }
  label.erase(0, label.find_first_not_of(' '));
  return label;
}

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace gantry::runtime
