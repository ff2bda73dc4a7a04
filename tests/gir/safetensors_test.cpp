// Files of weights: what is written, and what is refused of what others wrote.
#include <gmock/gmock.h>

#include <cstring>

#include "host/gir/safetensors.h"
#include "host/support/error.h"
#include "tests/gir/folder.h"

namespace gantry {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

std::string error_of(const std::string& file) {
  try {
    size_t begin = 0;
    read_safetensors_header(file, begin);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "no error";
}

const std::string kTwo = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";

TEST(Safetensors, ReadsWhatTheFormatSays) {
  size_t begin = 0;
  const auto entries = read_safetensors_header(file_of(kTwo + "   ", "012345678"), begin);
  EXPECT_EQ(begin, 8 + kTwo.size() + 3) << "blanks pad the header";
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries.at("a").dtype, "F32");
  EXPECT_EQ(entries.at("a").shape, std::vector<int64_t>{2});
  EXPECT_EQ(entries.at("b").begin, 8u);
  EXPECT_EQ(entries.at("b").end, 9u);
  EXPECT_EQ(error_of(file_of("{}", "")), "no error");
  EXPECT_EQ(error_of(file_of(R"({"__metadata__":{"format":"pt"}})", "")), "no error");
  EXPECT_EQ(error_of(file_of(R"({"a":{"dtype":"F8_E8M0","shape":[3],"data_offsets":[0,3]}})", "012")), "no error")
      << "a type that nobody asks for";
}

TEST(Safetensors, DamagedFilesAreRefusedWithTheReason) {
  EXPECT_THAT(error_of(""), HasSubstr("it has 0 bytes"));
  EXPECT_THAT(error_of(std::string(8, '\xff')), HasSubstr("its header would have 18446744073709551615 bytes"));
  EXPECT_THAT(error_of(file_of(kTwo, "").substr(0, 40)), HasSubstr("truncated"));
  EXPECT_THAT(error_of(file_of("[1, 2]", "")), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of(file_of("{\"a\"", "")), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of(file_of(kTwo, "01234567")), HasSubstr("the entry 'b' should be bytes 8 to 9 of the data, which has 8"));
  EXPECT_THAT(error_of(file_of(kTwo, "0123456789")), HasSubstr("bytes 9 to 10 of the data belong to no entry"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "01")), HasSubstr("bytes 0 to 1 of the data belong to no entry"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "012")), HasSubstr("overlaps"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "01234567")), HasSubstr("the entry 'a' of F32 (3) has 8 bytes"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,0]}})", "")), HasSubstr("has 0 bytes"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}})", "")), HasSubstr("has 0 bytes"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", "")), HasSubstr("\"shape\" of the entry 'a' is no list of numbers"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}})", "")), HasSubstr("should be bytes 0"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[8,0]}})", "01234567")), HasSubstr("should be bytes 8 to 0"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":7,"shape":[0],"data_offsets":[0,0]}})", "")), HasSubstr("dtype, shape and data_offsets"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "")), HasSubstr("names 'a' twice"));
  EXPECT_THAT(error_of(file_of("{\"a\":" + std::string(50000, '['), "")), HasSubstr("lists within lists"));
}

TEST(Safetensors, WhatIsWrittenIsReadAndLiesAligned) {
  const testing::Folder folder;
  const std::vector<float> floats(100, 1.5f);
  const std::vector<uint8_t> bytes(301, 7);
  const std::vector<int64_t> longs(40, -3);
  const SafetensorsLayout layout = safetensors_layout({{"bytes", make_constant({DType::kU8, {301}}, bytes.data())},
                                                       {"floats \"quoted\"", make_constant({DType::kF32, {10, 10}}, floats.data())},
                                                       {"longs", make_constant({DType::kI64, {40}}, longs.data())},
                                                       {"none", make_constant({DType::kF16, {0, 3}}, nullptr)}});
  std::string file = layout.head;
  EXPECT_EQ(file.size() % 8, 0u);
  for (const ConstantPtr& tensor : layout.tensors) file.append(reinterpret_cast<const char*>(tensor->bytes), tensor->size);
  const Safetensors read(folder.write("m.weights", file));
  const ConstantPtr again = read.find("floats \"quoted\"", {DType::kF32, {10, 10}});
  EXPECT_EQ(again->as<float>()[99], 1.5f);
  EXPECT_NE(again->owner, nullptr) << "it aliases the file";
  EXPECT_EQ(read.find("longs", {DType::kI64, {40}})->as<int64_t>()[39], -3);
  EXPECT_EQ(read.find("bytes", {DType::kU8, {301}})->as<uint8_t>()[300], 7);
  EXPECT_EQ(read.find("none", {DType::kF16, {0, 3}})->size, 0u);
}

TEST(Safetensors, EntriesOfAnotherTypeAreRefusedByName) {
  const testing::Folder folder;
  const auto error_of_find = [&](const std::string& name, const TensorType& type) -> std::string {
    try {
      Safetensors(folder / "m.weights").find(name, type);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  folder.write("m.weights", file_of(R"({"conv.w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"t":{"dtype":"BOOL","shape":[1],"data_offsets":[8,9]},"z":{"dtype":"C64","shape":[1],"data_offsets":[9,17]}})",
                                    std::string(8, '\0') + '\x02' + std::string(8, '\0')));
  const std::string path = (folder / "m.weights").string();
  EXPECT_EQ(error_of_find("conv.w", {DType::kF32, {2}}), "no error");
  EXPECT_EQ(error_of_find("conv.v", {DType::kF32, {2}}), path + " has no entry 'conv.v'; did you mean 'conv.w'?");
  EXPECT_EQ(error_of_find("conv.w", {DType::kF32, {1, 2}}), "'conv.w' is a Tensor[(2), f32] in " + path + ", not a Tensor[(1, 2), f32]");
  EXPECT_EQ(error_of_find("conv.w", {DType::kI32, {2}}), "'conv.w' is a Tensor[(2), f32] in " + path + ", not a Tensor[(2), i32]");
  EXPECT_THAT(error_of_find("t", {DType::kBool, {1}}), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(error_of_find("z", {DType::kF64, {1}}), StartsWith("'z' is a C64 (1) in "));
}

TEST(Safetensors, UnalignedTensorsOfOthersAreCopied) {
  const testing::Folder folder;
  std::vector<float> floats(100);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i);
  std::string data = "x";
  data.append(reinterpret_cast<const char*>(floats.data()), 400);
  const Safetensors read(folder.write("m.weights", file_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"f":{"dtype":"F32","shape":[100],"data_offsets":[1,401]}})", data)));
  const ConstantPtr f = read.find("f", {DType::kF32, {100}});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(f->bytes) % 4, 0u);
  EXPECT_EQ(f->as<float>()[99], 99.0f);
}

}  // namespace
}  // namespace gantry
