// Values of ONNX's test data: tensors, and sequences and optionals of values.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/conformance/comparison.h"
#include "host/conformance/test_model.h"

namespace gantry::conformance {

/// One of: a tensor, a sequence, an optional without a value. An optional with a value is that value.
struct TestDatum {
  enum class Kind : uint8_t { kTensor, kSequence, kNothing };
  Kind kind = Kind::kTensor;
  ConstantPtr tensor;               ///< of kTensor
  std::vector<TestDatum> elements;  ///< of kSequence

  /// "Tensor[(2, 3), f32]", "a sequence of 3", "nothing"
  std::string describe() const;
};

/// Reads a file with one serialised TensorProto, SequenceProto or OptionalProto. User errors name the file:
/// it is cut or something else, dimensions contradict its data; Unsupported: element types and kinds of
/// values that gantry has not.
TestDatum read_value(const std::filesystem::path& file, ValueKind kind);
/// As read_value from bytes; `name` stands in messages, external data are looked for in `folder`.
TestDatum parse_value(std::string_view bytes, ValueKind kind, const std::string& name,
                      const std::filesystem::path& folder);

/// What is wrong with a value.
struct Wrong {
  std::string what;            ///< "Tensor[(2), f32] instead of Tensor[(3), f32]", "3 of 12 elements differ"
  std::vector<size_t> within;  ///< which element of the sequence, of the sequence in it, …
  /// Of an element: where it is in its tensor, what it is and should be.
  struct At {
    std::vector<int64_t> index;
    Element expected, got;
    int64_t differing = 0, elements = 0;  ///< how many differ, of how many
  };
  std::optional<At> at;
  /// "[1][0, 2]: 3 instead of 4 (5 of 12 elements differ)"
  std::string text() const;
};
/// Nothing where the value counts as the expected one: kinds, lengths, element types and shapes are the same,
/// and elements within the tolerance. Else the first value of a sequence that does not, and the worst of its
/// elements.
std::optional<Wrong> compare(const TestDatum& actual, const TestDatum& expected, const Tolerance& tolerance);

}  // namespace gantry::conformance
