// The profile of a run as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/cli/machine_peaks.h"
#include "rpc/client/types.h"

namespace gantry::cli {

/// What has a row of its own.
enum class ProfileRows : uint8_t {
  kStep,    ///< every step of the plan
  kKernel,  ///< a kernel: all steps that call it
  kType,    ///< the op that kernels are for: "nn.conv"
  kNode,    ///< the ONNX nodes that kernels compute; those of one kernel share a row, as nobody can divide it
};
/// "step", "kernel", "type" or "node"; nothing for other words.
std::optional<ProfileRows> find_profile_rows(std::string_view word);

struct KernelTableOptions {
  ProfileRows by = ProfileRows::kStep;
  size_t top = 0;                          ///< rows at most, all others in one more; 0: all of them
  size_t width = 0;                        ///< columns of the terminal; 0: unlimited
  double run_ms = 0;                       ///< a run without a clock around every kernel; 0: not known
  std::optional<MachinePeaks> peaks = {};  ///< with them: how near each row comes to what they allow
};

/// Worst first, with shares of the sum. All times are in one unit and with the same decimals, so that the
/// rows, as they are printed, add up to the total that stands below them; then what that is of a whole run.
std::string kernel_table(const std::vector<rpc::KernelTiming>& kernels, const KernelTableOptions& options);

}  // namespace gantry::cli
