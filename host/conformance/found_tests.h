// ONNX's backend tests as they lie in folders: NAME/model.onnx beside NAME/test_data_set_0/input_0.pb,
// output_0.pb, …
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "host/conformance/comparison.h"

namespace gantry::conformance {

struct FoundTest {
  std::string name;  ///< of its folder
  std::filesystem::path folder;
};

/// The tests below the folders, at any depth, by name. Where several folders have one of the same name the
/// later folder's counts, and within a folder the later path, of which `warn` is told. Links to folders are
/// followed. User errors name a folder that is none or holds no test.
std::vector<FoundTest> find_tests(const std::vector<std::filesystem::path>& folders,
                                  const std::function<void(const std::string&)>& warn = {});

/// Whether the name has `filter` in it, or, where that has * or ?, is like that pattern as a whole.
bool is_like(const std::string& name, const std::string& filter);

/// The test's folders of inputs and outputs, test_data_set_0 and on, by number.
std::vector<std::filesystem::path> data_sets(const std::filesystem::path& test);
/// input_0.pb, input_1.pb, … of a data set, as many as there are in a row; `kind`: "input" or "output".
std::vector<std::filesystem::path> values_of(const std::filesystem::path& data_set, const std::string& kind);

/// rtol and atol of test_data.json or data.json beside the model; what they do not say, and without such a
/// file, as ONNX's runner has it. User error names a file that is no such JSON.
Tolerance tolerance_of(const std::filesystem::path& test);

}  // namespace gantry::conformance
