// How many products of a network may be less exact than f32, as those with weights of two bf16 parts are: one
// rule for what error a network may have, and how its products share it.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

namespace gantry::forms {

/// Errors of different products do not depend on each other, so that their squares add up: a network may be
/// `kNetworkError` of its largest result away from the exact one for products that are less exact than f32,
/// which leaves room below 1e-5 for what all else rounds, and each such product moves it by its error e: the
/// sum of all e^2 <= (kNetworkError)^2.
constexpr double kNetworkError = 0.85e-5;
/// Of weights whose rests cancel (host/passes/balanced_weight.h), as far as the result of a network shows it:
/// the largest that was measured, of convolutions of resnet101, calibrated on random images.
constexpr double kTwoPartError = 1.22e-6;

/// Products of a network that are alike, and faster with weights in two bf16 parts than in three.
struct TwoPartKind {
  std::string name;
  int64_t products = 0;
  double cycles = 0;             ///< that a third part takes, in all of them
  double error = kTwoPartError;  ///< by which each moves a network's result
};

/// How many products that each move the result so far a network may have.
int64_t most_products(double error = kTwoPartError);

/// Names of the kinds whose weights get a third part since the network has too many of two: those that leave
/// few enough and together cost the fewest cycles.
std::set<std::string> kinds_for_exact_weights(std::span<const TwoPartKind> kinds);

}  // namespace gantry::forms
