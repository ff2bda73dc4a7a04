// What becomes of a program's leases when it is killed.
#pragma once

#include <sys/types.h>

#include <set>

#include "host/farm/slurm.h"

namespace gantry::farm {

/// Cancels jobs that are leases if this process ends without the object's end, by whatever signal: a shell
/// beside it waits for that, by a pipe of which this process has the other end, and calls scancel. It costs
/// nothing while it waits. Where it cannot be started, or scancel not reach its controller, nobody is told: a
/// job whose key nobody uses ends by itself after a while. Belongs to one thread.
class LastWill {
 public:
  LastWill();
  /// Nothing is cancelled.
  ~LastWill();
  LastWill(const LastWill&) = delete;
  LastWill& operator=(const LastWill&) = delete;

  /// These, instead of those of before.
  void set(const std::set<JobId>& jobs);

 private:
  int pipe_ = -1;
  pid_t shell_ = -1;
};

}  // namespace gantry::farm
