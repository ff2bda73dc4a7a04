// The list of rules that schedule whole kernels.
#include "host/targets/common/kernel_rules.h"

#include <gtest/gtest.h>

#include <set>

#include "host/codegen/find_target.h"
#include "host/targets/common/schedule_rules.h"

namespace gantry {
namespace {

TEST(KernelRules, AreNamedOnceADevice) {
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const KernelRule& rule : kernel_rules()) {
    EXPECT_TRUE(names.insert({rule.folder, rule.name}).second) << rule.name;
  }
}

TEST(KernelRules, TheScheduleNamesTheFirstThatTakesTheKernel) {
  const Tensor x = placeholder({64, 64}, DType::kF32, "x");
  const Tensor y = compute(
      {64, 64}, [&](const std::vector<Expr>& i) { return x(i) + x(i); }, "y");
  for (const char* name : {"x86-64-v3", "cuda"}) {
    const Target target = find_target(name);
    EXPECT_EQ(make_schedule({y}, target).rule, "stages") << name;
    for (const KernelRule& rule : kernel_rules()) {
      if (!is_for(rule, target)) continue;
      if (rule.name == "stages") break;
      EXPECT_FALSE(rule.schedule({y}, target).has_value()) << rule.name << " for " << name;
    }
  }
  EXPECT_EQ(find_kernel_rule("tiles", find_target("cuda")), nullptr);
}

}  // namespace
}  // namespace gantry
