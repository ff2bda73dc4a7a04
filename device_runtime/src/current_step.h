// What this process executes now, for a crash handler to report.
#pragma once

#include <atomic>
#include <cstdint>

namespace gantry::runtime {

/// A step of a plan in words. Texts live as long as the module.
struct StepLabel {
  const char* kernel = "";  ///< ops of the kernel
  const char* symbol = "";  ///< its symbol in the image, "" for a copy
  const char* origin = "";  ///< the user's nodes
  int32_t index = 0;        ///< in the plan; -1: any of several that a GPU runs at once
};

/// The step that the session which ran last in this process is at, null outside of runs. A signal handler may
/// read it; with several sessions running at once in one process it names one of them.
extern std::atomic<const StepLabel*> current_step;

}  // namespace gantry::runtime
