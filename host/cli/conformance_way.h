// How the tests of `gantry conformance` are compiled and run: the same for each, told to the process of each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/cli/machine.h"
#include "host/machine/target.h"

namespace CLI {
class App;
}

namespace gantry::cli {

struct ConformanceWay {
  std::string target;  ///< as `gantry compile` takes it; empty: the machine's own
  std::string device = "cpu";
  std::string gpu_arch;
  bool gpu_checks = false;
  std::string board;  ///< empty: this machine
  std::string key;
  std::string
      device_program;  ///< gantry-device for a target of another architecture; empty: the usual places
  std::string precision = "auto";
  int opt_level = 3;
  int threads = 1;
  bool no_cache = false;
  double timeout_seconds = 60;
};
/// Its options, the same of `gantry conformance` and of the command that runs one test.
void add_way_options(CLI::App& command, ConformanceWay& way);
/// The words that make the same way of them.
std::vector<std::string> way_arguments(const ConformanceWay& way);

/// Where the tests run, and what they are compiled for.
struct ConformancePlace {
  std::unique_ptr<Machine> machine;
  Target target;
  std::string device;  ///< as the runtime names it
};
/// Opens the board, this machine, or, for a target of another architecture, an emulation of one. User errors
/// say what is missing: a device, qemu, gantry-device for that architecture; options that contradict each
/// other.
ConformancePlace open_place(const ConformanceWay& way);

}  // namespace gantry::cli
