// ONNX's own backend tests, as users would run their models: nothing is fixed but shapes. not_passing.txt lists those that
// do not pass, and why.
//
//   GANTRY_CONFORMANCE_LIST=FILE conformance_test   writes to FILE which do not pass now, and why
//   GANTRY_CONFORMANCE_ONLY=TEXT                    takes only tests with TEXT in their names
//   GANTRY_TEST_GPU=cuda:sm_90                      takes that target in place of the emulated GPU
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "host/graph/late_values.h"
#include "host/onnx/import.h"
#include "host/support/error.h"
#include "host/conformance/comparison.h"
#include "tests/conformance/backend.h"
#include "tests/conformance/listed.h"
#include "tests/conformance/test_data.h"
#include "tests/support/compiled_model.h"

namespace gantry::conformance {
namespace {

namespace fs = std::filesystem;

/// Outputs as data sets have them, a tensor of a sequence each.
std::vector<ConstantPtr> unpacked(const std::vector<std::string>& names, const std::vector<ConstantPtr>& outputs) {
  std::vector<NamedConstant> named;
  for (size_t i = 0; i < outputs.size(); ++i) named.push_back({names.at(i), outputs[i]});
  std::vector<ConstantPtr> tensors;
  for (NamedConstant& output : unpack_outputs(named).tensors) tensors.push_back(std::move(output.tensor));
  return tensors;
}

/// "" if every data set passes, else why not.
std::string run_test(Backend& backend, const fs::path& folder) {
  const fs::path model = folder / "model.onnx";
  const std::vector<fs::path> sets = data_sets(folder);
  const Tolerance tolerance = tolerance_of(folder);
  for (const fs::path& set : sets) {
    try {
      DataSet data = read_data_set(model, set, Steering::kData);
      Graph graph = import_onnx(model, data.import_options());
      if (backend.is_for_gpus() && has_late_sizes(graph)) {  // it would run on the CPU as a whole
        data = read_data_set(model, set, Steering::kFixed);
        graph = import_onnx(model, data.import_options());
      }
      const std::vector<ConstantPtr> actual = unpacked(graph.main.output_names, backend.run(graph, data.open()));
      if (actual.size() != data.expected.size()) return "another number of outputs";
      for (size_t i = 0; i < actual.size(); ++i) {
        std::string text = difference(*actual[i], *data.expected[i], tolerance);
        if (!text.empty()) return "output " + std::to_string(i) + ": " + text;
      }
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  return sets.empty() ? "it has no data" : "";
}

/// Whether a test's name is asked for.
bool is_wanted(const std::string& name) {
  const char* part = std::getenv("GANTRY_CONFORMANCE_ONLY");
  return part == nullptr || name.find(part) != std::string::npos;
}

std::vector<std::string> wanted_tests() {
  std::vector<std::string> names = tests_that_pass();
  std::erase_if(names, [](const std::string& name) { return !is_wanted(name); });
  return names;
}

/// The tests from `first` on, every `step`th.
void run_tests(Backend& backend, size_t first, size_t step) {
  if (data_roots().empty()) GTEST_SKIP() << "ONNX's test data is not there: install libonnx-testdata";
  const std::vector<std::string> names = wanted_tests();
  ASSERT_GT(names.size(), std::getenv("GANTRY_CONFORMANCE_ONLY") ? 0u : 1000u);
  for (size_t i = first; i < names.size(); i += step) {
    for (const fs::path& folder : find_test(names[i]))
      EXPECT_EQ(run_test(backend, folder), "") << folder << " " << backend.name();
  }
}

/// Other ways of compiling get a sample; all with GANTRY_CONFORMANCE_ALL=1.
size_t every_nth() {
  return std::getenv("GANTRY_CONFORMANCE_ALL") ? 1 : 16;
}
size_t first_of_sample(size_t wanted) {
  return every_nth() == 1 ? 0 : wanted;
}

/// The tests in parts, so that CTest can run them side by side.
class Conformance : public ::testing::TestWithParam<size_t> {
 public:
  static constexpr size_t kParts = 8;
};

TEST_P(Conformance, TestsPassByInterpretation) {
  InterpreterBackend backend;
  run_tests(backend, GetParam(), kParts);
}

TEST_P(Conformance, TestsPassCompiledForThisMachine) {
  CompiledBackend backend("native", 3);
  run_tests(backend, GetParam(), kParts);
}

TEST_P(Conformance, TestsPassOnTheEmulatedGpuUnderItsChecks) {
  CompiledBackend backend(testing::gpu_test_target("+checks"), 3);
  run_tests(backend, GetParam(), kParts);
}

INSTANTIATE_TEST_SUITE_P(Part, Conformance, ::testing::Range(size_t{0}, Conformance::kParts));

TEST(ConformanceSample, PassesWithoutOptimisation) {
  CompiledBackend backend("native", 0);
  run_tests(backend, first_of_sample(3), every_nth());
}

TEST(ConformanceSample, PassesForABoardUnderEmulation) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  BoardBackend backend("aarch64");
  run_tests(backend, first_of_sample(5), every_nth());
}

#if defined(__x86_64__)
TEST(ConformanceSample, PassesForTheOldestX86) {
  CompiledBackend backend("x86-64-v2", 3);
  run_tests(backend, first_of_sample(7), every_nth());
}
#endif

/// Those whose reasons say so may pass one day and not the next.
bool is_by_chance(const Failing& test) {
  return test.reason.find("random") != std::string::npos;
}

TEST(ConformanceList, HasNoTestThatPasses) {
  CompiledBackend backend("native", 3);
  std::string missing;
  for (const auto& [name, failing] : failing_tests()) {
    if (!is_wanted(name) || is_by_chance(failing) || failing.elsewhere) continue;
    std::vector<fs::path> folders = folders_of(name);
    if (failing.debian) std::erase_if(folders, [](const fs::path& folder) { return !is_debian_data(folder); });
    if (folders.empty()) {
      missing += " " + name;
      continue;
    }
    EXPECT_FALSE(std::ranges::all_of(folders, [&](const fs::path& folder) { return run_test(backend, folder).empty(); }))
        << name << " passes: not_passing.txt need not have it";
  }
  if (!missing.empty()) GTEST_SKIP() << "there is no data of" << missing;
}

TEST(ConformanceList, IsWrittenOnRequest) {
  const char* path = std::getenv("GANTRY_CONFORMANCE_LIST");
  if (path == nullptr) GTEST_SKIP() << "not requested";
  std::ofstream list(path);
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::make_unique<InterpreterBackend>());
  backends.push_back(std::make_unique<CompiledBackend>("native", 3));
  std::set<std::string> names;
  for (const fs::path& root : data_roots()) {
    for (const auto& entry : fs::directory_iterator(root)) names.insert(entry.path().filename().string());
  }
  for (const std::string& name : names) {
    if (!is_wanted(name)) continue;
    for (const auto& backend : backends) {
      for (const fs::path& folder : folders_of(name)) {
        const std::string why = run_test(*backend, folder);
        if (!why.empty()) list << name << ": " << backend->name() << ", " << folder.string() << ": " << why << std::endl;
      }
    }
  }
}

}  // namespace
}  // namespace gantry::conformance
