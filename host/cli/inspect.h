// What is in a file, as text or JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/graph/fix_sizes.h"

namespace gantry {
class CustomOps;  // host/custom_ops/custom_ops.h
}

namespace gantry::cli {

struct InspectOptions {
  bool json = false;
  bool steps = false;  ///< every step of a module's plan
  bool forms = false;  ///< instead of all else, how its nodes are computed, as --decisions reads it
  std::shared_ptr<const CustomOps> custom_ops;  ///< ops of the user's that a model may have; null: none
  GivenSizes sizes;  ///< of a model's inputs, for whether it can be compiled
  std::vector<std::string> kept_inputs;  ///< of a model: inputs with a default that stay inputs
};
/// What there is to say of a file, and why gantry cannot use it; `problem` is empty where it can.
struct Inspection {
  std::string report;
  std::string problem;
};
/// An ONNX model: inputs, outputs, opsets, op counts, weights, and what cannot be compiled. User error if it
/// is none, or has no input of a name in kept_inputs.
Inspection inspect_model(const std::filesystem::path& path, const InspectOptions& options);
/// Graph text (.gir): inputs, outputs, op counts, weights. User error, with line and column, if it is none.
Inspection inspect_graph_text(const std::filesystem::path& path, const InspectOptions& options);
/// A module file: tensors, variants, kernels, plan, memory, segments. User error says how it is damaged. Code
/// for other machines than this one is no problem.
Inspection inspect_module(const std::filesystem::path& path, const InspectOptions& options);

}  // namespace gantry::cli
