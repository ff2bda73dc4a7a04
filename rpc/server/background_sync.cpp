#include "rpc/server/background_sync.h"

#include <unistd.h>

#include <cerrno>

namespace gantry::rpc {

int Disk::sync(int file) {
  // Some file systems have nothing to do.
  return ::fsync(file) == 0 || errno == EINVAL || errno == ENOSYS ? 0 : errno;
}

BackgroundSync::~BackgroundSync() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundSync::add(UniqueFd file, std::string name) {
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    return store({std::move(file), std::move(name)});  // no thread is to be had
  }
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(file), std::move(name)});
  }
  changed_.notify_all();
}

void BackgroundSync::store(const Item& item) {
  if (disk_.sync(item.file.get()) != 0)
    ::unlinkat(directory_.get(), item.name.c_str(), 0);
  else
    (void)disk_.sync(directory_.get());
}

void BackgroundSync::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Item item = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    store(item);
    lock.lock();
  }
}

}  // namespace gantry::rpc
