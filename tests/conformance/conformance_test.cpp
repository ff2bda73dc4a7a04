// ONNX's own backend tests. passing.txt lists those that must pass; one a line, followed by "fixed" where
// inputs that steer shapes are fixed to their test values before compiling.
//
//   GANTRY_CONFORMANCE_LIST=FILE conformance_test   writes the list of all that pass now to FILE
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "host/onnx/import.h"
#include "host/support/error.h"
#include "tests/conformance/backend.h"
#include "tests/conformance/test_data.h"

namespace gantry::conformance {
namespace {

namespace fs = std::filesystem;

/// Inputs that ops like Reshape, Slice or Range take as data, though they decide on shapes.
bool may_steer_shapes(const ConstantData& value) {
  return value.type.rank() <= 1 && value.size <= 1024;
}

/// Every input's shape as in the test; with `fixed`, values too of those that may steer shapes.
ImportOptions options_for(const std::vector<ConstantPtr>& inputs, const std::vector<std::string>& names,
                          bool fixed) {
  ImportOptions options;
  for (size_t i = 0; i < names.size() && i < inputs.size(); ++i) {
    if (fixed && may_steer_shapes(*inputs[i]))
      options.values[names[i]] = inputs[i];
    else
      options.shapes[names[i]] = *constant_shape(inputs[i]->type.shape);
  }
  return options;
}

/// "" if every data set passes, else why not.
std::string run_test(Backend& backend, const fs::path& folder, bool fixed) {
  int sets = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    ++sets;
    try {
      auto inputs = read_tensors(entry.path(), "input"), expected = read_tensors(entry.path(), "output");
      if (!inputs || !expected) return "its data are no tensors";
      std::vector<std::string> names = input_names(folder / "model.onnx");
      Graph graph = import_onnx(folder / "model.onnx", options_for(*inputs, names, fixed));
      std::vector<ConstantPtr> open;
      for (size_t i = 0; i < inputs->size(); ++i) {
        bool closed = fixed && i < names.size() && may_steer_shapes(*(*inputs)[i]);
        if (!closed) open.push_back((*inputs)[i]);
      }
      std::vector<ConstantPtr> actual = backend.run(graph, open);
      if (actual.size() != expected->size()) return "another number of outputs";
      for (size_t i = 0; i < actual.size(); ++i) {
        std::string text = difference(*actual[i], *(*expected)[i]);
        if (!text.empty()) return "output " + std::to_string(i) + ": " + text;
      }
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  return sets > 0 ? "" : "it has no data";
}

struct Listed {
  std::string name;
  bool fixed = false;
};

std::vector<Listed> passing_list() {
  std::vector<Listed> list;
  std::ifstream file(fs::path(GANTRY_SOURCE_DIR) / "tests/conformance/passing.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    size_t space = line.find(' ');
    list.push_back({line.substr(0, space), space != std::string::npos});
  }
  return list;
}

fs::path find_test(const std::string& name) {
  for (const fs::path& root : data_roots()) {
    if (fs::exists(root / name / "model.onnx")) return root / name;
  }
  return {};
}

TEST(Conformance, EveryListedTestPassesByInterpretation) {
  if (data_roots().empty()) GTEST_SKIP() << "ONNX's test data is not there";
  InterpreterBackend backend;
  for (const Listed& test : passing_list()) {
    fs::path folder = find_test(test.name);
    if (folder.empty()) continue;
    EXPECT_EQ(run_test(backend, folder, test.fixed), "") << test.name;
  }
}

TEST(Conformance, WritesTheListOnRequest) {
  const char* path = std::getenv("GANTRY_CONFORMANCE_LIST");
  if (path == nullptr) GTEST_SKIP() << "not requested";
  InterpreterBackend backend;
  std::ofstream list(path), failures(std::string(path) + ".failing");
  std::set<fs::path> folders;
  for (const fs::path& root : data_roots()) {
    for (const auto& entry : fs::directory_iterator(root)) folders.insert(entry.path());
  }
  for (const fs::path& folder : folders) {
    std::string why = run_test(backend, folder, false);
    if (why.empty()) {
      list << folder.filename().string() << std::endl;
    } else if (run_test(backend, folder, true).empty()) {
      list << folder.filename().string() << " fixed" << std::endl;
    } else {
      failures << folder.filename().string() << ": " << why << std::endl;
    }
  }
}

}  // namespace
}  // namespace gantry::conformance
