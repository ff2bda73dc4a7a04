// The tests of ONNX's data that passing.txt lists, and one data set of a test as it is compiled and compared.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/conformance/found_tests.h"
#include "host/graph/graph.h"
#include "host/onnx/import.h"

namespace gantry::conformance {

struct Listed {
  std::string name;
  bool fixed = false;  ///< inputs that steer shapes are fixed to their test values before compiling
  bool newer = false;  ///< Debian's older data is not what today's standard says
};

/// In the file's order.
std::vector<Listed> passing_list();
/// Every folder with that test's data; with `newer`, Debian's aside.
std::vector<std::filesystem::path> find_test(const std::string& name, bool newer);

struct DataSet {
  std::vector<std::string> names;   ///< of `inputs`; those of the model
  std::vector<ConstantPtr> inputs;  ///< as many as the data set has
  std::vector<bool> closed;         ///< parallel to `inputs`: its value is fixed
  std::vector<ConstantPtr> expected;

  /// Every input's shape, and the values of those that are closed.
  ImportOptions import_options() const;
  /// The inputs that are not closed.
  std::vector<ConstantPtr> open() const;
};
/// `fixed`: what may steer shapes is closed. Throws where the data are no tensors.
DataSet read_data_set(const std::filesystem::path& model, const std::filesystem::path& set, bool fixed);

}  // namespace gantry::conformance
