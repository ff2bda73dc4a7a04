// What this process executes now, for a crash handler to report.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gantry::runtime {

/// A step of a plan in words. Texts live as long as the module.
struct StepLabel {
  const char* symbol = "";  ///< the kernel's name, which is its symbol in the image too; "" for a copy
  const char* ops = "";     ///< of the kernel; "copy"
  const char* op = "";      ///< the one of them that the kernel is for; "" from older modules
  const char* origin = "";  ///< the user's nodes
  int32_t index = 0;        ///< in the plan; -1: any of several that a GPU runs at once

  const char* name() const { return symbol[0] != 0 ? symbol : ops; }
};
/// "kernel conv_relu_3 (step #7: nn.conv+nn.relu; nodes Conv_0, Relu_1)"
std::string step_text(const StepLabel& label);

/// The step that the session which ran last in this process is at, null outside of runs. A signal handler may
/// read it; with several sessions running at once in one process it names one of them.
extern std::atomic<const StepLabel*> current_step;

}  // namespace gantry::runtime
