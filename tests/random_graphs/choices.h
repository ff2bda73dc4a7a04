// Random choices that depend on a seed alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "host/support/random.h"

namespace gantry::random_graphs {

class Choices {
 public:
  /// `stream`: choices for another purpose from the same seed are independent.
  explicit Choices(uint64_t seed, std::string_view stream = "") : random_(seed, stream) {}

  /// 0 … count - 1
  int64_t below(int64_t count) { return static_cast<int64_t>(random_.next() % static_cast<uint64_t>(count)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return random_.uniform() < probability; }
  double normal() { return random_.normal(); }
  double uniform() { return random_.uniform(); }
  uint64_t next() { return random_.next(); }

  template <typename T>
  const T& of(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int64_t>(items.size())))];
  }
  template <typename T>
  T of(std::initializer_list<T> items) {
    return items.begin()[below(static_cast<int64_t>(items.size()))];
  }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  Random random_;
};

}  // namespace gantry::random_graphs
