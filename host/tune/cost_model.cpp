#include "host/tune/cost_model.h"

#include <algorithm>
#include <cmath>

namespace gantry::tune {
namespace {

class AnalyticModel : public CostModel {
 public:
  void learn(std::span<const Example>) override {}
  std::vector<double> rank(std::span<const Prospect> prospects) const override {
    const bool known =
        std::ranges::all_of(prospects, [](const Prospect& one) { return one.predicted.value_or(0) > 0; });
    std::vector<double> ranks;
    for (const Prospect& one : prospects) ranks.push_back(known ? std::log(*one.predicted) : 0);
    return ranks;
  }
  std::string_view name() const override { return "analytic"; }
};

}  // namespace

std::unique_ptr<CostModel> make_analytic_model() {
  return std::make_unique<AnalyticModel>();
}

std::unique_ptr<CostModel> make_cost_model() {
  std::unique_ptr<CostModel> learned = make_learned_model();
  return learned ? std::move(learned) : make_analytic_model();
}

}  // namespace gantry::tune
