#include "tests/farm/lab_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <utility>

#include "host/farm/lease_machine.h"

namespace gantry::farm {
namespace {

constexpr double kStepS = 1;
constexpr size_t kNobody = SIZE_MAX;
/// A record of host/tune's kind: keys, knobs, samples, environment.
constexpr double kRecordBytes = 1200;

struct Board {
  bool well = true;
  double well_at = 0;
  JobId job = 0;
  uint64_t used_by = 0;  ///< epoch of the place that measures there; 0: none
};

struct SimulatedJob {
  size_t tuner = 0;
  std::string lease;
  double submitted = 0, starts = 0, ends = 0;
  size_t board = kNobody;
  bool running = false, ended = false, ready = false;
  double forget_at = 0;
};

/// One board's worth of a tuner.
struct Place {
  std::unique_ptr<LeaseMachine> machine;
  std::string lease;
  double wanted_since = 0;
  size_t board = kNobody;
  uint64_t epoch = 0;  ///< of what runs there
  std::optional<size_t> trial;
};

struct Tuner {
  double begins = 0, looks_at = 0, stores_at = 0, restarts_at = -1;
  std::deque<size_t> to_do;  ///< trials, by number
  size_t unstored = 0;
  std::vector<size_t> measured;  ///< and not stored yet
  std::vector<uint8_t> records;  ///< in the database, by trial
  std::vector<Place> places;
  bool done = false;
};

struct TrialEnd {
  double at;
  size_t tuner, place;
  uint64_t epoch;
  bool operator>(const TrialEnd& other) const { return at > other.at; }
};

class Lab {
 public:
  explicit Lab(const LabOptions& options) : o_(options), random_(options.seed) {}

  LabResult run() {
    begin();
    constexpr double kMostS = 14 * 24 * 3600.0;
    while (finished_ < tuners_.size() && now_ < kMostS) {
      now_ += kStepS;
      fail_something();
      end_jobs();
      start_jobs();
      for (size_t i = 0; i < tuners_.size(); ++i) step(i);
      finish_trials();
      count_minute();
    }
    return result();
  }

 private:
  double exponential(double mean) { return std::exponential_distribution<double>(1 / mean)(random_); }
  bool happens(double mean_s) { return mean_s > 0 && std::bernoulli_distribution(kStepS / mean_s)(random_); }

  void begin() {
    boards_.resize(o_.boards);
    tuners_ = std::vector<Tuner>(o_.tuners);
    for (Tuner& tuner : tuners_) {
      tuner.begins = std::uniform_real_distribution<double>(0, o_.arrival_s)(random_);
      tuner.records.assign(o_.trials, 0);
    }
  }

  // ---- what fails ----

  void fail_something() {
    for (size_t i = 0; i < boards_.size(); ++i) {
      Board& board = boards_[i];
      if (board.well && happens(o_.board_fails_s)) {
        board.well = false;
        board.well_at = now_ + o_.repair_s;
        ++r_.boards_died;
        if (board.job != 0) end_job(board.job);  // it hears of the death from its connection
      } else if (!board.well && now_ >= board.well_at) {
        board.well = true;
      }
    }
    if (away_until_ <= now_ && happens(o_.controller_fails_s)) {
      away_until_ = now_ + o_.controller_away_s;
      ++r_.controller_starts;
      std::vector<JobId> forgotten;
      for (const auto& [id, job] : jobs_)
        if (!job.ended && now_ - job.submitted < o_.forgotten_s) forgotten.push_back(id);
      for (const JobId id : forgotten) {
        if (jobs_[id].board != kNobody) boards_[jobs_[id].board].job = 0;
        jobs_.erase(id);
        ++r_.forgotten;
      }
    }
    if (happens(o_.tuner_killed_s))
      kill(std::uniform_int_distribution<size_t>(0, tuners_.size() - 1)(random_));
  }

  /// Its places are gone, and what it had not stored; the jobs of its leases end as nobody uses their keys.
  void kill(size_t index) {
    Tuner& tuner = tuners_[index];
    if (tuner.done || tuner.restarts_at >= 0 || now_ < tuner.begins) return;
    ++r_.tuners_killed;
    for (Place& place : tuner.places) {
      leave(place);
      if (place.trial) ++r_.cut_off;
      if (place.machine->job() != 0) unused_.emplace_back(now_ + 60, place.machine->job());
    }
    tuner.places.clear();
    tuner.measured.clear();
    tuner.to_do.clear();
    tuner.restarts_at = now_ + 60;
  }

