#include "host/targets/common/schedule_rules.h"

#include <algorithm>

#include "host/support/error.h"
#include "host/targets/common/kernel_rules.h"

namespace gantry {

namespace {

namespace device {
constexpr bool cpu = false, cuda = true;
}

constexpr KernelRule kRules[] = {
#define GANTRY_KERNEL_RULE(on, name, takes, file) {device::on, #name, takes, file, &gantry::on::name##_rule},
#include "host/targets/common/kernel_rules.def"
#undef GANTRY_KERNEL_RULE
};

}  // namespace

std::span<const KernelRule> kernel_rules() {
  return kRules;
}

const KernelRule* find_kernel_rule(std::string_view name, const Target& target) {
  const auto found = std::ranges::find_if(
      kRules, [&](const KernelRule& rule) { return rule.name == name && rule.for_gpu == target.for_gpu(); });
  return found == std::end(kRules) ? nullptr : found;
}

namespace {

std::optional<Schedule> by(const KernelRule& rule, const std::vector<Tensor>& outputs, const Target& target) {
  std::optional<Schedule> schedule = rule.schedule(outputs, target);
  if (schedule) schedule->rule = rule.name;
  return schedule;
}

}  // namespace

Schedule make_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  for (const KernelRule& rule : kRules) {
    if (rule.for_gpu != target.for_gpu()) continue;
    if (std::optional<Schedule> schedule = by(rule, outputs, target)) return std::move(*schedule);
  }
  internal_error("no rule takes a kernel for {}", target.name);
}

Schedule make_plain_gpu_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  return std::move(*by(*find_kernel_rule("plain", target), outputs, target));
}

}  // namespace gantry
