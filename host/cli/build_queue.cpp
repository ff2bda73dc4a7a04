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
  ++under_way_;
  return taken;
}

BuildJobPtr BuildQueue::take_here() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (waiting_.empty() && under_way_ == 0) return nullptr;
    const auto own = std::ranges::find_if_not(waiting_, is_for_hosts);
    if (own != waiting_.end()) return take(own);
    if (for_hosts() > free_hosts_) return take(waiting_.begin());
    changed_.wait(lock);
  }
}

BuildJobPtr BuildQueue::take_elsewhere(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  ++free_hosts_;
  changed_.wait_for(lock, patience, [&] { return for_hosts() > 0; });
  --free_hosts_;
  const auto job = std::ranges::find_if(waiting_, is_for_hosts);
  BuildJobPtr taken = job == waiting_.end() ? nullptr : take(job);
  lock.unlock();
  changed_.notify_all();  // this machine may take what this host does not
  return taken;
}

void BuildQueue::finish(const BuildJobPtr& job, Built built) {
  job->promise.set_value(std::move(built));
  {
    const std::scoped_lock lock(mutex_);
    --under_way_;
  }
  changed_.notify_all();
}

void BuildQueue::fail(const BuildJobPtr& job, std::exception_ptr why) {
  job->promise.set_exception(std::move(why));
  {
    const std::scoped_lock lock(mutex_);
    --under_way_;
  }
  changed_.notify_all();
}

void BuildQueue::put_back(const BuildJobPtr& job, size_t losses) {
  {
    const std::scoped_lock lock(mutex_);
    job->lost += losses;
    --under_way_;
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
