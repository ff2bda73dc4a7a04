#include "device_runtime/src/fitting_sizes.h"

#include <algorithm>
#include <numeric>
#include <vector>

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

std::string number(int64_t value) {
  return std::to_string(value);
}

/// What the regular sizes have in common, and the given one has not.
std::string rule_of(const Tried& tried, int64_t given) {
  const bool bounded_below = tried.bounded_below() || given < tried.smallest;
  if (tried.step == 1) {
    if (bounded_below && tried.bounded_above()) {
      return "must be between " + number(tried.smallest) + " and " + number(tried.largest);
    }
    if (tried.bounded_above()) return "must be at most " + number(tried.largest);
    return "must be at least " + number(tried.smallest);
  }
  const int64_t rest = tried.smallest % tried.step;
  std::string text = rest == 0 ? "must be " : "must be " + number(rest) + " more than ";
  text += "a multiple of " + number(tried.step);
  if (bounded_below) text += ", at least " + number(tried.smallest);
  if (tried.bounded_above()) text += ", at most " + number(tried.largest);
  return text;
}

std::string nearest(const Tried& tried) {
  if (tried.below != 0 && tried.above != 0) return number(tried.below) + " or " + number(tried.above);
  return number(tried.below != 0 ? tried.below : tried.above);
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
    return "multiples of " + number(factor) + " like " + (below >= smallest ? number(below) + " or " : "") +
           number(above);
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
  if (tried.count == 1) return "must be " + number(tried.smallest);
  if (tried.count == 2) return "must be " + number(tried.smallest) + " or " + number(tried.largest);
  if (!tried.regular()) return "which does not fit; " + some_that_fit(given, tried) + " would do";
  // Of neighbours the nearest is the bound, which the rule names.
  return tried.step == 1 ? rule_of(tried, given) : rule_of(tried, given) + "; " + nearest(tried) + " would do";
}

std::string dimension_place(const std::string& input, size_t axis, const std::string& symbol,
                            const std::string& meaning) {
  const std::string dimension = "dimension " + std::to_string(axis);
  return "input '" + input + "': " +
         (meaning.empty() ? dimension + " (" + symbol + ")"
                          : meaning + " (" + dimension + ", " + symbol + ")");
}

std::string broken_sizes(std::span<const SuspectSize> sizes, const std::string& equation,
                         const std::string& origin) {
  std::string text;
  int places = 0;
  for (const SuspectSize& size : sizes) {
    const std::string words = fitting_sizes(size.given, size.fits);
    if (words.empty()) continue;
    text += (places++ == 0 ? "" : "; or ") + size.place + " is " + number(size.given) + ", " + words;
  }
  std::string needed = origin.empty() ? "" : "needed by " + origin;
  // Of one dimension the words say it all.
  const bool says_why = origin.ends_with(')');
  if (places != 1 && !says_why) needed = equation + (needed.empty() ? "" : ", ") + needed;
  if (places == 0) return "these input shapes do not fit the model: " + needed;
  return text + (needed.empty() ? "" : " (" + needed + ")");
}

}  // namespace gantry::runtime
