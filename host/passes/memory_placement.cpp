#include "host/passes/memory_placement.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace gantry {
namespace {

// Neighbours looked at by the search; some 10 ms.
constexpr int64_t kMostWork = 1 << 20;

using Order = std::vector<size_t>;  ///< of values, by index

class Placer {
 public:
  explicit Placer(const std::vector<Lifetime<int64_t>>& lifetimes)
      : lifetimes_(lifetimes), neighbours_(lifetimes.size()), offsets_(lifetimes.size()) {
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (!lifetimes[i].meets(lifetimes[j])) continue;
        neighbours_[i].push_back(j);
        neighbours_[j].push_back(i);
      }
    }
    best_.bytes = std::numeric_limits<int64_t>::max();
    for (const LiveSum<int64_t>& sum : sums_alive(lifetimes)) {
      if (sum.bytes <= bound_) continue;
      bound_ = sum.bytes;
      peak_ = sum.step;
    }
  }

  MemoryPlacement run() {
    Order best;
    for (const auto& earlier : orders()) {
      Order order(lifetimes_.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, earlier);
      if (!try_order(order)) continue;
      best = std::move(order);
      if (is_optimal()) return std::move(best_);
    }
    search(std::move(best));
    return std::move(best_);
  }

 private:
  using Before = std::function<bool(size_t, size_t)>;

  bool is_optimal() const { return best_.bytes <= bound_; }
  bool lives_at_peak(size_t i) const { return lifetimes_[i].first <= peak_ && peak_ <= lifetimes_[i].last; }

  // The first is best as a rule; the second is, for chains.
  std::vector<Before> orders() const {
    const auto size = [this](size_t i) { return lifetimes_[i].bytes; };
    const auto time = [this](size_t i) { return static_cast<int64_t>(lifetimes_[i].first); };
    const auto length = [this](size_t i) {
      return static_cast<int64_t>(lifetimes_[i].last - lifetimes_[i].first) + 1;
    };
    const auto area = [=](size_t i) { return static_cast<double>(size(i)) * static_cast<double>(length(i)); };
    return {
        [=](size_t a, size_t b) { return size(a) != size(b) ? size(a) > size(b) : time(a) < time(b); },
        [=](size_t a, size_t b) { return time(a) < time(b); },
        [=](size_t a, size_t b) {
          return length(a) != length(b) ? length(a) > length(b) : size(a) > size(b);
        },
        [=](size_t a, size_t b) { return area(a) > area(b); },
        [=](size_t a, size_t b) { return size(a) != size(b) ? size(a) > size(b) : length(a) > length(b); },
        [this](size_t a, size_t b) { return lifetimes_[a].last > lifetimes_[b].last; },
        [=, this](size_t a, size_t b) {
          if (lives_at_peak(a) != lives_at_peak(b)) return lives_at_peak(a);
          return size(a) > size(b);
        },
        [=, this](size_t a, size_t b) {
          if (lives_at_peak(a) != lives_at_peak(b)) return lives_at_peak(a);
          return length(a) > length(b);
        },
    };
  }

  // The smallest gap between those placed already that live with it, or else the end.
  int64_t best_offset(size_t item) {
    taken_.clear();
    for (const size_t other : neighbours_[item]) {
      if (offsets_[other] >= 0)
        taken_.emplace_back(offsets_[other], offsets_[other] + lifetimes_[other].bytes);
    }
    work_ += static_cast<int64_t>(neighbours_[item].size()) + 1;
    std::ranges::sort(taken_);
    const int64_t need = lifetimes_[item].bytes;
    int64_t end = 0, best = -1, best_gap = std::numeric_limits<int64_t>::max();
    for (const auto& [from, to] : taken_) {
      if (const int64_t gap = from - end; gap >= need && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, to);
    }
    return best >= 0 ? best : end;
  }

  // Places the values in that order. The bytes used, or more than `most` as soon as they are.
  int64_t place(const Order& order, int64_t most) {
    std::ranges::fill(offsets_, -1);
    int64_t used = 0;
    for (const size_t item : order) {
      offsets_[item] = best_offset(item);
      used = std::max(used, offsets_[item] + lifetimes_[item].bytes);
      if (used > most) break;
    }
    return used;
  }

  // True if it is better than all before.
  bool try_order(const Order& order) {
    const int64_t used = place(order, best_.bytes - 1);
    if (used >= best_.bytes) return false;
    best_ = {offsets_, used};
    return true;
  }

  // One of the values that end highest in the best placement.
  template <typename Random>
  size_t highest(const Order& order, Random& random) const {
    std::vector<size_t> all;
    for (size_t at = 0; at < order.size(); ++at) {
      if (best_.offsets[order[at]] + lifetimes_[order[at]].bytes == best_.bytes) all.push_back(at);
    }
    return all[random() % all.size()];
  }

  // Where what lies highest can be placed earlier at no loss it is, so that the search leaves plateaus.
  void search(Order order) {
    std::mt19937 random(1);  // the same numbers everywhere
    work_ = 0;
    while (!is_optimal() && work_ < kMostWork) {
      Order other = order;
      size_t from = highest(order, random);
      if (from == 0 || random() % 4 == 0) from = random() % order.size();
      const size_t to = random() % (from + 1);
      std::rotate(other.begin() + static_cast<std::ptrdiff_t>(to),
                  other.begin() + static_cast<std::ptrdiff_t>(from),
                  other.begin() + static_cast<std::ptrdiff_t>(from) + 1);
      const int64_t used = place(other, best_.bytes);
      if (used > best_.bytes) continue;
      best_ = {offsets_, used};
      order = std::move(other);
    }
  }

  const std::vector<Lifetime<int64_t>>& lifetimes_;
  std::vector<std::vector<size_t>> neighbours_;  ///< those that live at a step with the value
  std::vector<int64_t> offsets_;                 ///< -1: not placed yet
  std::vector<std::pair<int64_t, int64_t>> taken_;
  MemoryPlacement best_;
  int64_t bound_ = 0;
  size_t peak_ = 0;  ///< the step at which most lives
  int64_t work_ = 0;
};

}  // namespace

MemoryPlacement place_lifetimes(const std::vector<Lifetime<int64_t>>& lifetimes) {
  if (lifetimes.empty()) return {};
  return Placer(lifetimes).run();
}

}  // namespace gantry
