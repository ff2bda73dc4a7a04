// ONNX's backend test data: models with inputs and expected outputs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry::conformance {

/// Folders of tests: beside the source tree and in Debian's package libonnx-testdata, those that exist.
std::vector<std::filesystem::path> data_roots();
bool is_debian_data(const std::filesystem::path& root);
/// A tensor from a file with a serialized TensorProto; null for other kinds of values.
ConstantPtr read_tensor_file(const std::filesystem::path& path);
/// The tensors input_0.pb, input_1.pb, … (or output_…) of a data set, in order. Nothing if one is no tensor.
std::optional<std::vector<ConstantPtr>> read_tensors(const std::filesystem::path& data_set,
                                                     const std::string& prefix);
/// Names of the model's inputs that have no initialiser.
std::vector<std::string> input_names(const std::filesystem::path& model);

}  // namespace gantry::conformance
