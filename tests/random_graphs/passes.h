// The passes under test.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/passes/form_set.h"

namespace gantry::random_graphs {

/// When a pass may run among the others: those of an earlier stage never run after one of a later stage.
enum class Stage : uint8_t {
  kAny,     ///< cleaning up
  kModel,   ///< works on the model's own ops
  kLayout,  ///< chooses forms
  kForms,   ///< works on forms
  kFused,   ///< makes fused nodes
  kPlaced,  ///< works on these
};

struct TestedPass {
  std::string name;
  Stage stage = Stage::kAny;
  /// Makes at most that many rewrites, with `seed` for what the pass is told by its target; returns those made.
  std::function<int64_t(Graph&, uint64_t seed, int64_t most_rewrites)> run;
  /// Passes that run first where it is tested alone.
  std::vector<std::string> after;
  /// Compiling runs it unasked.
  bool by_default = true;
};

/// Every pass of the pipeline but those that change results on purpose.
const std::vector<TestedPass>& list_of_passes();
const TestedPass& tested_pass(const std::string& name);
/// Some of them in a random order that their stages allow.
std::vector<std::string> random_order(uint64_t seed);

/// Forms chosen by the seed and the op alone, whatever is fast: those that are as exact as f32, or nearly
/// (see kFormUnit).
std::unique_ptr<FormSet> random_forms(uint64_t seed);
/// Relative error of a product's terms in the least exact of these forms, Winograd's largest tiles.
constexpr double kFormUnit = 0x1p-17;

}  // namespace gantry::random_graphs
