// What a client does for a lease of a board or compile host, from wanting one to its end. Knows neither
// Slurm's commands nor a clock.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/farm/slurm.h"

namespace gantry::farm {

/// What the job of a lease says of itself, in its comment, beside the lease's own name: "gantry NAME ready
/// HOST:PORT", "gantry NAME looks WHY". The name tells the job from another that has got its number, which
/// happens where a controller has forgotten jobs.
struct LeaseComment {
  std::string lease;
  std::string address;  ///< of what is ready; else empty
  std::string words;    ///< what it does meanwhile
};
std::string to_text(const LeaseComment& comment);
/// None for other comments.
std::optional<LeaseComment> parse_comment(std::string_view text);

/// wanted -> queued -> ready -> over. A job that is lost, fails or ends before a board is ready is submitted
/// again, after a while that doubles; so is one that ends while it is used, if its user says so (want_again).
/// A controller that does not answer changes nothing: a lease that is ready goes on without it.
class LeaseMachine {
 public:
  using Seconds = double;
  struct Bounds {
    Seconds look_every = 1;                       ///< asks of Slurm, while it waits
    Seconds look_every_ready = 10;                ///< and while it is used
    Seconds forgotten_after = 5;                  ///< a job that Slurm does not know so long after it took it
    Seconds unreachable_for = 1800;               ///< a controller that nobody gets an answer from: given up
    Seconds never_reached_for = 60;               ///< likewise, one that has never answered
    Seconds first_pause = 2, longest_pause = 60;  ///< before another try
    int most_failures = 12;                       ///< in a row
  };
  enum class Step { kWait, kSubmit, kLook };
  enum class State { kWanted, kQueued, kReady, kOver, kGivenUp };

  /// `what`: is leased, for people.
  LeaseMachine(std::string lease, const Bounds& bounds, std::string what = "board")
      : lease_(std::move(lease)), what_(std::move(what)), bounds_(bounds) {}

  /// What is to be done now.
  Step next(Seconds now) const;
  /// When next() may say something else.
  Seconds wakes_at() const { return next_at_; }

  void submitted(JobId job, Seconds now);
  void submit_failed(const SlurmError& error, Seconds now);
  void saw(const std::vector<Job>& jobs, Seconds now);
  void saw_nothing(const SlurmError& error, Seconds now);
  /// Its user has found the board dead, or wants to go on after the end: another job.
  void want_again(Seconds now);

  State state() const { return state_; }
  JobId job() const { return job_; }
  /// Its job among those that Slurm knows; null: there is none, or another has got its number.
  const Job* own(const std::vector<Job>& jobs) const;
  /// HOST:PORT of what is ready.
  const std::string& address() const { return address_; }
  /// For people: what it waits for, or why it is over.
  const std::string& words() const { return words_; }
  int submissions() const { return submissions_; }
  /// The controller did not answer when it was last asked.
  bool unreachable() const { return unreachable_since_.has_value(); }

 private:
  void try_again(const std::string& why, Seconds now);

  std::string lease_, what_;
  Bounds bounds_;
  State state_ = State::kWanted;
  JobId job_ = 0;
  std::string address_, words_;
  Seconds next_at_ = 0, submitted_at_ = 0;
  std::optional<Seconds> unreachable_since_;
  int failures_ = 0, submissions_ = 0;
};

}  // namespace gantry::farm
