#include "host/farm/lease_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gantry::farm {
namespace {

constexpr std::string_view kMark = "gantry ";
constexpr std::string_view kReady = "ready ";

}  // namespace

std::string to_text(const LeaseComment& comment) {
  std::string text = std::string(kMark) + comment.lease;
  if (!comment.address.empty()) return text + " " + std::string(kReady) + comment.address;
  return comment.words.empty() ? text : text + " " + comment.words;
}

std::optional<LeaseComment> parse_comment(std::string_view text) {
  if (!text.starts_with(kMark)) return std::nullopt;
  text.remove_prefix(kMark.size());
  const size_t space = text.find(' ');
  LeaseComment comment;
  comment.lease = text.substr(0, space);
  if (space == std::string_view::npos) return comment;
  text.remove_prefix(space + 1);
  if (text.starts_with(kReady))
    comment.address = text.substr(kReady.size());
  else
    comment.words = text;
  return comment;
}

LeaseMachine::Step LeaseMachine::next(Seconds now) const {
  if (now < next_at_ || state_ == State::kOver || state_ == State::kGivenUp) return Step::kWait;
  return state_ == State::kWanted ? Step::kSubmit : Step::kLook;
}

void LeaseMachine::submitted(JobId job, Seconds now) {
  state_ = State::kQueued;
  job_ = job;
  ++submissions_;
  submitted_at_ = now;
  unreachable_since_.reset();
  next_at_ = now + bounds_.look_every;
  words_ = fmt::format("job {} is queued", job);
}

void LeaseMachine::submit_failed(const SlurmError& error, Seconds now) {
  if (error.unreachable()) return saw_nothing(error, now);
  unreachable_since_.reset();
  try_again(error.what(), now);
}

/// What was wrong may pass; what does not is given up.
void LeaseMachine::try_again(const std::string& why, Seconds now) {
  words_ = why;
  job_ = 0;
  address_.clear();
  ++failures_;
  state_ = failures_ >= bounds_.most_failures ? State::kGivenUp : State::kWanted;
  next_at_ = now + std::min(bounds_.longest_pause, bounds_.first_pause * std::pow(2.0, failures_ - 1));
}

void LeaseMachine::saw_nothing(const SlurmError& error, Seconds now) {
  if (!unreachable_since_) unreachable_since_ = now;
  next_at_ = now + (state_ == State::kReady ? bounds_.look_every_ready : bounds_.look_every);
  if (state_ == State::kReady) return;
  words_ = error.what();
  const Seconds longest = error.never_reached() ? bounds_.never_reached_for : bounds_.unreachable_for;
  if (now - *unreachable_since_ >= longest) state_ = State::kGivenUp;
}

const Job* LeaseMachine::own(const std::vector<Job>& jobs) const {
  const auto job = std::ranges::find_if(jobs, [&](const Job& candidate) {
    const auto comment = parse_comment(candidate.comment);
    return candidate.id == job_ && comment && comment->lease == lease_;
  });
  return job == jobs.end() ? nullptr : &*job;
}

void LeaseMachine::saw(const std::vector<Job>& jobs, Seconds now) {
  unreachable_since_.reset();
  if (state_ != State::kQueued && state_ != State::kReady) return;
  next_at_ = now + (state_ == State::kReady ? bounds_.look_every_ready : bounds_.look_every);
  const Job* const job = own(jobs);
  if (job == nullptr) {
    if (now - submitted_at_ < bounds_.forgotten_after) return;
    const std::string why = fmt::format("Slurm has forgotten job {}: its controller was started again", job_);
    if (state_ == State::kQueued) return try_again(why, now);
    words_ = why;
    state_ = State::kOver;
    return;
  }
  const LeaseComment comment = *parse_comment(job->comment);
  if (job->phase == JobPhase::kEnded) {
    const std::string why = fmt::format("job {} ended: {}{}", job_, job->state,
                                        comment.words.empty() ? "" : ", " + comment.words);
    if (state_ == State::kQueued) return try_again(why, now);
    words_ = why;
    state_ = State::kOver;
    return;
  }
  if (job->phase == JobPhase::kPending) {
    words_ = fmt::format("job {} waits: {}", job_, job->reason.empty() ? "queued" : job->reason);
    return;
  }
  if (comment.address.empty()) {
    words_ = fmt::format("job {} runs on {}: {}", job_, job->node,
                         comment.words.empty() ? "there is no " + what_ + " yet" : comment.words);
    return;
  }
  if (state_ == State::kReady) return;
  state_ = State::kReady;
  address_ = comment.address;
  failures_ = 0;
  words_ = fmt::format("job {} holds {} {}", job_, what_, address_);
}

void LeaseMachine::want_again(Seconds now) {
  if (state_ == State::kGivenUp) return;
  job_ = 0;
  address_.clear();
  state_ = State::kWanted;
  next_at_ = now;
}

}  // namespace gantry::farm
