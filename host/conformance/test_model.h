// What of a test's model says how its data are read and what it is a test of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gantry::conformance {

/// Which message a value's file holds.
enum class ValueKind : uint8_t { kTensor, kSequence, kOptional, kMap, kSparseTensor };

struct TestValue {
  std::string name;
  ValueKind kind = ValueKind::kTensor;
};

struct TestModel {
  /// The one that all nodes have that make no constants: "Softmax", "ai.onnx.ml.Scaler"; else "several".
  std::string operator_name;
  int64_t opset = 0;              ///< of ONNX's own operators; 0: the model names none
  std::vector<TestValue> inputs;  ///< without those that have an initialiser
  std::vector<TestValue> outputs;
};

/// User error where the file is no model, or one of 2 GB or more.
TestModel read_test_model(const std::filesystem::path& model);

/// Whether a test's model is the body of an operator's function, as test_X_expanded and test_X_expanded_ver18
/// are; `of` is then test_X.
bool is_expanded(const std::string& name, std::string& of);

}  // namespace gantry::conformance
