#include "host/forms/network_error.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gantry::forms {

namespace {

/// Of the square of kNetworkError, in those of kTwoPartError.
int64_t share_of(const TwoPartKind& kind) {
  const double ratio = kind.error / kTwoPartError;
  return kind.products * std::max<int64_t>(std::llround(ratio * ratio), 1);
}

}  // namespace

int64_t most_products(double error) {
  const double ratio = kNetworkError / error;
  return static_cast<int64_t>(ratio * ratio);
}

std::set<std::string> kinds_for_exact_weights(std::span<const TwoPartKind> kinds) {
  int64_t excess = -most_products();
  for (const TwoPartKind& kind : kinds) excess += share_of(kind);
  struct Some {
    double cycles = INFINITY;
    std::set<std::string> kinds;
  };
  // By the share that they have at least: the cheapest of the kinds gone through so far.
  std::vector<Some> cheapest(static_cast<size_t>(std::max<int64_t>(excess, 0)) + 1);
  cheapest[0].cycles = 0;
  for (const TwoPartKind& kind : kinds) {
    const auto own = static_cast<size_t>(share_of(kind));
    for (size_t share = cheapest.size() - 1; share > 0; --share) {
      const Some& others = cheapest[share - std::min(share, own)];
      if (others.cycles + kind.cycles >= cheapest[share].cycles) continue;
      Some taken = others;
      taken.cycles += kind.cycles;
      taken.kinds.insert(kind.name);
      cheapest[share] = std::move(taken);
    }
  }
  return cheapest.back().kinds;
}

}  // namespace gantry::forms
