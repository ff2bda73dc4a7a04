#include "tests/conformance/listed.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/conformance/test_data.h"

namespace gantry::conformance {

namespace fs = std::filesystem;

namespace {

/// Inputs that ops like Reshape, Slice or Range take as data, though they decide on shapes.
bool may_steer_shapes(const ConstantData& value) {
  return value.type.rank() <= 1 && value.size <= 1024;
}

}  // namespace

std::vector<Listed> passing_list() {
  std::vector<Listed> list;
  std::ifstream file(fs::path(GANTRY_SOURCE_DIR) / "tests/conformance/passing.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Listed test;
    words >> test.name;
    for (std::string word; words >> word;) (word == "fixed" ? test.fixed : test.newer) = true;
    list.push_back(test);
  }
  return list;
}

std::vector<fs::path> find_test(const std::string& name, bool newer) {
  std::vector<fs::path> found;
  for (const fs::path& root : data_roots()) {
    if (newer && is_debian_data(root)) continue;
    if (fs::exists(root / name / "model.onnx")) found.push_back(root / name);
  }
  return found;
}

std::vector<fs::path> data_sets(const fs::path& test) {
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(test)) {
    if (entry.is_directory()) sets.push_back(entry.path());
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

DataSet read_data_set(const fs::path& model, const fs::path& set, bool fixed) {
  auto inputs = read_tensors(set, "input"), expected = read_tensors(set, "output");
  if (!inputs || !expected) throw std::runtime_error("its data are no tensors");
  DataSet data;
  data.names = input_names(model);
  data.inputs = *inputs;
  data.expected = *expected;
  for (size_t i = 0; i < inputs->size(); ++i)
    data.closed.push_back(fixed && i < data.names.size() && may_steer_shapes(*data.inputs[i]));
  return data;
}

ImportOptions DataSet::import_options() const {
  ImportOptions options;
  for (size_t i = 0; i < names.size() && i < inputs.size(); ++i) {
    if (closed[i])
      options.values[names[i]] = inputs[i];
    else
      options.shapes[names[i]] = *constant_shape(inputs[i]->type.shape);
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
