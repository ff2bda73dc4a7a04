#include "host/codegen/cache_suffix.h"

#include <fmt/format.h>

#include <charconv>

#include "host/support/error.h"

namespace gantry {
namespace {

constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;

/// A level of the caches: how names call it, what it may hold, and where its size is kept.
struct Level {
  std::string_view name;
  int64_t least, most;
  std::optional<int64_t> StatedCaches::*stated;
  int64_t MachineModel::*bytes;
};
constexpr Level kLevels[] = {
    {"l1", 8 * kKiB, kMiB, &StatedCaches::l1_bytes, &MachineModel::l1_bytes},
    {"l2", 64 * kKiB, 1024 * kMiB, &StatedCaches::l2_bytes, &MachineModel::l2_bytes},
};

std::string written(int64_t bytes) {
  return bytes % kMiB == 0 ? fmt::format("{}M", bytes / kMiB) : fmt::format("{}K", bytes / kKiB);
}

/// Bytes of "256K" or "1M"; none: it is neither, or no number of 64 bits.
std::optional<int64_t> bytes_of(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const int64_t unit = text.back() == 'K' ? kKiB : text.back() == 'M' ? kMiB : 0;
  text.remove_suffix(1);
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (unit == 0 || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  // Beyond what any level holds, and before the product could overflow.
  return count > kLevels[1].most / unit ? kLevels[1].most + 1 : count * unit;
}

}  // namespace

bool take_cache_size(std::string_view& suffixes, std::string_view whole, StatedCaches& stated) {
  for (const Level& level : kLevels) {
    const bool begins = suffixes.starts_with(level.name) && suffixes.size() > level.name.size() &&
                        suffixes[level.name.size()] == '=';
    if (!begins) continue;
    if (stated.*level.stated) user_error("target {}: states {} twice", whole, level.name);
    const size_t start = level.name.size() + 1;
    const std::string_view text = suffixes.substr(start, suffixes.find_first_of("+-", start) - start);
    const std::optional<int64_t> bytes = bytes_of(text);
    if (!bytes || *bytes < level.least || *bytes > level.most) {
      user_error(
          "target {}: {}={} is no size of that cache: give {} to {}, in K (KiB) or M (MiB) of one core",
          whole, level.name, text, written(level.least), written(level.most));
    }
    stated.*level.stated = bytes;
    suffixes.remove_prefix(start + text.size());
    return true;
  }
  return false;
}

void set_stated_caches(MachineModel& machine, const StatedCaches& stated, std::string_view whole) {
  for (const Level& level : kLevels)
    machine.*level.bytes = (stated.*level.stated).value_or(machine.*level.bytes);
  if (machine.l2_bytes < machine.l1_bytes) {
    user_error("target {}: its second-level cache, of {}, would be smaller than its first, of {}", whole,
               written(machine.l2_bytes), written(machine.l1_bytes));
  }
}

std::string cache_suffixes(const MachineModel& machine, const MachineModel& usual) {
  std::string text;
  for (const Level& level : kLevels) {
    if (machine.*level.bytes != usual.*level.bytes)
      text += fmt::format("+{}={}", level.name, written(machine.*level.bytes));
  }
  return text;
}

}  // namespace gantry
