// ReverseSequence against a walk over the elements, and what of it is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <numeric>
#include <optional>

#include "host/onnx/import.h"
#include "host/ops/sequence.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string joined(const std::string& field, const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += fmt::format("{}: {} ", field, value);
  return text;
}

std::string initializer(const std::string& name, const std::vector<int64_t>& shape, int type, const std::string& data) {
  return fmt::format("initializer {{ name: '{}' {}data_type: {} {}}} ", name, joined("dims", shape), type, data);
}

std::string input(const std::string& name, int type, const std::string& shape) {
  return fmt::format("input {{ name: '{}' type {{ tensor_type {{ elem_type: {} shape {{ {} }} }} }} }} ", name, type,
                     shape);
}

/// A graph of one ReverseSequence of `x` and `lengths`; an attribute of no value is left out.
Graph import(const std::string& values, std::optional<int> batch, std::optional<int> time) {
  std::string node = "node { name: 'turn' op_type: 'ReverseSequence' input: 'x' input: 'lengths' output: 'y' ";
  if (batch) node += fmt::format("attribute {{ name: 'batch_axis' type: INT i: {} }} ", *batch);
  if (time) node += fmt::format("attribute {{ name: 'time_axis' type: INT i: {} }} ", *time);
  const std::string text = "ir_version: 8 opset_import { version: 10 } graph { name: 'g' " + values + node +
                           "} output { name: 'y' } }";
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return import_onnx_bytes(proto.SerializeAsString(), ".");
}

/// Element (a, b, rest) of the result, for data whose elements are their positions.
int64_t expected(int64_t a, int64_t b, int64_t rest, const std::vector<int64_t>& shape,
                 const std::vector<int64_t>& lengths, bool time_first) {
  int64_t& time = time_first ? a : b;
  const int64_t length = lengths[static_cast<size_t>(time_first ? b : a)];
  if (time < length) time = length - 1 - time;
  return (a * shape[1] + b) * (shape.size() > 2 ? shape[2] : 1) + rest;
}

template <typename T>
void expect_reversed(const std::vector<int64_t>& shape, const std::vector<int64_t>& lengths, bool time_first, int type,
                     const std::string& field) {
  SCOPED_TRACE(fmt::format("type {}, rank {}, time first: {}", type, shape.size(), time_first));
  const int64_t inner = shape.size() > 2 ? shape[2] : 1;
  std::vector<int64_t> data(static_cast<size_t>(shape[0] * shape[1] * inner));
  std::iota(data.begin(), data.end(), 0);
  const std::string values =
      initializer("x", shape, type, joined(field, data)) +
      initializer("lengths", {static_cast<int64_t>(lengths.size())}, 7, joined("int64_data", lengths));
  // The defaults are a time axis 0 and a batch axis 1.
  const Graph graph = time_first ? import(values, {}, {}) : import(values, 0, 1);
  const Value& y = *graph.main.nodes().at(0)->inputs.at(0);  // read by a copy
  ASSERT_TRUE(y.is_constant());
  const T* elements = y.constant->as<T>();
  for (int64_t a = 0; a < shape[0]; ++a) {
    for (int64_t b = 0; b < shape[1]; ++b) {
      for (int64_t rest = 0; rest < inner; ++rest, ++elements)
        EXPECT_EQ(*elements, static_cast<T>(expected(a, b, rest, shape, lengths, time_first)))
            << a << ", " << b << ", " << rest;
    }
  }
}

TEST(ReverseSequence, TurnsTheFirstElementsOfEachSequence) {
  expect_reversed<float>({4, 5}, {0, 1, 2, 3, 4}, true, 1, "float_data");
  expect_reversed<float>({5, 4}, {4, 3, 1, 2, 0}, false, 1, "float_data");
  expect_reversed<float>({3, 4, 2}, {3, 0, 2, 1}, true, 1, "float_data");
  expect_reversed<float>({4, 3, 2}, {3, 0, 2, 1}, false, 1, "float_data");
}

TEST(ReverseSequence, MovesElementsOfEveryType) {
  expect_reversed<int8_t>({3, 2, 2}, {3, 2}, true, 3, "int32_data");
  expect_reversed<uint16_t>({3, 2, 2}, {3, 2}, true, 4, "int32_data");
  expect_reversed<int64_t>({3, 2, 2}, {3, 2}, true, 7, "int64_data");
  expect_reversed<double>({3, 2, 2}, {3, 2}, true, 11, "double_data");
}

TEST(ReverseSequence, AxesAndLengthsThatDoNotFitAreRefused) {
  const auto error_of = [](const std::string& values, int batch, int time) -> std::string {
    try {
      import(values, batch, time);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "no error";
  };
  const std::string x = input("x", 1, "dim { dim_value: 4 } dim { dim_value: 2 } dim { dim_value: 3 }");
  const auto lengths = [](const std::vector<int64_t>& values) {
    return initializer("lengths", {static_cast<int64_t>(values.size())}, 7, joined("int64_data", values));
  };
  EXPECT_EQ(error_of(x + lengths({0, 4}), 1, 0), "no error");
  EXPECT_THAT(error_of(x + lengths({0, 5}), 1, 0), AllOf(HasSubstr("turn"), HasSubstr("its sequence length 5 lies outside")));
  EXPECT_THAT(error_of(x + lengths({-1, 4}), 1, 0), HasSubstr("its sequence length -1 lies outside"));
  EXPECT_THAT(error_of(x + lengths({1, 2, 3}), 1, 0), HasSubstr("sequences and their lengths"));
  EXPECT_THAT(error_of(x + lengths({1, 2}), 1, 1), AllOf(HasSubstr("turn"), HasSubstr("they are 1 and 1")));
  EXPECT_THAT(error_of(x + lengths({1, 2}), 1, 2), HasSubstr("they are 1 and 2"));
  EXPECT_THAT(error_of(x + lengths({1, 2}), 1, 3), HasSubstr("axis 3 is outside a tensor of rank 3"));
  EXPECT_THAT(error_of(input("x", 1, "dim { dim_value: 4 }") + lengths({1}), 0, 0), HasSubstr("a batch and a time axis"));
}

}  // namespace
}  // namespace gantry
