// Tuning: trials in batches, acceptance, the final comparison.
//
//   0. What is decided for the network as a whole is tried first: in which order of axes images lie, what is
//   kept apart that could share a kernel (host/tune/network_changes.h), and whether products of the same data
//   are one.
//   1. Batches of trials, a candidate of each of the most promising tasks in one program, are measured
//   quickly. A batch
//      that fails (wrong results, a crash, a hang) is halved until it is known whose trial that was.
//   2. Now and then the most promising candidates are measured again, with other samples and in several
//   processes,
//      against the best so far. One is accepted only where the 95 % interval of its ratio lies below 1: of
//      candidates that are no faster, one of forty is.
//   3. At the end all that was accepted is measured once more against what the compiler takes by itself, task
//   by task;
//      what does not exclude a loss there is undone, and what only looked promising when the time was over is
//      taken if it does. Then the whole network is compared, as `gantry compare` does: where that does not
//      exclude a loss, the half of the changes that gains most is tried, and then none is taken. So a tuned
//      module is the untuned one, or it was shown to be faster: all of these comparisons together show what
//      is no faster to be so at most one time in forty.
//
// Nothing here knows of processes, boards or the time of the day: all of it is behind Measurer, Screen and
// Clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/tune/cost_model.h"
#include "host/tune/measurer.h"
#include "host/tune/network_changes.h"
#include "host/tune/notebook.h"
#include "host/tune/search.h"
#include "host/tune/task.h"

namespace gantry::tune {

struct TuneOptions {
  double seconds = 300;          ///< when tuning is to be over, with the final comparison
  std::optional<size_t> trials;  ///< at most so many
  bool resume = false;           ///< what the notebook remembers is not tried again
  double smallest_gain = 0;  ///< of a task: its interval has to exclude all that gains less than this share
  uint64_t seed = 0;
  bool combined = false;     ///< untuned, as Choices::combined
  bool may_combine = false;  ///< there is something to combine
  std::vector<Separation> apart = {};  ///< untuned, as Choices::apart
};

/// How tuning stands, for who waits.
struct Progress {
  std::string doing;  ///< "trying 8 candidates", "confirming 3", "comparing the whole network"
  double gain = 0;    ///< share of the network's time that was gained, as far as is known
  size_t trials = 0;
  double seconds_left = 0;
};

/// What became of a task.
struct TaskResult {
  double share = 0;   ///< of the network's amount, untuned
  double amount = 0;  ///< untuned, of a run, all its nodes
  Decision decision;  ///< the untuned one where nothing better was shown
  /// With the decision to untuned, as it was confirmed; none: nothing was accepted, or it was undone.
  std::optional<Ratio> ratio;
  size_t trials = 0, failures = 0;
  /// Its images lie otherwise, and the ratio is the network's, with all such tasks to none.
  bool of_network = false;
};

/// What became of combining products of the same data.
struct CombinedTrial {
  std::optional<Ratio>
      whole;              ///< of the network with them combined to apart, when it was tried; none: it failed
  bool accepted = false;  ///< then
  bool remembered = false;  ///< of an earlier run
};

/// How far a run had come when something was accepted.
struct Standing {
  size_t trials = 0;
  double seconds = 0;  ///< from its beginning
  double gain = 0;     ///< as Progress::gain
};

struct TuneResult {
  Choices choices;
  std::vector<TaskResult> tasks;  ///< parallel to the tasks
  double untuned_amount = 0;
  /// The tuned network to the untuned one; none: they are the same. The intervals of all comparisons that may
  /// have been made hold at 95 % together, each by itself more often.
  std::optional<Ratio> whole;
  size_t trials = 0, accepted = 0, undone = 0;
  /// Quick ones are among the trials, but for those that are remembered.
  std::vector<ChangeTrial> layouts, fusions;
  std::optional<CombinedTrial> combined;  ///< it is among the trials, likewise; none: it was not tried
  /// Trials by what became of them.
  std::vector<std::pair<records::Outcome, size_t>> outcomes;
  /// Whenever that changed; in the end some of it may not have been confirmed.
  std::vector<Standing> history;
  /// Of the failures, for people: "stem.conv {form=…}: crashed: …"
  std::vector<std::string> failures;
  std::string
      ended;  ///< why the trials ended: "the time is over", "all trials are made", "nothing is left to try"
};

struct Tools {
  Measurer& measurer;
  Screen& screen;
  CostModel& model;
  Notebook& notebook;
  const Clock& clock;
  std::function<void(const Progress&)> progress;  ///< may be empty
  /// What the model learns from beside its own trials; groups are none of the tasks' numbers.
  std::vector<Example> prior = {};
};

/// Errors: those of the tools. What was measured before is in the notebook, which whoever owns it finishes.
TuneResult tune(const std::vector<Task>& tasks, const TuneOptions& options, Tools tools);

}  // namespace gantry::tune
