#include "host/farm/lease_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "host/support/error.h"
#include "rpc/client/client.h"
#include "rpc/security/key.h"

namespace gantry::farm {
namespace {

/// Of the pool's thread, between two rounds through its places.
constexpr std::chrono::milliseconds kRound{100};
/// Of the time between two looks of a lease that is ready: so long a list serves. Below
/// LeaseMachine::Bounds::forgotten_after.
constexpr double kListKept = 0.4;
/// Leases in a row on which nothing was done, in every place: there is no hope.
constexpr int kMostFruitless = 3;
/// A controller that did not answer is left alone for so long: Slurm's commands take half a minute to say
/// that.
constexpr double kAwayS = 5;

}  // namespace

KeptSession keep_session(const std::string& address, const std::filesystem::path& key_file) {
  rpc::ConnectOptions options;
  options.address = address;
  options.key = rpc::read_key_file(key_file);
  return rpc::BoardClient::connect(options);
}

/// One list of the queue for all places, and one answer that the controller is away or that Slurm is missing.
class LeasePool::SharedLook : public Slurm {
  template <typename Question>
  auto ask(const Question& question) {
    if (away_ && since_.seconds() < kAwayS) std::rethrow_exception(away_);
    away_ = nullptr;
    try {
      return question();
    } catch (const SlurmError& error) {
      if (error.unreachable()) keep_away();
      throw;
    } catch (const Error&) {
      keep_away();
      throw;
    }
  }
  /// Within a handler: of what was caught.
  void keep_away() {
    away_ = std::current_exception();
    since_ = Stopwatch();
  }

 public:
  explicit SharedLook(Slurm& slurm) : slurm_(slurm) {}

  /// A list serves for so long.
  void keep_for(double seconds) { kept_s_ = seconds; }

  JobId submit(const JobRequest& request) override {
    looked_.reset();  // the list does not have that job
    return ask([&] { return slurm_.submit(request); });
  }
  std::vector<Job> leases() override {
    if (looked_ && looked_->seconds() < kept_s_) return jobs_;
    jobs_ = ask([&] { return slurm_.leases(); });
    looked_.emplace();
    return jobs_;
  }
  void cancel(JobId job) override {
    ask([&] { slurm_.cancel(job); });
  }
  void set_comment(JobId job, const std::string& comment) override { slurm_.set_comment(job, comment); }
  std::vector<NodeBoards> boards() override { return slurm_.boards(); }
  void drain(const std::string& node, const std::string& reason) override { slurm_.drain(node, reason); }
  void resume(const std::string& node) override { slurm_.resume(node); }

 private:
  Slurm& slurm_;
  double kept_s_ = 0;
  std::vector<Job> jobs_;
  std::optional<Stopwatch> looked_;  ///< none: the list is of no use
  std::exception_ptr away_;
  Stopwatch since_;
};

struct LeasePool::Place {
  // Of the pool's thread alone.
  std::unique_ptr<LeasedBoard> lease;
  KeptSession session;    ///< ends before the lease does
  double not_before = 0;  ///< by age_: when a lease is wanted

  // With the lock.
  std::optional<PooledBoard> board;
  bool lost = false;  ///< what the thread has is to be given back
  bool used = false;  ///< something was done on the board
  int fruitless = 0;  ///< leases in a row on which nothing was done
  double wanted_since = 0;
  std::string words;
  std::exception_ptr given_up;
};

LeasePool::LeasePool(Slurm& slurm, const LeaseRequest& request, size_t places, Connect connect,
                     const LeaseMachine::Bounds& bounds)
    : request_(request),
      connect_(std::move(connect)),
      bounds_(bounds),
      slurm_(std::make_unique<SharedLook>(slurm)) {
  for (size_t i = 0; i < places; ++i) places_.push_back(std::make_unique<Place>());
  thread_ = std::thread([this] { run(); });
}

LeasePool::~LeasePool() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  places_.clear();  // cancels the jobs
}

void LeasePool::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    // Who has a board can do something until it gets more.
    slurm_->keep_for(held_ > 0 ? kListKept * bounds_.look_every_ready : bounds_.look_every / 2);
    for (const auto& place : places_) {
      if (stopping_) return;
      lock.unlock();
      advance(*place);
      lock.lock();
    }
    changed_.wait_for(lock, kRound, [&] { return stopping_; });
  }
}

