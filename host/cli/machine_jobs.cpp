#include "host/cli/machine_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace gantry::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{100};

/// Which jobs are to be taken, and whether all is over.
class Jobs {
 public:
  explicit Jobs(size_t count) : left_(count) {
    for (size_t i = 0; i < count; ++i) open_.insert(i);
  }

  /// The first that nobody has; none: there is none at the moment.
  std::optional<size_t> take() {
    const std::scoped_lock lock(mutex_);
    if (open_.empty() || failure_) return std::nullopt;
    return open_.extract(open_.begin()).value();
  }
  void done() {
    const std::scoped_lock lock(mutex_);
    --left_;
    changed_.notify_all();
  }
  void give_back(size_t job) {
    const std::scoped_lock lock(mutex_);
    open_.insert(job);
    changed_.notify_all();
  }
  /// The first error stays.
  void fail(std::exception_ptr why) {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::move(why);
    changed_.notify_all();
  }
  /// Waits until that, for a moment.
  bool over() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLook, [&] { return is_over(); });
  }
  /// Waits until that, or until a job may be taken, for a moment.
  void rest() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLook, [&] { return is_over() || !open_.empty(); });
  }
  bool is_over_now() {
    const std::scoped_lock lock(mutex_);
    return is_over();
  }
  void check() {
    const std::scoped_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  bool is_over() const { return left_ == 0 || failure_; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<size_t> open_;
  size_t left_;
  std::exception_ptr failure_;
};

/// A job, if there is one, on the machine of the place.
void do_one(TuneMachines& machines, const TuneMachine& machine, uint64_t& settled, size_t place, Jobs& jobs,
            const MachineWork& work) {
  std::optional<size_t> job;
  try {
    if (settled != machine.number) {
      if (!machine.words.empty()) work.note(machine.words);
      work.settle(place, machine);
      settled = machine.number;
    }
    job = jobs.take();
    if (!job) return jobs.rest();
    work.work(place, *job);
  } catch (const rpc::Error& error) {
    if (!may_pass(error) || !machines.lost(place, machine)) throw;
    settled = 0;
    work.note(fmt::format("{}; another board is asked for", error.what()));
    if (job) jobs.give_back(*job);
    return;
  }
  machines.used(place, machine);
  jobs.done();
}

void work_in(TuneMachines& machines, uint64_t& settled, size_t place, Jobs& jobs, const MachineWork& work) {
  try {
    while (!jobs.is_over_now()) {
      if (const auto machine = machines.machine(place))
        do_one(machines, *machine, settled, place, jobs, work);
      else
        (void)jobs.over();
    }
  } catch (...) {
    jobs.fail(std::current_exception());
  }
}

}  // namespace

bool may_pass(const rpc::Error& error) {
  using Kind = rpc::ErrorKind;
  return error.kind() == Kind::kReconnect || error.kind() == Kind::kRetry || error.kind() == Kind::kBoard;
}

void do_jobs(TuneMachines& machines, SettledMachines& settled, size_t count, const MachineWork& work) {
  settled.resize(machines.places());
  Jobs jobs(count);
  const size_t places = machines.renews() ? machines.places() : std::min(machines.places(), count);
  std::vector<std::future<void>> workers;
  for (size_t i = 0; i < places; ++i)
    workers.push_back(
        std::async(std::launch::async, [&, i] { work_in(machines, settled[i], i, jobs, work); }));
  // What is waited for without an end in sight is a farm's alone, and this machine is left in peace.
  while (machines.renews() && !jobs.over()) {
    try {
      work.wait(machines.waits_for());
    } catch (...) {
      jobs.fail(std::current_exception());
    }
  }
  for (auto& worker : workers) worker.wait();
  jobs.check();
}

}  // namespace gantry::cli
