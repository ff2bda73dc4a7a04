// Other machines that build a tuner's programs: jobs of a lab's Slurm.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/cli/build_queue.h"
#include "host/cli/tune_machines.h"
#include "host/tune/network.h"

namespace gantry::cli {

/// How many programs were built where.
struct BuildCounts {
  size_t here = 0;
  std::vector<std::pair<std::string, size_t>> hosts;  ///< by address, in the order in which they came
  size_t elsewhere() const;
};

/// Each place of `hosts` has a thread: it connects to the machine that is there (a BuildServer, whose key is
/// the machine's), sends it the model, has it build the untuned program, and takes jobs from the queue. A
/// host whose untuned program is another than that of this machine is not used. A job whose host goes away is
/// given back.
class CompileHosts {
 public:
  /// `untuned`: the program by `choices`, as this machine builds it. `network` and `queue` must outlive it.
  /// User errors where the model cannot be written to a file.
  CompileHosts(const tune::Network& network, tune::Choices choices, TunedProgramPtr untuned,
               BuildQueue& queue, std::unique_ptr<TuneMachines> hosts);
  /// What is being built is given up.
  ~CompileHosts();
  CompileHosts(const CompileHosts&) = delete;
  CompileHosts& operator=(const CompileHosts&) = delete;

  /// That build, or could.
  size_t ready() const;
  /// Wanted.
  size_t places() const;
  /// Of those that have built something.
  std::vector<std::pair<std::string, size_t>> counts() const;
  /// Tells what has happened since the last time. By one thread.
  void tell(const std::function<void(const std::string&)>& note);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace gantry::cli
