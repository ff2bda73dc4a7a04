#include "host/conformance/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx-data_pb.h>

#include <cstring>

#include "host/support/error.h"
#include "host/support/unsupported.h"

namespace gantry::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

onnx::TensorProto floats(const std::vector<float>& values) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const float value : values) tensor.add_float_data(value);
  return tensor;
}

TestDatum parse(const google::protobuf::Message& message, ValueKind kind) {
  return parse_value(message.SerializeAsString(), kind, "x.pb", ".");
}

TestDatum tensor(const std::vector<float>& values) {
  return parse(floats(values), ValueKind::kTensor);
}

onnx::SequenceProto sequence(const std::vector<std::vector<float>>& tensors) {
  onnx::SequenceProto result;
  result.set_elem_type(onnx::SequenceProto::TENSOR);
  for (const auto& values : tensors) *result.add_tensor_values() = floats(values);
  return result;
}

TEST(TestValues, AreTensorsSequencesAndOptionals) {
  EXPECT_EQ(tensor({1, 2}).describe(), "Tensor[(2), f32]");
  EXPECT_EQ(parse(sequence({{1}, {2, 3}}), ValueKind::kSequence).describe(), "a sequence of 2");
  onnx::OptionalProto optional;
  optional.set_elem_type(onnx::OptionalProto::TENSOR);
  EXPECT_EQ(parse(optional, ValueKind::kOptional).describe(), "nothing");
  *optional.mutable_tensor_value() = floats({1, 2, 3});
  EXPECT_EQ(parse(optional, ValueKind::kOptional).describe(), "Tensor[(3), f32]");
  onnx::OptionalProto of_sequence;
  of_sequence.set_elem_type(onnx::OptionalProto::SEQUENCE);
  *of_sequence.mutable_sequence_value() = sequence({{1}});
  EXPECT_EQ(parse(of_sequence, ValueKind::kOptional).describe(), "a sequence of 1");
  onnx::SequenceProto nested;
  nested.set_elem_type(onnx::SequenceProto::SEQUENCE);
  *nested.add_sequence_values() = sequence({{1}, {2}});
  EXPECT_EQ(parse(nested, ValueKind::kSequence).elements.at(0).describe(), "a sequence of 2");
}

TEST(TestValues, WhatGantryHasNotIsUnsupported) {
  onnx::TensorProto pairs;
  pairs.set_data_type(onnx::TensorProto::COMPLEX64);
  onnx::SequenceProto maps;
  maps.set_elem_type(onnx::SequenceProto::MAP);
  EXPECT_THROW(parse(pairs, ValueKind::kTensor), Unsupported);
  EXPECT_THROW(parse(maps, ValueKind::kSequence), Unsupported);
  EXPECT_THROW(parse_value("", ValueKind::kMap, "x.pb", "."), Unsupported);
  EXPECT_THROW(parse_value("", ValueKind::kSparseTensor, "x.pb", "."), Unsupported);
}

/// The message of the user error, which names the file; "" where there is none.
std::string error_of(const std::string& bytes, ValueKind kind) {
  try {
    parse_value(bytes, kind, "x.pb", ".");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), HasSubstr("x.pb"));
    return error.what();
  }
  return "";
}

TEST(TestValues, CutOrAlteredFilesGiveErrorsThatNameThem) {
  onnx::TensorProto raw = floats({1, 2, 3});
  raw.clear_float_data();
  raw.set_raw_data(std::string(12, '\1'));
  const std::pair<std::string, ValueKind> files[] = {
      {floats({1, 2, 3}).SerializeAsString(), ValueKind::kTensor},
      {raw.SerializeAsString(), ValueKind::kTensor},
      {sequence({{1}, {2, 3}}).SerializeAsString(), ValueKind::kSequence}};
  for (const auto& [bytes, kind] : files) {
    ASSERT_EQ(error_of(bytes, kind), "");
    for (size_t size = 0; size < bytes.size(); ++size) {
      const std::string error = error_of(bytes.substr(0, size), kind);
      if (kind == ValueKind::kTensor) {
        EXPECT_NE(error, "") << size;
      }
    }
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string altered = bytes;
        altered[at] = static_cast<char>(altered[at] ^ (1 << bit));
        error_of(altered, kind);
      }
    }
  }
}

TEST(TestValues, SizesThatOverflowAreErrors) {
  onnx::TensorProto huge = floats({1});
  huge.set_dims(0, int64_t{1} << 62);
  huge.add_dims(int64_t{1} << 62);
  EXPECT_THAT(error_of(huge.SerializeAsString(), ValueKind::kTensor), HasSubstr("impossibly large"));
  huge.set_dims(0, -1);
  EXPECT_THAT(error_of(huge.SerializeAsString(), ValueKind::kTensor), HasSubstr("negative"));
}

TEST(TestValues, SequencesAreComparedElementByElement) {
  const TestDatum expected = parse(sequence({{1}, {2, 3, 4}}), ValueKind::kSequence);
  EXPECT_FALSE(compare(expected, expected, {}));
  const auto element = compare(parse(sequence({{1}, {2, 9, 5}}), ValueKind::kSequence), expected, {});
  ASSERT_TRUE(element && element->at);
  EXPECT_THAT(element->within, ElementsAre(1u));
  EXPECT_THAT(element->at->index, ElementsAre(1));
  EXPECT_EQ(std::get<double>(element->at->got), 9);
  EXPECT_EQ(std::get<double>(element->at->expected), 3);
  EXPECT_EQ(element->text(), "[1][1]: 9 instead of 3 (2 of 3 elements differ)");
  EXPECT_EQ(compare(parse(sequence({{1}}), ValueKind::kSequence), expected, {})->text(),
            "a sequence of 1 instead of a sequence of 2");
  EXPECT_EQ(compare(tensor({1}), expected, {})->text(), "Tensor[(1), f32] instead of a sequence of 2");
  EXPECT_EQ(compare(parse(sequence({{1}, {2, 3}}), ValueKind::kSequence), expected, {})->text(),
            "[1]: Tensor[(2), f32] instead of Tensor[(3), f32]");
  TestDatum nothing;
  nothing.kind = TestDatum::Kind::kNothing;
  EXPECT_FALSE(compare(nothing, nothing, {}));
  EXPECT_EQ(compare(nothing, tensor({1}), {})->text(), "nothing instead of Tensor[(1), f32]");
}

TEST(TestValues, TheWorstElementHasAPlaceInItsShape) {
  onnx::TensorProto proto = floats({0, 0, 0, 0, 0, 0});
  proto.clear_dims();
  proto.add_dims(2);
  proto.add_dims(3);
  const TestDatum expected = parse(proto, ValueKind::kTensor);
  proto.set_float_data(2, 1);
  proto.set_float_data(4, 5);
  const auto wrong = compare(parse(proto, ValueKind::kTensor), expected, {});
  ASSERT_TRUE(wrong && wrong->at);
  EXPECT_THAT(wrong->at->index, ElementsAre(1, 1));
  EXPECT_EQ(wrong->at->differing, 2);
  EXPECT_EQ(wrong->at->elements, 6);
}

}  // namespace
}  // namespace gantry::conformance
