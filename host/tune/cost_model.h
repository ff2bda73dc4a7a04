// Which of several decisions for a kernel will be the fastest: what the analytic models predict, times what
// was learned of how far they are off.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace gantry::tune {

/// What is known of a decision for a task before it is measured.
struct Prospect {
  std::vector<float> features;  ///< of equal length for all
  std::optional<double>
      predicted;  ///< by the analytic models: cycles or milliseconds; none: no model looks at it
};

/// A decision that was measured.
struct Example {
  size_t group = 0;  ///< those of one group, a task's, are compared with each other
  Prospect prospect;
  double cost = 1;  ///< its time over that of another of the group, the same for all of it
};

/// Belongs to one thread.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// Of all examples so far, in any order.
  virtual void learn(std::span<const Example> examples) = 0;
  /// Of prospects of one task: the lower, the faster. Comparable with each other only.
  virtual std::vector<double> rank(std::span<const Prospect> prospects) const = 0;
  /// "analytic", or "analytic and XGBoost".
  virtual std::string_view name() const = 0;
};

/// What is predicted, where that is predicted of all; else nothing is known.
std::unique_ptr<CostModel> make_analytic_model();
/// Learns the residual by gradient-boosted trees with pairwise ranking (Chen and Guestrin, "XGBoost: a
/// scalable tree boosting system", KDD 2016; Burges, "From RankNet to LambdaRank to LambdaMART", 2010). Null
/// where gantry was built without XGBoost. The same examples give the same model.
std::unique_ptr<CostModel> make_learned_model();
/// The learned one where there is one.
std::unique_ptr<CostModel> make_cost_model();

}  // namespace gantry::tune
