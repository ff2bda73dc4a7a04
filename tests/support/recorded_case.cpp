#include "tests/support/recorded_case.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "tests/cases/case_pack.h"

namespace gantry::testing {
namespace {

/// Sums in another order; results near zero.
constexpr conformance::Tolerance kTolerance{1e-3, 1e-5};

std::string module_for_gpus(const Graph& graph) {
  CompileOptions options;
  options.targets = {find_target("cuda:sm_80"), find_target("cuda-emulated:sm_80/x86-64-v2")};
  ModuleFile module = compile_graph(graph, options);
  const std::vector<std::byte> bytes = serialize_module(module);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The test's name, with a number from its second program on.
std::string next_name(const std::filesystem::path& folder) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = fmt::format("{}.{}", test->test_suite_name(), test->name());
  std::replace(name.begin(), name.end(), '/', '.');
  std::string numbered = name;
  for (int i = 2; std::filesystem::exists(folder / (numbered + ".pack")); ++i)
    numbered = fmt::format("{}.{}", name, i);
  return numbered;
}

}  // namespace

void record_case(const Graph& graph, const std::vector<ConstantPtr>& inputs,
                 const std::vector<ConstantPtr>& outputs) {
  const char* folder = std::getenv("GANTRY_TEST_RECORD");
  if (folder == nullptr || *folder == '\0') return;
  const std::string name = next_name(folder);
  const std::string pack =
      conformance::write_pack({{name, "tests", true, module_for_gpus(graph), inputs, outputs, kTolerance}});
  std::ofstream(std::filesystem::path(folder) / (name + ".pack"), std::ios::binary) << pack;
}

}  // namespace gantry::testing
