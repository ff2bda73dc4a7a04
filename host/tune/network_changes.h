// What is decided for a network as a whole, and tried on it before its kernels are: in which order of axes
// images lie, and which nodes are kept apart that could share a kernel.
//
// A decision by which a node reads or writes its images in another order moves conversions in front of other
// nodes and changes what these read; a node that is kept apart writes and reads once more what both had at
// hand. So it is judged by the time of the whole network with nothing else changed, by the rule by which
// decisions of kernels are (host/tune/tuner.h): a quick measurement says what is worth another; the promising
// ones, all of them in one program, are made sure of, and where they do not gain together, the best one
// alone.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/tune/measurer.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// Of some tasks together.
struct NetworkChange {
  std::string what;  ///< OtherLayout::orders, OtherFusion::what; of different ones, with "; " between them
  std::vector<Trial> trials;  ///< at most one a task
  std::vector<NumberedSeparation> apart = {};
};
/// The choices with it.
Choices with_change(Choices choices, const NetworkChange& change);

/// What became of one.
struct ChangeTrial {
  NetworkChange change;
  Effort effort = Effort::kQuick;
  std::optional<Ratio> whole;  ///< of the network with it to the network without; none: it failed
  std::optional<Failure> failure = {};
  bool remembered = false;  ///< of an earlier run
  bool accepted = false;
};

/// All tasks that may lie in an order in which they do not, where these are several, for each such order;
/// then each task by itself, those of more share first, and none of a share below `least`. `shares`: of the
/// network's time, parallel to the tasks.
std::vector<NetworkChange> layout_changes(const std::vector<Task>& tasks, const std::vector<double>& shares,
                                          double least);
/// The same of what may be kept apart of the tasks' kernels.
std::vector<NetworkChange> fusion_changes(const std::vector<Task>& tasks, const std::vector<double>& shares,
                                          double least);

struct ChangeTools {
  /// Each by itself against the network as it is.
  std::function<std::vector<Batch>(const std::vector<NetworkChange>&, Effort)> measure;
  /// What is known of one from earlier runs; none: nothing. May be empty.
  std::function<std::optional<Batch>(const NetworkChange&)> remembered;
  /// How many more may be tried, after so many.
  std::function<size_t(size_t tried)> room;
  std::function<bool()> may_confirm;  ///< there is time for a sure measurement
  size_t at_once = 1;                 ///< Measurer::batches_at_once
  double smallest_gain = 0;           ///< TuneOptions::smallest_gain, of the network
};

/// Those that are remembered, then in the order in which they were tried; at most one, the last, is accepted.
std::vector<ChangeTrial> try_changes(std::vector<NetworkChange> changes, const ChangeTools& tools);

}  // namespace gantry::tune
