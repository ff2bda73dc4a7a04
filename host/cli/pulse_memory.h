// The levels of undisturbed pulses that former commands saw, machine by machine: so that a measurement that
// is disturbed from its beginning to its end is known to be.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "rpc/client/types.h"

namespace gantry::cli {

/// A file of the user's cache, shared by all commands. Holds the last kMostLevels levels of each of the
/// kMostMachines machines that were measured last, so that a machine that has changed for good is known anew
/// after some commands. Nothing here throws: a file that cannot be read or written, or is damaged, is an
/// empty one.
class PulseMemory {
 public:
  static constexpr size_t kMostLevels = 32, kMostMachines = 64;

  /// `file`: empty: nothing is known and nothing kept. Its folder is made when the first level is written.
  explicit PulseMemory(std::filesystem::path file = {}) : file_(std::move(file)) {}

  /// In the order seen.
  std::vector<double> levels(const std::string& machine) const;
  /// Waits for another command that does the same.
  void remember(const std::string& machine, double level) const;

 private:
  std::filesystem::path file_;
};

/// What a level belongs to: CPU, host name, how many threads ran, and where they were pinned (`cpus`, as
/// given).
std::string pulse_machine(const rpc::BoardInfo& board, int threads, const std::string& cpus);

}  // namespace gantry::cli