  // ---- Slurm ----

  bool away() const { return now_ < away_until_; }

  void end_job(JobId id) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || job->second.ended) return;
    job->second.ended = true;
    job->second.running = job->second.ready = false;
    job->second.forget_at = now_ + 300;
    if (job->second.board != kNobody) boards_[job->second.board].job = 0;
  }

  void end_jobs() {
    for (const auto& [at, id] : unused_)
      if (at <= now_) end_job(id);
    std::erase_if(unused_, [&](const auto& entry) { return entry.first <= now_; });
    for (auto& [id, job] : jobs_)
      if (job.running && now_ >= job.ends) end_job(id);
    std::erase_if(jobs_,
                  [&](const auto& entry) { return entry.second.ended && entry.second.forget_at <= now_; });
    for (auto& [id, job] : jobs_)
      if (job.running && now_ >= job.starts + o_.prepare_s) job.ready = true;
  }

  void start_jobs() {
    if (away() || now_ < schedules_at_) return;
    schedules_at_ = now_ + o_.schedule_every_s;
    size_t started = 0, next = 0;
    for (auto& [id, job] : jobs_) {
      if (started == o_.starts_at_once) return;
      if (job.running || job.ended) continue;
      while (next < boards_.size() && (boards_[next].job != 0 || !boards_[next].well)) ++next;
      if (next == boards_.size()) return;
      boards_[next].job = id;
      job.board = next;
      job.running = true;
      job.starts = now_;
      job.ends = now_ + o_.lease_s;
      ++started;
    }
  }

  JobId submit(size_t tuner, const std::string& lease) {
    if (away()) throw SlurmError("away", true);
    ++sbatch_;
    SimulatedJob job;
    job.tuner = tuner;
    job.lease = lease;
    job.submitted = now_;
    jobs_.emplace(++last_job_, std::move(job));
    ++r_.submissions;
    r_.most_jobs = std::max(r_.most_jobs, jobs_.size());
    return last_job_;
  }

  std::vector<Job> leases_of(size_t tuner) {
    if (away()) throw SlurmError("away", true);
    ++squeue_;
    std::vector<Job> result;
    for (const auto& [id, job] : jobs_) {
      if (job.tuner != tuner) continue;
      Job row;
      row.id = id;
      row.phase = job.ended ? JobPhase::kEnded : job.running ? JobPhase::kRunning : JobPhase::kPending;
      row.state = job.ended ? "COMPLETED" : "RUNNING";
      row.comment = to_text(LeaseComment{job.lease, job.ready ? std::to_string(job.board) : "", ""});
      result.push_back(std::move(row));
    }
    return result;
  }

  // ---- tuners ----

  /// From the records: what has none is to be measured.
  void resume(Tuner& tuner) {
    tuner.restarts_at = -1;
    for (size_t trial = 0; trial < o_.trials; ++trial)
      if (tuner.records[trial] == 0) tuner.to_do.push_back(trial);
  }

  void step(size_t index) {
    Tuner& tuner = tuners_[index];
    if (tuner.done || now_ < tuner.begins) return;
    if (tuner.restarts_at > now_) return;
    const bool fresh = tuner.places.empty() && tuner.to_do.empty() && tuner.measured.empty();
    if (tuner.restarts_at >= 0 || fresh) resume(tuner);
    store(tuner);
    grow(index);
    lease(index);
    for (size_t i = 0; i < tuner.places.size(); ++i) give_work(index, i);
    size_t running = 0;
    for (const Place& place : tuner.places) running += place.trial ? 1 : 0;
    if (tuner.to_do.empty() && running == 0 && tuner.measured.empty()) {
      for (Place& place : tuner.places) {
        leave(place);
        if (place.machine->job() != 0) unused_.emplace_back(now_, place.machine->job());
      }
      tuner.places.clear();
      tuner.done = true;
      ++finished_;
    }
  }

