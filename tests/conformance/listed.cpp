#include "tests/conformance/listed.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "host/conformance/test_model.h"
#include "host/conformance/value.h"
#include "host/ops/bind_dims.h"
#include "tests/conformance/test_data.h"

namespace gantry::conformance {

namespace fs = std::filesystem;

namespace {

/// Inputs that ops like Reshape, Slice or Range take as data, though they decide on shapes.
bool may_steer_shapes(const ConstantData& value) {
  return value.type.rank() <= 1 && value.size <= 1024;
}

/// The values of a data set, which have to be tensors.
std::vector<ConstantPtr> read_tensors(const fs::path& set, const std::string& kind,
                                      const std::vector<TestValue>& values) {
  std::vector<ConstantPtr> tensors;
  for (const fs::path& file : values_of(set, kind)) {
    if (tensors.size() == values.size()) throw std::runtime_error("it has more values than the model");
    TestDatum value = read_value(file, values[tensors.size()].kind);
    if (value.kind != TestDatum::Kind::kTensor) throw std::runtime_error("its data are no tensors");
    tensors.push_back(std::move(value.tensor));
  }
  return tensors;
}

}  // namespace

const std::map<std::string, Failing>& failing_tests() {
  static const auto list = [] {
    std::map<std::string, Failing> tests;
    std::ifstream file(fs::path(GANTRY_SOURCE_DIR) / "tests/conformance/not_passing.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const size_t colon = line.find(": ");
      std::istringstream words(line.substr(0, colon));
      std::string name, which;
      words >> name >> which;
      if (colon == std::string::npos || (!which.empty() && which != "debian"))
        throw std::runtime_error("not_passing.txt: '" + line + "' is not NAME: REASON, or NAME debian: REASON");
      tests[name] = {which == "debian", line.substr(colon + 2)};
    }
    return tests;
  }();
  return list;
}

std::vector<std::string> tests_that_pass() {
  std::set<std::string> names;
  for (const fs::path& root : data_roots()) {
    for (const auto& entry : fs::directory_iterator(root)) names.insert(entry.path().filename().string());
  }
  std::vector<std::string> passing;
  for (const std::string& name : names) {
    if (!find_test(name).empty()) passing.push_back(name);
  }
  return passing;
}

std::vector<fs::path> folders_of(const std::string& name) {
  std::vector<fs::path> found;
  bool superseded = false;  // of two releases that have a test the newer counts
  for (const fs::path& root : data_roots()) {
    const bool debian = is_debian_data(root);
    if ((!debian && superseded) || !fs::exists(root / name / "model.onnx")) continue;
    superseded = superseded || !debian;
    found.push_back(root / name);
  }
  return found;
}

std::vector<fs::path> find_test(const std::string& name) {
  const auto failing = failing_tests().find(name);
  if (failing == failing_tests().end()) return folders_of(name);
  if (!failing->second.debian) return {};
  std::vector<fs::path> folders = folders_of(name);
  std::erase_if(folders, [](const fs::path& folder) { return is_debian_data(folder); });
  return folders;
}

bool has_late_sizes(const Graph& graph) {
  return std::ranges::any_of(graph.main.nodes(), [](const Node* node) { return node->is(op::bind_dims); });
}

DataSet read_data_set(const fs::path& model, const fs::path& set, Steering steering) {
  const TestModel facts = read_test_model(model);
  DataSet data;
  for (const TestValue& input : facts.inputs) data.names.push_back(input.name);
  data.inputs = read_tensors(set, "input", facts.inputs);
  data.expected = read_tensors(set, "output", facts.outputs);
  for (size_t i = 0; i < data.inputs.size(); ++i)
    data.closed.push_back(steering == Steering::kFixed && i < data.names.size() && may_steer_shapes(*data.inputs[i]));
  return data;
}

ImportOptions DataSet::import_options() const {
  ImportOptions options;
  for (size_t i = 0; i < names.size() && i < inputs.size(); ++i) {
    if (closed[i])
      options.values[names[i]] = inputs[i];
    else
      options.shapes[names[i]] = given_shape(*constant_shape(inputs[i]->type.shape));
  }
  return options;
}

std::vector<ConstantPtr> DataSet::open() const {
  std::vector<ConstantPtr> left;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!closed[i]) left.push_back(inputs[i]);
  }
  return left;
}

}  // namespace gantry::conformance
