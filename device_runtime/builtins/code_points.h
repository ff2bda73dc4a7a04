// Sets of code points, as the classes of patterns are.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

namespace gantry::runtime {

/// first, first + 1, … last.
struct CodePointRange {
  char32_t first = 0, last = 0;
  bool operator==(const CodePointRange&) const = default;
};

inline constexpr char32_t kLastCodePoint = 0x10ffff;

/// Ranges in ascending order with gaps between them, once normalize() was called behind the last add().
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges) : ranges_(ranges) { normalize(); }

  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add(const CodePointSet& other) {
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  }
  void normalize();
  /// What is not in it. Of normal sets.
  void invert();
  /// Of normal sets.
  bool contains(char32_t value) const {
    const auto range = std::partition_point(ranges_.begin(), ranges_.end(),
                                            [&](const CodePointRange& r) { return r.last < value; });
    return range != ranges_.end() && range->first <= value;
  }
  bool operator==(const CodePointSet&) const = default;

 private:
  friend class CaseFolding;
  std::vector<CodePointRange> ranges_;
};

/// Which code points differ in case alone, by Unicode's simple case folding (CaseFolding.txt, C and S): those
/// that a chain of lower and upper cases links, as k, K and the sign of kelvin. The dotted capital I and the
/// dotless small one, whose other case depends on the language, are letters of their own there; three pairs
/// whose capitals are of several letters belong together.
class CaseFolding {
 public:
  CaseFolding();
  /// Adds what differs in case alone from what the set has. Normal afterwards.
  void close(CodePointSet& set) const;

 private:
  std::vector<std::pair<char32_t, char32_t>> pairs_;  ///< both ways, in ascending order
};

}  // namespace gantry::runtime
