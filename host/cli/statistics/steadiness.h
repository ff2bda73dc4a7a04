// Has a program warmed up?
#pragma once

#include <vector>

namespace gantry::cli {

/// Fed with medians of successive windows of runs, each of at least 50 ms and 3 runs.
class SteadinessDetector {
 public:
  /// `window_ms`: how long the window took. `median_ms`: median time of a run in it.
  void add(double window_ms, double median_ms);
  bool steady() const;

 private:
  double elapsed_ms_ = 0;
  std::vector<double> log_medians_;
};

}  // namespace gantry::cli
