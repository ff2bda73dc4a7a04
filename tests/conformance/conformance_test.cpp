// ONNX's own backend tests. passing.txt lists those that must pass, one a line, followed by
//   fixed   where inputs that steer shapes are fixed to their test values before compiling
//   newer   where Debian's older data is not what today's standard says
//
//   GANTRY_CONFORMANCE_LIST=FILE conformance_test   writes the list of all that pass now to FILE, and to
//                                                   FILE.failing why the others do not
//   GANTRY_CONFORMANCE_ONLY=TEXT                    takes only tests with TEXT in their names
//   GANTRY_TEST_GPU=cuda:sm_90                      takes that target in place of the emulated GPU
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

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

/// "" if every data set passes, else why not.
std::string run_test(Backend& backend, const fs::path& folder, bool fixed) {
  const fs::path model = folder / "model.onnx";
  const std::vector<fs::path> sets = data_sets(folder);
  for (const fs::path& set : sets) {
    try {
      const DataSet data = read_data_set(model, set, fixed);
      const Graph graph = import_onnx(model, data.import_options());
      const std::vector<ConstantPtr> actual = backend.run(graph, data.open());
      if (actual.size() != data.expected.size()) return "another number of outputs";
      for (size_t i = 0; i < actual.size(); ++i) {
        std::string text = difference(*actual[i], *data.expected[i]);
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

std::vector<Listed> wanted_tests() {
  std::vector<Listed> list = passing_list();
  std::erase_if(list, [](const Listed& test) { return !is_wanted(test.name); });
  return list;
}

std::vector<std::unique_ptr<Backend>> all_backends() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::make_unique<InterpreterBackend>());
  backends.push_back(std::make_unique<CompiledBackend>("native", 3));
  return backends;
}

/// The listed tests from `first` on, every `step`th. Those whose data this machine lacks are skipped by name,
/// once the others have run.
void run_listed(Backend& backend, size_t first, size_t step) {
  if (data_roots().empty()) GTEST_SKIP() << "ONNX's test data is not there: install libonnx-testdata";
  const std::vector<Listed> list = wanted_tests();
  ASSERT_GT(list.size(), std::getenv("GANTRY_CONFORMANCE_ONLY") ? 0u : 1000u);
  std::string missing;
  size_t run = 0;
  for (size_t i = first; i < list.size(); i += step) {
    const std::vector<fs::path> folders = find_test(list[i].name, list[i].newer);
    if (folders.empty()) missing += " " + list[i].name;
    run += folders.empty() ? 0 : 1;
    for (const fs::path& folder : folders) {
      EXPECT_EQ(run_test(backend, folder, list[i].fixed), "") << folder << " " << backend.name();
    }
  }
  if (!missing.empty()) GTEST_SKIP() << run << " tests ran; there is no data of" << missing;
}

/// Other ways of compiling get a sample; all with GANTRY_CONFORMANCE_ALL=1.
size_t every_nth() {
  return std::getenv("GANTRY_CONFORMANCE_ALL") ? 1 : 16;
}
size_t first_of_sample(size_t wanted) {
  return every_nth() == 1 ? 0 : wanted;
}

/// The listed tests in parts, so that CTest can run them side by side.
class Conformance : public ::testing::TestWithParam<size_t> {
 public:
  static constexpr size_t kParts = 8;
};

TEST_P(Conformance, ListedTestsPassByInterpretation) {
  InterpreterBackend backend;
  run_listed(backend, GetParam(), kParts);
}

TEST_P(Conformance, ListedTestsPassCompiledForThisMachine) {
  CompiledBackend backend("native", 3);
  run_listed(backend, GetParam(), kParts);
}

TEST_P(Conformance, ListedTestsPassOnTheEmulatedGpuUnderItsChecks) {
  CompiledBackend backend(testing::gpu_test_target("+checks"), 3);
  run_listed(backend, GetParam(), kParts);
}

INSTANTIATE_TEST_SUITE_P(Part, Conformance, ::testing::Range(size_t{0}, Conformance::kParts));

TEST(ConformanceSample, PassesWithoutOptimisation) {
  CompiledBackend backend("native", 0);
  run_listed(backend, first_of_sample(3), every_nth());
}

TEST(ConformanceSample, PassesForABoardUnderEmulation) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  BoardBackend backend("aarch64");
  run_listed(backend, first_of_sample(5), every_nth());
}

#if defined(__x86_64__)
TEST(ConformanceSample, PassesForTheOldestX86) {
  CompiledBackend backend("x86-64-v2", 3);
  run_listed(backend, first_of_sample(7), every_nth());
}
#endif

/// "" if it passes in every folder on every backend.
std::string run_everywhere(const Listed& test) {
  std::vector<fs::path> folders = find_test(test.name, test.newer);
  if (folders.empty()) return "it has no newer data";
  for (const auto& backend : all_backends()) {
    for (const fs::path& folder : folders) {
      std::string why = run_test(*backend, folder, test.fixed);
      if (!why.empty()) return backend->name() + ", " + folder.string() + ": " + why;
    }
  }
  return "";
}

TEST(ConformanceList, IsWrittenOnRequest) {
  const char* path = std::getenv("GANTRY_CONFORMANCE_LIST");
  if (path == nullptr) GTEST_SKIP() << "not requested";
  std::ofstream list(path), failures(std::string(path) + ".failing");
  list << "# Tests that must pass; what the words after a name mean says conformance_test.cpp.\n";
  std::set<std::string> names;
  for (const fs::path& root : data_roots()) {
    for (const auto& entry : fs::directory_iterator(root)) names.insert(entry.path().filename().string());
  }
  for (const std::string& name : names) {
    if (!is_wanted(name)) continue;
    std::string why = run_everywhere({name, false, false});
    if (why.empty()) {
      list << name << std::endl;
    } else if (run_everywhere({name, true, false}).empty()) {
      list << name << " fixed" << std::endl;
    } else if (run_everywhere({name, false, true}).empty()) {
      list << name << " newer" << std::endl;
    } else {
      failures << name << ": " << why << std::endl;
    }
  }
}

}  // namespace
}  // namespace gantry::conformance
