// Elements of less than 8 bits, packed as onnx.helper packs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cstring>

#include "host/onnx/tensor_data.h"
#include "host/onnx/tensor_file.h"
#include "host/support/error.h"

namespace gantry {
namespace {

struct Packed {
  DType dtype;
  std::vector<uint8_t> elements, packed;
};
// The packed bytes are those of onnx 1.23's make_tensor().
const std::vector<Packed> kCases{
    {DType::kI4, {0x01, 0xfe, 0x03}, {0xe1, 0x03}},
    {DType::kU4, {15, 0, 7, 8}, {0x0f, 0x87}},
    {DType::kF4E2M1FN, {0x8, 0x7, 0x1}, {0x78, 0x01}},
    {DType::kI2, {0x01, 0xfe, 0xff, 0x00, 0x01}, {0x39, 0x01}},
    {DType::kU2, {3, 2, 1, 0}, {0x1b}},
    {DType::kF6E2M3FN, {0x3f, 0x01, 0x2a, 0x15}, {0x7f, 0xa0, 0x56}},
    {DType::kF8E5M2, {0x3c, 0x7c}, {0x3c, 0x7c}},
};

class TensorPacking : public ::testing::TestWithParam<Packed> {};

TEST_P(TensorPacking, IsUndoneByReadingRawDataAndTypedFields) {
  const auto& [dtype, elements, packed] = GetParam();
  for (const bool raw : {true, false}) {
    onnx::TensorProto tensor;
    tensor.add_dims(static_cast<int64_t>(elements.size()));
    tensor.set_data_type(onnx_element_type(dtype));
    if (raw) {
      tensor.set_raw_data(packed.data(), packed.size());
    } else {
      for (const uint8_t byte : packed) tensor.add_int32_data(byte);
    }
    const ConstantPtr read = TensorReader(nullptr, std::filesystem::path(".")).read(tensor, "t");
    ASSERT_EQ(read->type.dtype, dtype);
    ASSERT_EQ(read->size, elements.size());
    EXPECT_EQ(std::memcmp(read->bytes, elements.data(), elements.size()), 0) << raw;
  }
}

TEST_P(TensorPacking, IsDoneWhereTensorsAreWritten) {
  const auto& [dtype, elements, packed] = GetParam();
  const ConstantPtr constant = make_constant({dtype, {static_cast<int64_t>(elements.size())}}, elements.data());
  onnx::TensorProto tensor;
  ASSERT_TRUE(tensor.ParseFromString(format_tensor_proto("t", *constant)));
  EXPECT_EQ(tensor.raw_data(), std::string(packed.begin(), packed.end()));
}

INSTANTIATE_TEST_SUITE_P(Types, TensorPacking, ::testing::ValuesIn(kCases));

TEST(PackedTensor, TooFewBytesAreAnError) {
  onnx::TensorProto tensor;
  tensor.add_dims(5);
  tensor.set_data_type(onnx_element_type(DType::kI4));
  tensor.set_raw_data("ab");
  EXPECT_THROW(TensorReader(nullptr, std::filesystem::path(".")).read(tensor, "t"), Error);
}

}  // namespace
}  // namespace gantry
