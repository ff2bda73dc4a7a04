#include "host/tune/lone_look.h"

#include <optional>

#include "host/ops/movement.h"
#include "host/support/error.h"
#include "host/targets/common/explain.h"
#include "host/tune/candidate_features.h"
#include "host/tune/lone_node.h"

namespace gantry::tune {
namespace {

/// The analytic models' prediction of a lone node's kernels; none where none of them is looked at.
std::optional<double> predicted_of(const LoweredProgram& program, const Target& target) {
  std::optional<double> sum;
  const auto add = [&](const Node& part) {
    const Explanation explanation = explain(part, target);
    const std::optional<double> one = explanation.cycles ? explanation.cycles : explanation.seconds;
    if (one) sum = sum.value_or(0) + *one;
  };
  for (const KernelStep& step : program.steps) {
    if (step.node->bodies.empty()) add(*step.node);
    for (const auto& body : step.node->bodies) {
      for (const Node* part : body->nodes()) {
        if (!part->is(op::transpose)) add(*part);
      }
    }
  }
  return sum;
}

}  // namespace

Look look_at_lone(const Function& function, const Node& node, const Decision& decision,
                  const CompileOptions& options, int threads) {
  Look look;
  CompileOptions alone = options;
  alone.threads = 1;
  alone.decisions = nullptr;
  alone.observer = {};
  const Target target = with_precision(options.targets.front(), options.precision);
  try {
    const LoweredProgram program =
        lower_program(lone_node(function, node, decision), options.targets.front(), alone);
    look.predicted = predicted_of(program, target);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    look.misfit = error.what();
  }
  look.features = features_of(node, decision, look.predicted, target, threads);
  return look;
}

}  // namespace gantry::tune
