// Rules that schedule whole kernels, as values: their list is host/targets/common/kernel_rules.def.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "host/machine/target.h"
#include "host/tensor/schedule.h"

namespace gantry {

struct KernelRule {
  std::string_view folder;  ///< of host/targets: "cpu", whose rules are all CPUs', or a family of GPUs'
  std::string_view name;    ///< once a folder: "packed_product"
  std::string_view takes;   ///< "convolutions with packed weights"
  std::string_view file;    ///< in the source tree
  /// The schedule of a kernel with these outputs, whose expressions it may have rewritten; nothing if it is
  /// none of the rule's.
  std::optional<Schedule> (*schedule)(const std::vector<Tensor>& outputs, const Target& target);
};

// Each rule's file defines it.
#define GANTRY_KERNEL_RULE(folder, name, takes, file)                                            \
  namespace folder {                                                                             \
  std::optional<Schedule> name##_rule(const std::vector<Tensor>& outputs, const Target& target); \
  }
#include "host/targets/common/kernel_rules.def"
#undef GANTRY_KERNEL_RULE

/// All of them, in the order in which they are asked.
std::span<const KernelRule> kernel_rules();
/// Whether the rule is of those that schedule for the target: of GPUs, real and emulated, their family's;
/// else those of all CPUs.
bool is_for(const KernelRule& rule, const Target& target);
/// Of the target's rules that of a name; null if there is none.
const KernelRule* find_kernel_rule(std::string_view name, const Target& target);

}  // namespace gantry
