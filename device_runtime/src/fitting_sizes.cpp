#include "device_runtime/src/fitting_sizes.h"

#include <algorithm>
#include <cinttypes>
#include <numeric>
#include <vector>

#include "device_runtime/src/status.h"

namespace gantry::runtime {
namespace {

constexpr int64_t kReach = 4096;  // sizes tried to each side

/// The sizes from `first` to `last` that fit.
struct Tried {
  int64_t first = 1, last = 0;
  int64_t count = 0;
  int64_t smallest = 0, largest = 0;
  int64_t below = 0, above = 0;  ///< nearest to the given one; 0: none
  int64_t step = 0;              ///< greatest common divisor of their distances
  std::vector<uint8_t> fitting;     ///< by size - first

  /// Whether all from the smallest to the largest fit that are a multiple of `step` apart.
  bool regular() const { return count >= 3 && (largest - smallest) / step + 1 == count; }
  bool bounded_below() const { return smallest - step >= first; }
  bool bounded_above() const { return largest + step <= last; }
};

Tried try_sizes(int64_t first, int64_t last, int64_t given, const std::function<bool(int64_t)>& fits) {
  Tried tried;
  tried.first = first;
  tried.last = last;
  tried.fitting.assign(static_cast<size_t>(last - first + 1), false);
  for (int64_t size = first; size <= last; ++size) {
    if (size == given || !fits(size)) continue;
    if (tried.count == 0) {
      tried.smallest = size;
    } else {
      tried.step = std::gcd(tried.step, size - tried.largest);
    }
    tried.fitting[static_cast<size_t>(size - first)] = true;
    ++tried.count;
    tried.largest = size;
    if (size < given) tried.below = size;
    if (size > given && tried.above == 0) tried.above = size;
  }
  return tried;
}

/// What the regular sizes have in common, and the given one has not.
std::string rule_of(const Tried& tried, int64_t given) {
  const bool bounded_below = tried.bounded_below() || given < tried.smallest;
  if (tried.step == 1) {
    if (bounded_below && tried.bounded_above()) {
      return format_text("must be between %" PRId64 " and %" PRId64, tried.smallest, tried.largest);
    }
    if (tried.bounded_above()) return format_text("must be at most %" PRId64, tried.largest);
    return format_text("must be at least %" PRId64, tried.smallest);
  }
  const int64_t rest = tried.smallest % tried.step;
  std::string text = "must be ";
  if (rest != 0) text += format_text("%" PRId64 " more than ", rest);
  text += format_text("a multiple of %" PRId64, tried.step);
  if (bounded_below) text += format_text(", at least %" PRId64, tried.smallest);
  if (tried.bounded_above()) text += format_text(", at most %" PRId64, tried.largest);
  return text;
}

std::string either_of(int64_t one, int64_t other) {
  return format_text("%" PRId64 " or %" PRId64, one, other);
}

std::string nearest(const Tried& tried) {
  if (tried.below != 0 && tried.above != 0) return either_of(tried.below, tried.above);
  return std::to_string(tried.below != 0 ? tried.below : tried.above);
}

/// "multiples of 32 like 224 or 256" of sizes without a rule that hold at least these, else the nearest.
std::string some_that_fit(int64_t given, const Tried& tried) {
  constexpr int64_t kLargestFactor = 256;
  for (int64_t factor = 2; factor <= kLargestFactor; ++factor) {
    const auto fits = [&](int64_t size) { return tried.fitting[static_cast<size_t>(size - tried.first)]; };
    const int64_t smallest = (tried.first + factor - 1) / factor * factor;
    int64_t size = smallest;
    while (size <= tried.last && fits(size)) size += factor;
    if (size <= tried.last) continue;
    const int64_t below = given / factor * factor, above = below + factor;
    return format_text("multiples of %" PRId64 " like ", factor) +
           (below >= smallest ? either_of(below, above) : std::to_string(above));
  }
  return nearest(tried);
}

}  // namespace

std::string fitting_sizes(int64_t given, const std::function<bool(int64_t)>& fits) {
  given = std::clamp<int64_t>(given, 0, INT64_MAX - 2 * kReach);  // sums do not overflow
  Tried tried = try_sizes(std::max<int64_t>(1, given - kReach), given + kReach, given, fits);
  if (tried.count == 0 && tried.first > 1) {
    tried = try_sizes(1, std::min(tried.first - 1, 2 * kReach), given, fits);
  }
  if (tried.count == 0) return "";
  if (tried.count == 1) return format_text("must be %" PRId64, tried.smallest);
  if (tried.count == 2) return "must be " + either_of(tried.smallest, tried.largest);
  if (!tried.regular())
    return format_text("which does not fit; %s would do", some_that_fit(given, tried).c_str());
  // Of neighbours the nearest is the bound, which the rule names.
  const std::string rule = rule_of(tried, given);
  return tried.step == 1 ? rule : format_text("%s; %s would do", rule.c_str(), nearest(tried).c_str());
}

std::string dimension_place(const std::string& input, size_t axis, const std::string& symbol,
                            const std::string& meaning) {
  if (meaning.empty())
    return format_text("input '%s': dimension %zu (%s)", input.c_str(), axis, symbol.c_str());
  return format_text("input '%s': %s (dimension %zu, %s)", input.c_str(), meaning.c_str(), axis,
                     symbol.c_str());
}

std::string broken_sizes(std::span<const SuspectSize> sizes, const std::string& equation,
                         const std::string& origin) {
  std::string text;
  int places = 0;
  for (const SuspectSize& size : sizes) {
    const std::string words = fitting_sizes(size.given, size.fits);
    if (words.empty()) continue;
    text += format_text("%s%s is %" PRId64 ", %s", places++ == 0 ? "" : "; or ", size.place.c_str(),
                        size.given, words.c_str());
  }
  std::string needed = origin.empty() ? "" : "needed by " + origin;
  // Of one dimension the words say it all.
  const bool says_why = origin.ends_with(')');
  if (places != 1 && !says_why) needed = equation + (needed.empty() ? "" : ", ") + needed;
  if (places == 0) return "these input shapes do not fit the model: " + needed;
  return needed.empty() ? text : format_text("%s (%s)", text.c_str(), needed.c_str());
}

}  // namespace gantry::runtime