void LeasePool::drop_old(Place& place) {
  bool old = place.lease && place.lease->over();
  {
    const std::scoped_lock lock(mutex_);
    if (old) withdraw(place);
    if (std::exchange(place.lost, false)) {
      old = true;
      if (place.fruitless > 0)
        place.not_before =
            age_.seconds() +
            std::min(bounds_.longest_pause, bounds_.first_pause * std::pow(2.0, place.fruitless - 1));
    }
  }
  if (!old) return;
  place.session.reset();
  place.lease.reset();
}

void LeasePool::advance(Place& place) {
  {
    const std::scoped_lock lock(mutex_);
    if (place.given_up) return;
  }
  drop_old(place);
  if (!place.lease && age_.seconds() < place.not_before) return;
  try {
    if (!place.lease) place.lease = std::make_unique<LeasedBoard>(*slurm_, request_, bounds_);
    place.lease->advance();
  } catch (...) {
    return give_up(place, std::current_exception());
  }
  {
    const std::scoped_lock lock(mutex_);
    place.words = place.lease->words();
    if (place.lost || place.board) return;
  }
  if (place.lease->ready()) reach(place);
}

void LeasePool::reach(Place& place) {
  LeasedBoard& lease = *place.lease;
  try {
    place.session = connect_(lease.address(), lease.key_file());
  } catch (const std::exception& error) {
    {
      const std::scoped_lock lock(mutex_);
      place.words = error.what();
      place.lost = true;
      if (++place.fruitless < kMostFruitless) return;
    }
    return give_up(place, std::current_exception());
  }
  const std::scoped_lock lock(mutex_);
  publish(place, {++leases_, lease.address(), lease.key_file(), place.words,
                  age_.seconds() - place.wanted_since, lease.folder()});
}

void LeasePool::give_up(Place& place, std::exception_ptr why) {
  place.session.reset();
  place.lease.reset();
  const std::scoped_lock lock(mutex_);
  withdraw(place);
  place.given_up = std::move(why);
}

void LeasePool::publish(Place& place, PooledBoard board) {
  if (held_++ == 0) idle_s_ += age_.seconds() - idle_since_;
  place.board = std::move(board);
  place.used = false;
}

void LeasePool::withdraw(Place& place) {
  if (!place.board) return;
  place.board.reset();
  place.wanted_since = age_.seconds();
  if (--held_ == 0) idle_since_ = age_.seconds();
}

std::optional<PooledBoard> LeasePool::board(size_t place) const {
  const std::scoped_lock lock(mutex_);
  return places_[place]->board;
}

bool LeasePool::lost(size_t place, uint64_t lease) {
  const std::scoped_lock lock(mutex_);
  Place& own = *places_[place];
  if (own.board && own.board->lease == lease) {
    withdraw(own);
    own.lost = true;
    own.fruitless = own.used ? 0 : own.fruitless + 1;
  }
  return std::ranges::any_of(
      places_, [](const auto& one) { return !one->given_up && one->fruitless < kMostFruitless; });
}

void LeasePool::used(size_t place, uint64_t lease) {
  const std::scoped_lock lock(mutex_);
  Place& own = *places_[place];
  if (!own.board || own.board->lease != lease) return;
  own.used = true;
  own.fruitless = 0;
}

double LeasePool::idle_s() const {
  const std::scoped_lock lock(mutex_);
  return idle_s_ + (held_ == 0 ? age_.seconds() - idle_since_ : 0);
}

double LeasePool::waiting_s() const {
  const std::scoped_lock lock(mutex_);
  return held_ == 0 ? age_.seconds() - idle_since_ : 0;
}

std::string LeasePool::words() const {
  const std::scoped_lock lock(mutex_);
  const auto waits =
      std::ranges::find_if(places_, [](const auto& place) { return !place->board && !place->given_up; });
  if (waits == places_.end()) return "";
  const std::string& words = (*waits)->words;
  return fmt::format("waiting for a {} for {:.0f} s{}{}", text_of(request_),
                     age_.seconds() - (*waits)->wanted_since, words.empty() ? "" : ": ", words);
}

void LeasePool::check() const {
  const std::scoped_lock lock(mutex_);
  if (std::ranges::all_of(places_, [](const auto& place) { return place->given_up != nullptr; }))
    std::rethrow_exception(places_.front()->given_up);
  if (request_.longest_wait_s <= 0 || held_ > 0) return;
  if (age_.seconds() - idle_since_ <= request_.longest_wait_s) return;
  board_error("no lease of a {} within {:g} s (--max-wait): {}", text_of(request_), request_.longest_wait_s,
              places_.front()->words);
}

}  // namespace gantry::farm
