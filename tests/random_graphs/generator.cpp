#include "host/support/error.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

std::vector<Family> joined(const std::vector<std::vector<Family>>& lists) {
  std::vector<Family> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

const std::vector<Family>& all_ops() {
  static const auto families = joined({elementwise_families(), window_families(), product_families(),
                                       movement_families(), reduction_families()});
  return families;
}
const std::vector<Family>& all_patterns() {
  static const auto families = joined({small_patterns(), window_patterns(), attention_patterns()});
  return families;
}

const Family& weighted(Choices& choices, const std::vector<Family>& families) {
  double total = 0;
  for (const Family& family : families) total += family.weight;
  double at = choices.uniform() * total;
  for (const Family& family : families) {
    at -= family.weight;
    if (at < 0) return family;
  }
  return families.back();
}

/// What a type rule refuses is left out.
void try_to_add(Sketch& sketch, const Family& family) {
  try {
    family.add(sketch);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
  }
}

bool sketched(uint64_t seed, Case& result) {
  Choices choices(seed, "kind");
  const bool symbolic = choices.chance(0.3), special = choices.chance(0.1);
  Sketch sketch(seed, symbolic, special);
  for (int64_t i = choices.between(1, 3); i-- > 0;)
    sketch.parameter({sketch.any_type(), sketch.shape(choices.between(0, 4))});
  const int64_t steps = choices.between(1, choices.chance(0.5) ? 8 : 20);
  for (int64_t i = 0; i < steps; ++i)
    try_to_add(sketch, weighted(choices, choices.chance(0.3) ? all_patterns() : all_ops()));
  return sketch.finish(result);
}

}  // namespace

Case random_case(uint64_t seed) {
  Case result;
  // Graphs that what their symbols stand for does not suit make room for the next ones.
  for (uint64_t attempt = 0; !sketched(seed + (attempt << 40), result); ++attempt) {
    internal_check(attempt < 1000, "no graph of seed {} can run", seed);
  }
  return result;
}

}  // namespace gantry::random_graphs
