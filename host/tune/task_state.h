// What a tuner knows of a task while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "host/tune/search.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// Share of its time that a task is hoped to lose, and what is left of that after a trial that gains nothing.
constexpr double kHope = 0.3, kHopeLeft = 0.85;

struct TaskState {
  TaskState(const Task& task, uint64_t seed) : search(task.space, task.untuned, seed) {}

  Search search;
  double amount = 0, share = 0;
  double hope = kHope;
  bool exhausted = false;
  bool laid = false;  ///< its images lie otherwise than untuned
  size_t trials = 0, failures = 0;
  /// The candidate that looked best since the last acceptance, with its quick ratio.
  std::optional<std::pair<Decision, double>> promising;
};

}  // namespace gantry::tune
