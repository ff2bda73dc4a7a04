// Leases of several boards of one type, which a program has for hours.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host/farm/leased_board.h"
#include "host/support/stopwatch.h"

namespace gantry::farm {

/// A board that can be used until its lease ends.
struct PooledBoard {
  uint64_t lease = 0;  ///< no two leases of a pool have the same
  std::string address;
  std::filesystem::path key_file;                 ///< is there while this is
  std::string words;                              ///< "job 7 holds board 10.1.0.21:7453"
  double waited_s = 0;                            ///< from wanting it to having it
  std::shared_ptr<const TemporaryFolder> folder;  ///< of the key's file
};

/// Says to a lease's job, while it lives, that the board is used.
using KeptSession = std::shared_ptr<const void>;
/// A session on a board that is ready. Throws an rpc::Error.
KeptSession keep_session(const std::string& address, const std::filesystem::path& key_file);

/// So many places, each of which has a board or waits for one. Where a lease ends, or its board is said to be
/// lost, another is asked for, with a key of its own. A thread of the pool's asks Slurm for all of them: one
/// list of the queue serves every place. Ends with the object: the jobs are cancelled. Every function may be
/// called by any thread; `slurm` outlives the pool and is asked by its thread alone, and by the destructor.
class LeasePool {
 public:
  using Connect =
      std::function<KeptSession(const std::string& address, const std::filesystem::path& key_file)>;

  /// `connect`: to a board that is ready, by the pool's thread. A board that it does not reach is given back,
  /// and a place that has got nothing but such is given up.
  LeasePool(Slurm& slurm, const LeaseRequest& request, size_t places, Connect connect = keep_session,
            const LeaseMachine::Bounds& bounds = {});
  ~LeasePool();
  LeasePool(const LeasePool&) = delete;
  LeasePool& operator=(const LeasePool&) = delete;

  size_t places() const { return places_.size(); }
  /// Of a place; none: it waits for one.
  std::optional<PooledBoard> board(size_t place) const;
  /// Its user finds it dead, or its key was taken away: another is asked for, the later the more leases in a
  /// row were of no use there. False: that is so often so, in every place, that there is no hope. Nothing for
  /// a lease that is over already.
  bool lost(size_t place, uint64_t lease);
  /// Something was done on it.
  void used(size_t place, uint64_t lease);

  /// Seconds in which no place had a board, all together.
  double idle_s() const;
  /// The last of them: since when no place has had one; 0 where one has.
  double waiting_s() const;
  /// What the first place without a board waits for; "": all have one.
  std::string words() const;
  /// Throws what the leases were given up for, once there are only such; a board error where no place has had
  /// a board for longer than the request's `longest_wait_s`.
  void check() const;

 private:
  class SharedLook;
  struct Place;

  void run();
  void advance(Place& place);
  /// Gives back what is over or lost.
  void drop_old(Place& place);
  /// The board of a lease that is ready.
  void reach(Place& place);
  void give_up(Place& place, std::exception_ptr why);
  /// Both with the lock: of the number of places that have a board.
  void publish(Place& place, PooledBoard board);
  void withdraw(Place& place);

  LeaseRequest request_;
  Connect connect_;
  LeaseMachine::Bounds bounds_;
  std::unique_ptr<SharedLook> slurm_;
  Stopwatch age_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Place>> places_;
  uint64_t leases_ = 0;
  size_t held_ = 0;
  double idle_s_ = 0, idle_since_ = 0;  ///< by age_; before the time that goes on now
  bool stopping_ = false;
  std::thread thread_;  ///< the last: it uses all others
};

}  // namespace gantry::farm
