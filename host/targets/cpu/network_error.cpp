#include "host/targets/cpu/network_error.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gantry::cpu {

int64_t most_two_part_products() {
  const double ratio = kNetworkError / kTwoPartError;
  return static_cast<int64_t>(ratio * ratio);
}

std::set<std::string> kinds_for_exact_weights(std::span<const TwoPartKind> kinds) {
  int64_t excess = -most_two_part_products();
  for (const TwoPartKind& kind : kinds) excess += kind.products;
  struct Some {
    double cycles = INFINITY;
    std::set<std::string> kinds;
  };
  // By the number of products that they are at least: the cheapest of the kinds gone through so far.
  std::vector<Some> cheapest(static_cast<size_t>(std::max<int64_t>(excess, 0)) + 1);
  cheapest[0].cycles = 0;
  for (const TwoPartKind& kind : kinds) {
    for (size_t products = cheapest.size() - 1; products > 0; --products) {
      const Some& others = cheapest[products - std::min(products, static_cast<size_t>(kind.products))];
      if (others.cycles + kind.cycles >= cheapest[products].cycles) continue;
      Some taken = others;
      taken.cycles += kind.cycles;
      taken.kinds.insert(kind.name);
      cheapest[products] = std::move(taken);
    }
  }
  return cheapest.back().kinds;
}

}  // namespace gantry::cpu
