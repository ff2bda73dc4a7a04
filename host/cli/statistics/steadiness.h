// Has a program warmed up?
#pragma once

#include <vector>

namespace gantry::cli {

/// Fed with medians of successive windows of runs, each of at least 50 ms and 3 runs. Compares the third and
/// the fourth quarter of all windows: what is old no longer counts, and the span that must be level grows
/// with the time that warming up takes. Steady where the interval of the change between them lies within 0.5
/// %; after 4.3 s also where the change does not stand out from the noise, so that it waits for ever on
/// trends only; a limit for those is the caller's. Never before 0.75 s and 5 windows: the clock of a core, or
/// another core of a virtual machine, may wake up after half a second.
///
/// In simulations (exponential curves of 5 to 100 % with time constants of 0.05 to 1 s, steps of -30 to 100 %
/// after 0.5 s, runs of 1 to 200 ms, noise of 0.5 to 10 % of a run and of a window) the time of the next
/// second is within 1 % of the final one in 95 % of cases of each kind. A level series takes 0.8 s where
/// windows scatter by 0.1 %, 2 to 3 s at 0.5 %, 4.3 s beyond.
class SteadinessDetector {
 public:
  /// `window_ms`: how long the window took. `median_ms`: median time of a run in it; positive.
  void add(double window_ms, double median_ms);
  bool steady() const;
  /// Whether the newest windows still differ from those before by more than their noise; for callers whose time is up.
  /// False for fewer than 4 windows, which show no trend.
  bool trending() const;

 private:
  struct Change {
    double value = 0, half_width = 0;  ///< of logarithms
  };
  Change change() const;
  double elapsed_ms_ = 0;
  std::vector<double> log_medians_;
};

}  // namespace gantry::cli
