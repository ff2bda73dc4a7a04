// What is in a file, as text or JSON.
#pragma once

#include <filesystem>
#include <string>

namespace gantry::cli {

struct InspectOptions {
  bool json = false;
  bool steps = false;  ///< every step of a module's plan
};
/// An ONNX model: inputs, outputs, opsets, op counts, parameters, and what cannot be compiled. User error if
/// it is none.
std::string inspect_model(const std::filesystem::path& path, const InspectOptions& options);
/// A module file: tensors, variants, kernels, plan, memory, segments. User error says how it is damaged.
std::string inspect_module(const std::filesystem::path& path, const InspectOptions& options);

}  // namespace gantry::cli