  void store(Tuner& tuner) {
    if (tuner.measured.empty() || now_ < tuner.stores_at) return;
    tuner.stores_at = now_ + o_.store_every_s;
    ++transactions_;
    for (const size_t trial : tuner.measured) {
      if (tuner.records[trial]++ != 0) ++r_.repeated;
      ++records_;
    }
    tuner.measured.clear();
  }

  void grow(size_t index) {
    Tuner& tuner = tuners_[index];
    while (tuner.places.size() < std::min(o_.most_boards, tuner.to_do.size())) {
      Place place;
      place.lease = fmt::format("{}-{}", index, ++last_lease_);
      place.machine = std::make_unique<LeaseMachine>(place.lease, LeaseMachine::Bounds{});
      place.wanted_since = now_;
      place.epoch = ++last_epoch_;
      tuner.places.push_back(std::move(place));
    }
  }

  void lease(size_t index) {
    Tuner& tuner = tuners_[index];
    std::optional<std::vector<Job>> jobs;
    std::optional<SlurmError> error;
    const bool looks = now_ >= tuner.looks_at;
    if (looks) tuner.looks_at = now_ + o_.look_every_s;
    for (Place& place : tuner.places) {
      const LeaseMachine::Step step = place.machine->next(now_);
      if (step == LeaseMachine::Step::kSubmit) {
        try {
          place.machine->submitted(submit(index, place.lease), now_);
        } catch (const SlurmError& refused) {
          place.machine->submit_failed(refused, now_);
        }
      } else if (step == LeaseMachine::Step::kLook && looks) {
        if (!jobs && !error) {
          try {
            jobs = leases_of(index);
          } catch (const SlurmError& away) {
            error = away;
          }
        }
        if (jobs)
          place.machine->saw(*jobs, now_);
        else
          place.machine->saw_nothing(*error, now_);
      }
      follow(tuner, place);
    }
  }

  void leave(Place& place) {
    if (place.board != kNobody) boards_[place.board].used_by = 0;
    place.board = kNobody;
  }

  /// What the machine's state means for the board.
  void follow(Tuner& tuner, Place& place) {
    const auto job = jobs_.find(place.machine->job());
    const bool has = place.board != kNobody;
    // A connection breaks when the lease's key goes.
    const bool cut = has && (job == jobs_.end() || !job->second.ready);
    if (cut) {
      if (place.trial) {
        ++r_.cut_off;
        tuner.to_do.push_front(*place.trial);
        place.trial.reset();
      }
      leave(place);
      place.epoch = ++last_epoch_;
      place.machine->want_again(now_);
      place.wanted_since = now_;
    } else if (!has && place.machine->state() == LeaseMachine::State::kReady) {
      if (job == jobs_.end() || !job->second.ready) return;
      place.board = job->second.board;
      if (std::exchange(boards_[place.board].used_by, place.epoch) != 0) ++r_.overlaps;
      waits_.push_back(now_ - place.wanted_since);
    }
  }

  void give_work(size_t index, size_t at) {
    Tuner& tuner = tuners_[index];
    Place& place = tuner.places[at];
    if (place.board == kNobody || place.trial || tuner.to_do.empty()) return;
    begin_trial(index, at, now_);
  }

  void begin_trial(size_t index, size_t at, double when) {
    Tuner& tuner = tuners_[index];
    Place& place = tuner.places[at];
    place.trial = tuner.to_do.front();
    tuner.to_do.pop_front();
    const double takes = o_.trial_s / 2 + exponential(o_.trial_s / 2);
    busy_s_ += takes;
    ends_.push({when + takes, index, at, place.epoch});
  }

  void finish_trials() {
    while (!ends_.empty() && ends_.top().at <= now_) {
      const TrialEnd end = ends_.top();
      ends_.pop();
      Tuner& tuner = tuners_[end.tuner];
      if (end.place >= tuner.places.size()) continue;
      Place& place = tuner.places[end.place];
      if (place.epoch != end.epoch || !place.trial || tuner.restarts_at >= 0) continue;
      tuner.measured.push_back(*place.trial);
      place.trial.reset();
      if (!tuner.to_do.empty()) begin_trial(end.tuner, end.place, end.at);
    }
  }

