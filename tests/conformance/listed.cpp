#include "tests/conformance/listed.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "host/conformance/test_model.h"
#include "host/conformance/value.h"
#include "host/ops/bind_dims.h"
#include "host/ops/control.h"
#include "tests/conformance/test_data.h"

namespace gantry::conformance {

namespace fs = std::filesystem;

namespace {

/// Inputs that ops like Reshape, Slice or Range take as data, though they decide on shapes.
bool may_steer_shapes(const ConstantData& value) {
  return value.type.rank() <= 1 && value.size <= 1024;
}

struct NamedTensor {
  std::string name;
  ConstantPtr tensor;  ///< null: an optional without a value
};

/// The tensors of a data set: of a sequence its elements, which models call "x[0]", "x[1]" …; `lengths` hears of it.
std::vector<NamedTensor> read_tensors(const fs::path& set, const std::string& kind, const std::vector<TestValue>& values,
                                      std::map<std::string, size_t>* lengths = nullptr) {
  std::vector<NamedTensor> tensors;
  size_t next = 0;
  for (const fs::path& file : values_of(set, kind)) {
    if (next == values.size()) throw std::runtime_error("it has more values than the model");
    const TestValue& named = values[next++];
    const TestDatum value = read_value(file, named.kind);
    if (value.kind == TestDatum::Kind::kSequence && lengths != nullptr) (*lengths)[named.name] = value.elements.size();
    if (value.kind != TestDatum::Kind::kSequence) tensors.push_back({named.name, value.tensor});
    for (size_t i = 0; i < value.elements.size(); ++i)
      tensors.push_back({named.name + "[" + std::to_string(i) + "]", value.elements[i].tensor});
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
      if (colon == std::string::npos || (!which.empty() && which != "debian" && which != "elsewhere"))
        throw std::runtime_error("not_passing.txt: '" + line + "' is not NAME [debian|elsewhere]: REASON");
      tests[name] = {which == "debian", which == "elsewhere", line.substr(colon + 2)};
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
  return std::ranges::any_of(graph.main.nodes(), [](const Node* node) {
    return node->is(op::bind_dims) || is_control_flow(*node);
  });
}

DataSet read_data_set(const fs::path& model, const fs::path& set, Steering steering) {
  const TestModel facts = read_test_model(model);
  DataSet data;
  for (auto& [name, tensor] : read_tensors(set, "input", facts.inputs, &data.lengths)) {
    const bool is_element = name.ends_with("]");
    data.closed.push_back(tensor == nullptr || (steering == Steering::kFixed && !is_element && may_steer_shapes(*tensor)));
    data.names.push_back(name);
    data.inputs.push_back(tensor);
  }
  for (auto& [name, tensor] : read_tensors(set, "output", facts.outputs)) {
    if (tensor != nullptr) data.expected.push_back(tensor);
  }
  return data;
}

ImportOptions DataSet::import_options() const {
  ImportOptions options;
  for (const auto& [name, length] : lengths) options.shapes[name] = {static_cast<int64_t>(length)};
  for (size_t i = 0; i < inputs.size(); ++i) {
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
