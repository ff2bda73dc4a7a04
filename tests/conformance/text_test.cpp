// Graphs of ONNX's own tests as text: read back, they are the same, as imported and after all passes.
#include <gtest/gtest.h>

#include "host/codegen/find_target.h"
#include "host/driver/pipeline.h"
#include "host/machine/target.h"
#include "host/onnx/import.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "tests/conformance/listed.h"
#include "tests/conformance/test_data.h"
#include "tests/support/memory_weights.h"

namespace gantry::conformance {
namespace {

namespace fs = std::filesystem;

/// "" if the graph is the same behind its text.
std::string difference_behind_text(const Graph& graph) {
  const FusedOpTable ops(op_set());
  const testing::ProgramText before(graph, ops);
  Graph copy = before.parse(ops);
  verify(copy, ops, "reading");
  const testing::ProgramText after(copy, ops);
  if (after.text != before.text) return "before:\n" + before.text + "after:\n" + after.text;
  if (after.weights != before.weights) return "other weights";
  if (print(copy, ops) != print(graph, ops)) return "people would read something else";
  return "";
}

std::string run_test(const fs::path& folder) {
  const fs::path model = folder / "model.onnx";
  for (const fs::path& set : data_sets(folder)) {
    try {
      Graph graph = import_onnx(model, read_data_set(model, set, Steering::kData).import_options());
      if (std::string text = difference_behind_text(graph); !text.empty()) return "import: " + text;
      run_graph_passes(graph, find_target("x86-64-v3"), {});
      if (std::string text = difference_behind_text(graph); !text.empty()) return "after all passes: " + text;
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  return "";
}

class ConformanceText : public ::testing::TestWithParam<size_t> {
 public:
  static constexpr size_t kParts = 4;
};

TEST_P(ConformanceText, ReadsBackAsTheSameGraph) {
  if (data_roots().empty()) GTEST_SKIP() << "ONNX's test data is not there: install libonnx-testdata";
  const std::vector<std::string> names = tests_that_pass();
  for (size_t i = GetParam(); i < names.size(); i += kParts) {
    for (const fs::path& folder : find_test(names[i])) EXPECT_EQ(run_test(folder), "") << folder;
  }
}

INSTANTIATE_TEST_SUITE_P(Part, ConformanceText, ::testing::Range(size_t{0}, ConformanceText::kParts));

}  // namespace
}  // namespace gantry::conformance
