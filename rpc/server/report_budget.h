/// How many strangers the log has lines for.
#ifndef GANTRY_RPC_SERVER_REPORT_BUDGET_H
#define GANTRY_RPC_SERVER_REPORT_BUDGET_H

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace gantry::rpc {

/// Lets through `burst` events at once and `rate` a second in the long run: whoever connects again and again
/// does not fill the disk that the log is on.
class ReportBudget {
 public:
  using Clock = std::chrono::steady_clock;
  ReportBudget(double burst, double rate) : burst_(burst), rate_(rate), left_(burst) {}
  /// Whether this event is reported.
  bool take(Clock::time_point now) {
    const std::chrono::duration<double> passed = now - filled_;
    left_ = std::min(burst_, left_ + passed.count() * rate_);
    filled_ = now;
    if (left_ < 1) {
      ++left_out_;
      return false;
    }
    left_ -= 1;
    return true;
  }
  /// How many were not since it was last asked.
  std::size_t take_left_out() {
    const std::size_t count = left_out_;
    left_out_ = 0;
    return count;
  }

 private:
  double burst_, rate_, left_;
  Clock::time_point filled_ = Clock::now();
  std::size_t left_out_ = 0;
};

}  // namespace gantry::rpc
#endif
