#include "device_runtime/builtins/code_points.h"

#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {

void CodePointSet::normalize() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const CodePointRange range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1)
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    else
      ranges_[kept++] = range;
  }
  ranges_.resize(kept);
}

void CodePointSet::invert() {
  std::vector<CodePointRange> others;
  char32_t next = 0;
  for (const CodePointRange range : ranges_) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) others.push_back({next, kLastCodePoint});
  ranges_ = std::move(others);
}

CaseFolding::CaseFolding() {
  constexpr char32_t kDotted = 0x130, kDotless = 0x131;
  std::vector<std::pair<char32_t, char32_t>> pairs = case_pairs();
  pairs.insert(pairs.end(), {{0x1fd3, 0x390}, {0x1fe3, 0x3b0}, {0xfb05, 0xfb06}});
  for (const auto& [one, other] : pairs) {
    if (one == kDotted || one == kDotless) continue;
    pairs_.emplace_back(one, other);
    pairs_.emplace_back(other, one);
  }
  std::sort(pairs_.begin(), pairs_.end());
}

void CaseFolding::close(CodePointSet& set) const {
  set.normalize();
  // Each round adds the cases of what the last one added: no chain is longer than four.
  for (std::vector<CodePointRange> added = set.ranges_; !added.empty();) {
    std::vector<CodePointRange> more;
    for (const CodePointRange range : added) {
      auto pair = std::lower_bound(pairs_.begin(), pairs_.end(), std::pair{range.first, char32_t{0}});
      for (; pair != pairs_.end() && pair->first <= range.last; ++pair)
        if (!set.contains(pair->second)) more.push_back({pair->second, pair->second});
    }
    set.ranges_.insert(set.ranges_.end(), more.begin(), more.end());
    set.normalize();
    added = std::move(more);
  }
}

}  // namespace gantry::runtime
