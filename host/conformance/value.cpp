#include "host/conformance/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/onnx-data_pb.h>

#include <limits>

#include "host/onnx/tensor_data.h"
#include "host/support/error.h"
#include "host/support/mapped_file.h"
#include "host/support/unsupported.h"

namespace gantry::conformance {
namespace {

[[noreturn]] void unsupported_kind(const std::string& kind, const std::string& name) {
  throw Unsupported(UnsupportedKind::kValueKind, kind,
                    fmt::format("{} is a {}, which gantry does not support", name, kind));
}

/// Reads messages that share their bytes' owner.
class Reader {
 public:
  Reader(std::shared_ptr<const void> owner, const std::filesystem::path& folder)
      : tensors_(std::move(owner), folder) {}

  TestDatum read(const onnx::TensorProto& tensor, const std::string& name) {
    TestDatum value;
    value.tensor = tensors_.read(tensor, name);
    return value;
  }
  TestDatum read(const onnx::SequenceProto& sequence, const std::string& name) {
    using S = onnx::SequenceProto;
    TestDatum value;
    value.kind = TestDatum::Kind::kSequence;
    const auto add_all = [&](const auto& elements) {
      for (const auto& element : elements)
        value.elements.push_back(read(element, fmt::format("{}, element {}", name, value.elements.size())));
    };
    if (sequence.elem_type() == S::MAP) unsupported_kind("sequence of maps", name);
    if (sequence.elem_type() == S::SPARSE_TENSOR) unsupported_kind("sequence of sparse tensors", name);
    add_all(sequence.tensor_values());
    add_all(sequence.sequence_values());
    add_all(sequence.optional_values());
    return value;
  }
  TestDatum read(const onnx::OptionalProto& optional, const std::string& name) {
    if (optional.has_tensor_value()) return read(optional.tensor_value(), name);
    if (optional.has_sequence_value()) return read(optional.sequence_value(), name);
    if (optional.has_optional_value()) return read(optional.optional_value(), name);
    if (optional.has_map_value()) unsupported_kind("map", name);
    if (optional.has_sparse_tensor_value()) unsupported_kind("sparse tensor", name);
    TestDatum value;
    value.kind = TestDatum::Kind::kNothing;
    return value;
  }

 private:
  TensorReader tensors_;
};

template <typename Message>
TestDatum parse_as(std::string_view bytes, const char* what, const std::string& name,
                   const std::filesystem::path& folder) {
  auto message = std::make_shared<Message>();
  const bool fits = bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max());
  if (!fits || !message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    user_error("{}: is no {} of ONNX, or only a part of one", name, what);
  return Reader(message, folder).read(*message, name);
}

std::vector<int64_t> position(size_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = static_cast<int64_t>(flat % static_cast<size_t>(shape[axis]));
    flat /= static_cast<size_t>(shape[axis]);
  }
  return index;
}

std::optional<Wrong> compare_tensors(const ConstantData& actual, const ConstantData& expected,
                                     const Tolerance& tolerance) {
  if (!(actual.type == expected.type))
    return Wrong{fmt::format("{} instead of {}", actual.type.str(), expected.type.str()), {}, {}};
  const auto worst = worst_element(actual, expected, tolerance);
  if (!worst) return std::nullopt;
  Wrong wrong;
  Wrong::At at;
  at.index = position(worst->index, *constant_shape(expected.type.shape));
  at.expected = element_of(expected, worst->index);
  at.got = element_of(actual, worst->index);
  at.differing = worst->differing;
  at.elements = worst->elements;
  wrong.what = fmt::format("{} of {} elements differ", at.differing, at.elements);
  wrong.at = std::move(at);
  return wrong;
}

}  // namespace

std::string TestDatum::describe() const {
  switch (kind) {
    case Kind::kTensor:
      return tensor->type.str();
    case Kind::kSequence:
      return fmt::format("a sequence of {}", elements.size());
    case Kind::kNothing:
      return "nothing";
  }
  internal_error("unknown kind of value");
}

TestDatum parse_value(std::string_view bytes, ValueKind kind, const std::string& name,
                      const std::filesystem::path& folder) {
  switch (kind) {
    case ValueKind::kTensor:
      return parse_as<onnx::TensorProto>(bytes, "TensorProto", name, folder);
    case ValueKind::kSequence:
      return parse_as<onnx::SequenceProto>(bytes, "SequenceProto", name, folder);
    case ValueKind::kOptional:
      return parse_as<onnx::OptionalProto>(bytes, "OptionalProto", name, folder);
    case ValueKind::kMap:
      unsupported_kind("map", name);
    case ValueKind::kSparseTensor:
      unsupported_kind("sparse tensor", name);
  }
  internal_error("unknown kind of value");
}

TestDatum read_value(const std::filesystem::path& path, ValueKind kind) {
  const MappedFile file(path);
  return parse_value({file.data(), file.size()}, kind, path.string(), path.parent_path());
}

std::string Wrong::text() const {
  std::string place;
  for (size_t element : within) place += fmt::format("[{}]", element);
  if (at) place += fmt::format("[{}]", fmt::join(at->index, ", "));
  if (!at) return place.empty() ? what : place + ": " + what;
  return fmt::format("{}: {} instead of {} ({})", place, element_text(at->got), element_text(at->expected),
                     what);
}

std::optional<Wrong> compare(const TestDatum& actual, const TestDatum& expected, const Tolerance& tolerance) {
  const bool same_length = actual.elements.size() == expected.elements.size();
  if (actual.kind != expected.kind || !same_length)
    return Wrong{fmt::format("{} instead of {}", actual.describe(), expected.describe()), {}, {}};
  if (actual.kind == TestDatum::Kind::kTensor)
    return compare_tensors(*actual.tensor, *expected.tensor, tolerance);
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    std::optional<Wrong> wrong = compare(actual.elements[i], expected.elements[i], tolerance);
    if (!wrong) continue;
    wrong->within.insert(wrong->within.begin(), i);
    return wrong;
  }
  return std::nullopt;
}

}  // namespace gantry::conformance
