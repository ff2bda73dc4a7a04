// The tests of ONNX's data that must pass: all but those in not_passing.txt. And one data set of a test as it is compiled
// and compared.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/conformance/found_tests.h"
#include "host/graph/graph.h"
#include "host/onnx/import.h"

namespace gantry::conformance {

/// A test that does not pass.
struct Failing {
  bool debian = false;     ///< Debian's older data alone: today's standard says otherwise
  bool elsewhere = false;  ///< in some of the ways in which tests are run here, or on some CPUs, and not in others
  std::string reason;
};
/// What not_passing.txt says, by name.
const std::map<std::string, Failing>& failing_tests();

/// The names of all tests of this machine's data that must pass.
std::vector<std::string> tests_that_pass();
/// Every folder with data of a test that must pass.
std::vector<std::filesystem::path> find_test(const std::string& name);
/// Every folder with data of the test, those that need not pass too: of two releases that have it the newer's, and
/// Debian's.
std::vector<std::filesystem::path> folders_of(const std::string& name);

/// What becomes of inputs that may steer shapes, like those of Reshape, Slice or Range.
enum class Steering {
  kData,   ///< data, as users have them
  kFixed,  ///< fixed to the test's values before the import
};

struct DataSet {
  std::vector<std::string> names;   ///< of `inputs`; those of the model
  std::vector<ConstantPtr> inputs;  ///< as many as the data set has
  std::vector<bool> closed;         ///< parallel to `inputs`: its value is fixed
  std::map<std::string, size_t> lengths;  ///< of inputs that are sequences, whose elements `inputs` has
  std::vector<ConstantPtr> expected;

  /// Every input's shape, and the values of those that are closed.
  ImportOptions import_options() const;
  /// The inputs that are not closed.
  std::vector<ConstantPtr> open() const;
};
/// Throws where the data are no tensors.
DataSet read_data_set(const std::filesystem::path& model, const std::filesystem::path& set, Steering steering);
/// Whether the model finds some of its sizes while it runs.
bool has_late_sizes(const Graph& graph);

}  // namespace gantry::conformance