  // ---- figures ----

  void count_minute() {
    if (now_ - minute_began_ < 60) return;
    r_.peak_records_per_s = std::max(r_.peak_records_per_s, (records_ - minute_records_) / 60.0);
    r_.peak_transactions_per_s =
        std::max(r_.peak_transactions_per_s, (transactions_ - minute_transactions_) / 60.0);
    minute_began_ = now_;
    minute_records_ = records_;
    minute_transactions_ = transactions_;
  }

  LabResult result() {
    r_.hours = now_ / 3600;
    r_.records = records_;
    for (const Tuner& tuner : tuners_) r_.lost += static_cast<size_t>(std::ranges::count(tuner.records, 0));
    r_.utilisation = busy_s_ / (now_ * static_cast<double>(o_.boards));
    std::ranges::sort(waits_);
    for (const double wait : waits_) r_.wait_mean_s += wait / static_cast<double>(waits_.size());
    if (!waits_.empty()) {
      r_.wait_p95_s = waits_[waits_.size() * 95 / 100];
      r_.wait_max_s = waits_.back();
    }
    r_.records_per_s = static_cast<double>(records_) / now_;
    r_.transactions_per_s = static_cast<double>(transactions_) / now_;
    r_.bytes_per_day = r_.records_per_s * 86400 * kRecordBytes;
    r_.sbatch_per_s = static_cast<double>(sbatch_) / now_;
    r_.squeue_per_s = static_cast<double>(squeue_) / now_;
    return r_;
  }

  LabOptions o_;
  std::mt19937_64 random_;
  double now_ = 0;
  std::vector<Board> boards_;
  std::vector<Tuner> tuners_;
  std::map<JobId, SimulatedJob> jobs_;
  std::vector<std::pair<double, JobId>> unused_;
  std::priority_queue<TrialEnd, std::vector<TrialEnd>, std::greater<>> ends_;
  JobId last_job_ = 0;
  uint64_t last_lease_ = 0, last_epoch_ = 0;
  double schedules_at_ = 0, away_until_ = 0, busy_s_ = 0, minute_began_ = 0;
  size_t finished_ = 0, records_ = 0, transactions_ = 0, sbatch_ = 0, squeue_ = 0;
  size_t minute_records_ = 0, minute_transactions_ = 0;
  std::vector<double> waits_;
  LabResult r_;
};

}  // namespace

LabResult simulate_lab(const LabOptions& options) {
  return Lab(options).run();
}

std::string to_text(const LabOptions& o, const LabResult& r) {
  return fmt::format(
      "| boards, tuners, boards a tuner | {}, {}, {} |\n"
      "| trials, mean time of one | {}, {:g} s |\n"
      "| all done after | {:.2f} h |\n"
      "| boards in trials | {:.0f} % of the time |\n"
      "| wait for a board: mean, 95 %, longest | {:.0f} s, {:.0f} s, {:.0f} s |\n"
      "| records: mean, busiest minute | {:.0f} a second, {:.0f} a second; {:.1f} GB a day |\n"
      "| transactions of the database: mean, busiest minute | {:.0f} a second, {:.0f} a second on {} "
      "connections |\n"
      "| sbatch, squeue | {:.2f} and {:.1f} a second, of {} jobs at most |\n"
      "| boards that died, tuners killed, controllers started again | {}, {}, {} |\n"
      "| jobs, of them forgotten by a controller | {}, {} |\n"
      "| trials that were cut off and measured again | {} |\n"
      "| trials without a record, with two, boards with two leases | {}, {}, {} |\n",
      o.boards, o.tuners, o.most_boards, o.tuners * o.trials, o.trial_s, r.hours, 100 * r.utilisation,
      r.wait_mean_s, r.wait_p95_s, r.wait_max_s, r.records_per_s, r.peak_records_per_s, r.bytes_per_day / 1e9,
      r.transactions_per_s, r.peak_transactions_per_s, o.tuners, r.sbatch_per_s, r.squeue_per_s, r.most_jobs,
      r.boards_died, r.tuners_killed, r.controller_starts, r.submissions, r.forgotten, r.cut_off, r.lost,
      r.repeated, r.overlaps);
}

}  // namespace gantry::farm
