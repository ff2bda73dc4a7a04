// Rules that schedule whole kernels, as values: their list is host/targets/common/kernel_rules.def.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "host/codegen/target.h"
#include "host/tensor/schedule.h"

namespace gantry {

struct KernelRule {
  /// Of GPUs, real and emulated; else of CPUs.
  bool for_gpu;
  std::string_view name;   ///< once a device: "packed_product"
  std::string_view takes;  ///< "convolutions with packed weights"
  std::string_view file;   ///< in the source tree
  /// The schedule of a kernel with these outputs, whose expressions it may have rewritten; nothing if it is
  /// none of the rule's.
  std::optional<Schedule> (*schedule)(const std::vector<Tensor>& outputs, const Target& target);
};

// Each rule's file defines it.
#define GANTRY_KERNEL_RULE(device, name, takes, file)                                            \
  namespace device {                                                                             \
  std::optional<Schedule> name##_rule(const std::vector<Tensor>& outputs, const Target& target); \
  }
#include "host/targets/common/kernel_rules.def"
#undef GANTRY_KERNEL_RULE

/// All of them, in the order in which they are asked.
std::span<const KernelRule> kernel_rules();
/// Of the target's rules that of a name; null if there is none.
const KernelRule* find_kernel_rule(std::string_view name, const Target& target);

}  // namespace gantry
