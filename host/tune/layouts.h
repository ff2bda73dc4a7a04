// In which order of axes images lie: a choice of the network as a whole, tried on it before its kernels are.
//
// A decision by which a node reads or writes its images in another order moves conversions in front of other
// nodes and changes what these read. So it is judged by the time of the whole network with nothing else
// changed, by the rule by which decisions of kernels are (host/tune/tuner.h): a quick measurement says what
// is worth another; the promising ones, all of them in one program, are made sure of, and where they do not
// gain together, the best one alone.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/tune/measurer.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// Tasks whose images come to lie otherwise together.
struct LayoutChange {
  std::string orders;         ///< OtherLayout::orders; of different ones, with "; " between them
  std::vector<Trial> trials;  ///< at most one a task
};

/// What became of one.
struct LayoutTrial {
  LayoutChange change;
  Effort effort = Effort::kQuick;
  std::optional<Ratio> whole;  ///< of the network with it to the network without; none: it failed
  std::optional<Failure> failure = {};
  bool accepted = false;
};

/// All tasks that may lie in an order in which they do not, where these are several, for each such order;
/// then each task by itself, those of more share first, and none of a share below `least`. `shares`: of the
/// network's time, parallel to the tasks.
std::vector<LayoutChange> layout_changes(const std::vector<Task>& tasks, const std::vector<double>& shares,
                                         double least);

struct LayoutTools {
  /// Each by itself against the network as it is.
  std::function<std::vector<Batch>(const std::vector<std::vector<Trial>>&, Effort)> measure;
  /// How many more may be tried, after so many.
  std::function<size_t(size_t tried)> room;
  std::function<bool()> may_confirm;  ///< there is time for a sure measurement
  size_t at_once = 1;                 ///< Measurer::batches_at_once
  double smallest_gain = 0;           ///< TuneOptions::smallest_gain, of the network
};

/// In the order in which they were tried; at most one, the last, is accepted.
std::vector<LayoutTrial> try_layouts(std::vector<LayoutChange> changes, const LayoutTools& tools);

}  // namespace gantry::tune
