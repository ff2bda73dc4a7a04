// Jobs that are measured on several machines at once, of which some may go away and others come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host/cli/tune_machines.h"
#include "rpc/error.h"

namespace gantry::cli {

/// Another try may go well: the machine was busy, gone, or could not do it.
bool may_pass(const rpc::Error& error);

/// How a place's machine is used; each function is called by one thread a place at a time.
struct MachineWork {
  /// Before the first job on a machine that `place` has got.
  std::function<void(size_t place, const TuneMachine& machine)> settle;
  std::function<void(size_t place, size_t job)> work;
  /// Every now and then, by the caller's thread: what is waited for where there is no machine, else "".
  std::function<void(const std::string& waits_for)> wait;
  std::function<void(const std::string& what)> note;
};

/// Which machine settled in each place, from one call to the next; 0: none yet.
using SettledMachines = std::vector<uint64_t>;

/// Does jobs 0 to `count` - 1, each whole on one machine: in order, as machines become free. A machine that
/// is lost in the middle (an rpc::Error that may_pass()) gives its job back, and whoever has a machine does
/// it anew. Throws the first error of other kinds, after the jobs that had begun; what is lost for good is
/// one.
void do_jobs(TuneMachines& machines, SettledMachines& settled, size_t count, const MachineWork& work);

}  // namespace gantry::cli
