// A Slurm that is asked once for many leases of one program.
#pragma once

#include <chrono>
#include <optional>

#include "host/farm/slurm.h"

namespace gantry::farm {

/// What leases() says is kept for a while, errors too: a tuner with forty boards asks as often as one with
/// one. Everything else goes through at once. `slurm` outlives it.
class CachedSlurm : public Slurm {
 public:
  CachedSlurm(Slurm& slurm, std::chrono::milliseconds fresh) : slurm_(slurm), fresh_(fresh) {}

  std::vector<Job> leases() override {
    const auto now = Clock::now();
    if (!asked_at_ || now - *asked_at_ >= fresh_) {
      asked_at_ = now;
      error_.reset();
      try {
        jobs_ = slurm_.leases();
      } catch (const SlurmError& error) {
        error_ = error;
      }
    }
    if (error_) throw SlurmError(*error_);
    return jobs_;
  }
  JobId submit(const JobRequest& request) override {
    const JobId job = slurm_.submit(request);
    asked_at_.reset();  // what is kept does not know it
    return job;
  }
  void cancel(JobId job) override { slurm_.cancel(job); }
  void set_comment(JobId job, const std::string& comment) override { slurm_.set_comment(job, comment); }
  std::vector<NodeBoards> boards() override { return slurm_.boards(); }
  void drain(const std::string& node, const std::string& reason) override { slurm_.drain(node, reason); }
  void resume(const std::string& node) override { slurm_.resume(node); }

 private:
  using Clock = std::chrono::steady_clock;
  Slurm& slurm_;
  std::chrono::milliseconds fresh_;
  std::optional<Clock::time_point> asked_at_;
  std::vector<Job> jobs_;
  std::optional<SlurmError> error_;
};

}  // namespace gantry::farm
