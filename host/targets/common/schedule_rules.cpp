#include "host/targets/common/schedule_rules.h"

#include <algorithm>

#include "host/machine/gpu_family.h"
#include "host/support/error.h"
#include "host/targets/common/kernel_rules.h"

namespace gantry {

namespace {

constexpr KernelRule kRules[] = {
#define GANTRY_KERNEL_RULE(folder, name, takes, file) \
  {#folder, #name, takes, file, &gantry::folder::name##_rule},
#include "host/targets/common/kernel_rules.def"
#undef GANTRY_KERNEL_RULE
};

}  // namespace

bool is_for(const KernelRule& rule, const Target& target) {
  return rule.folder == (target.for_gpu() ? gpu_family_of(target).name : "cpu");
}

std::span<const KernelRule> kernel_rules() {
  return kRules;
}

const KernelRule* find_kernel_rule(std::string_view name, const Target& target) {
  const auto found = std::ranges::find_if(
      kRules, [&](const KernelRule& rule) { return rule.name == name && is_for(rule, target); });
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
    if (!is_for(rule, target)) continue;
    if (std::optional<Schedule> schedule = by(rule, outputs, target)) return std::move(*schedule);
  }
  internal_error("no rule takes a kernel for {}", target.name);
}

Schedule make_plain_gpu_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  return std::move(*by(*find_kernel_rule("plain", target), outputs, target));
}

}  // namespace gantry
