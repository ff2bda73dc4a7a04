/// Brings files to the disk while their session goes on.
#ifndef GANTRY_RPC_SERVER_BACKGROUND_SYNC_H
#define GANTRY_RPC_SERVER_BACKGROUND_SYNC_H

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// What makes files last; tests watch it.
class Disk {
 public:
  virtual ~Disk() = default;
  /// fsync() of a file or directory: 0 or an errno.
  virtual int sync(int file);
};

/// Syncs files of a directory, and after each the directory, on a thread of its own: on a slow card that
/// takes seconds, for which no client should wait.
class BackgroundSync {
 public:
  /// Both must outlive the object.
  BackgroundSync(Disk& disk, const UniqueFd& directory) : disk_(disk), directory_(directory) {}
  /// Waits until all is on the disk.
  ~BackgroundSync();
  BackgroundSync(const BackgroundSync&) = delete;
  BackgroundSync& operator=(const BackgroundSync&) = delete;

  /// The file with this name in the directory. One that the disk does not take is deleted.
  void add(UniqueFd file, std::string name);

 private:
  struct Item {
    UniqueFd file;
    std::string name;
  };
  void work();
  void store(const Item& item);

  Disk& disk_;
  const UniqueFd& directory_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  bool ending_ = false;
  std::thread thread_;  // started by the first file
};

}  // namespace gantry::rpc
#endif
