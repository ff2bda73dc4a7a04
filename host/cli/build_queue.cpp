#include "host/cli/build_queue.h"

#include <algorithm>
#include <utility>

namespace gantry::cli {
namespace {

bool is_for_hosts(const BuildJobPtr& job) {
  return job->lost < BuildQueue::kMostLost;
}

}  // namespace

std::shared_future<Built> BuildQueue::add(tune::Choices choices) {
  auto job = std::make_shared<BuildJob>();
  job->choices = std::move(choices);
  std::shared_future<Built> future = job->promise.get_future().share();
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(job));
  }
  changed_.notify_all();
  return future;
}

void BuildQueue::clear() {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.clear();
    elsewhere_.clear();
  }
  changed_.notify_all();
}

/// With the lock.
size_t BuildQueue::for_hosts() const {
  return static_cast<size_t>(std::ranges::count_if(waiting_, is_for_hosts));
}

/// With the lock.
BuildJobPtr BuildQueue::take(std::deque<BuildJobPtr>::iterator job) {
  BuildJobPtr taken = std::move(*job);
  waiting_.erase(job);
  return taken;
}

/// With the lock. Whether it was a host's alone.
bool BuildQueue::take_back(const BuildJobPtr& job) {
  return std::erase_if(elsewhere_, [&](const Elsewhere& one) { return one.job == job; }) > 0;
}

BuildJobPtr BuildQueue::take_here() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (waiting_.empty() && elsewhere_.empty()) return nullptr;
    const auto own = std::ranges::find_if_not(waiting_, is_for_hosts);
    if (own != waiting_.end()) return take(own);
    if (for_hosts() > free_hosts_) return take(waiting_.begin());
    if (!waiting_.empty()) {
      changed_.wait(lock);  // for the host that takes it
      continue;
    }
    const auto first = std::ranges::min_element(elsewhere_, {}, &Elsewhere::due);
    const Clock::time_point due = first->due;
    if (due > Clock::now()) {
      changed_.wait_until(lock, due);
      continue;
    }
    const BuildJobPtr late = first->job;
    elsewhere_.erase(first);
    return late;
  }
}

BuildJobPtr BuildQueue::take_elsewhere(std::chrono::milliseconds patience, std::chrono::milliseconds due) {
  std::unique_lock lock(mutex_);
  ++free_hosts_;
  changed_.wait_for(lock, patience, [&] { return for_hosts() > 0; });
  --free_hosts_;
  const auto job = std::ranges::find_if(waiting_, is_for_hosts);
  BuildJobPtr taken = job == waiting_.end() ? nullptr : take(job);
  if (taken) elsewhere_.push_back({taken, Clock::now() + due});
  lock.unlock();
  changed_.notify_all();  // this machine may take what this host does not
  return taken;
}

void BuildQueue::finish(const BuildJobPtr& job, Built built) {
  {
    const std::scoped_lock lock(mutex_);
    take_back(job);
    if (!std::exchange(job->settled, true)) job->promise.set_value(std::move(built));
  }
  changed_.notify_all();
}

void BuildQueue::fail(const BuildJobPtr& job, std::exception_ptr why) {
  {
    const std::scoped_lock lock(mutex_);
    take_back(job);
    if (!std::exchange(job->settled, true)) job->promise.set_exception(std::move(why));
  }
  changed_.notify_all();
}

void BuildQueue::put_back(const BuildJobPtr& job, size_t losses) {
  {
    const std::scoped_lock lock(mutex_);
    if (!take_back(job)) return;
    job->lost += losses;
    waiting_.push_front(job);
  }
  changed_.notify_all();
}

void BuildQueue::give_back(const BuildJobPtr& job) {
  put_back(job, 1);
}

void BuildQueue::give_back_here(const BuildJobPtr& job) {
  put_back(job, kMostLost);
}

}  // namespace gantry::cli
