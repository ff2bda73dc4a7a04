// Where ONNX's backend test data lie on this machine.
#pragma once

#include <filesystem>
#include <vector>

namespace gantry::conformance {

/// Folders of tests: beside the source tree and in Debian's package libonnx-testdata, those that exist.
std::vector<std::filesystem::path> data_roots();
bool is_debian_data(const std::filesystem::path& root);
}  // namespace gantry::conformance
