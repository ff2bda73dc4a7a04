#include "host/cli/tensor_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "host/cli/input_kind.h"
#include "host/cli/npy.h"
#include "host/cli/npz.h"
#include "host/onnx/tensor_data.h"
#include "host/onnx/tensor_file.h"
#include "host/support/error.h"
#include "tests/cli/outcome.h"
#include "tests/support/message_of.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
using gantry::testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_if_any;
using testing::message_of;

const std::string kData = GANTRY_CLI_TESTDATA;
const FileOption kInput{.name = "--input", .kind = "input", .images = true};

template <typename T>
HostTensor tensor_of(const std::string& type, std::vector<int64_t> shape, const std::vector<T>& values) {
  HostTensor tensor{*parse_type_name(type), std::move(shape), {}};
  tensor.bytes.resize(values.size() * sizeof(T));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

std::vector<double> values(const HostTensor& tensor) {
  std::vector<double> all;
  for (int64_t i = 0; i < element_count(tensor.shape); ++i) all.push_back(element_as_double(tensor, i));
  return all;
}

rpc::TensorDescription wanted(const std::string& name, const std::string& type, std::vector<int64_t> shape) {
  return {name, *parse_type_name(type), std::move(shape)};
}

class TensorFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("gantry_tensor_files_{}", ::getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return path(name);
  }
  std::string write(const std::string& name, const onnx::TensorProto& tensor) const {
    return write(name, tensor.SerializeAsString());
  }

  fs::path folder_;
};

onnx::TensorProto floats(const std::string& name, const std::vector<float>& values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const float value : values) tensor.add_float_data(value);
  return tensor;
}

std::vector<rpc::TensorDescription> image_and_ids() {
  return {wanted("image", "f32", {2, 3}), wanted("ids", "i64", {2, -1})};
}

TEST_F(TensorFiles, ArchivesOfNumpyGiveEveryInputOfTheirNames) {
  const auto given = read_tensor_files(image_and_ids(), {kData + "/stored.npz"}, kInput);
  EXPECT_THAT(values(given[0]->tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values(given[1]->tensor), ElementsAre(0, 1, 2, 3, 4, 5));  // Fortran order in the file
  EXPECT_EQ(given[1]->source, kData + "/stored.npz:ids");
}

TEST_F(TensorFiles, ArchivesWithoutNamesAreTakenInOrder) {
  const std::vector<rpc::TensorDescription> model = {wanted("a", "f32", {4}), wanted("b", "i64", {})};
  const auto given = read_tensor_files(model, {kData + "/positional.npz"}, kInput);
  EXPECT_THAT(values(given[0]->tensor), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(values(given[1]->tensor), ElementsAre(7));
}

TEST_F(TensorFiles, OneArrayOfAnArchiveIsPicked) {
  const std::vector<rpc::TensorDescription> model = {wanted("a", "f32", {4}), wanted("b", "i64", {})};
  const std::string file = kData + "/positional.npz";
  const auto given = read_tensor_files(model, {"a=" + file + ":arr_0", "b=" + file + ":arr_1.npy"}, kInput);
  EXPECT_THAT(values(given[0]->tensor), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(values(given[1]->tensor), ElementsAre(7));
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {"a=" + file + ":arr_2"}, kInput); }),
              HasSubstr("has no array 'arr_2'; did you mean"));
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {"a=" + file}, kInput); }),
              HasSubstr("Its arrays: arr_0, arr_1"));
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {"a=" + file + ":arr_1"}, kInput); }),
              HasSubstr("positional.npz:arr_1: holds i64, but input 'a' takes f32"));
}

TEST_F(TensorFiles, WhatNamesAnInputGoesBeforeAnArchive) {
  write_npy(path("image.npy"), tensor_of<float>("f32", {2, 3}, {9, 9, 9, 9, 9, 9}));
  for (const auto& order : {std::vector{kData + "/stored.npz", "image=" + path("image.npy")},
                            std::vector{"image=" + path("image.npy"), kData + "/stored.npz"}}) {
    const auto given = read_tensor_files(image_and_ids(), order, kInput);
    EXPECT_THAT(values(given[0]->tensor), ElementsAre(9, 9, 9, 9, 9, 9));
    EXPECT_EQ(given[1]->source, kData + "/stored.npz:ids");
  }
}

TEST_F(TensorFiles, ArchivesAreWrittenAndReadBack) {
  const HostTensor a = tensor_of<float>("f32", {2}, {1, 2}), b = tensor_of<int64_t>("i64", {}, {5});
  write_npz(path("all.npz"), {{"a", &a}, {"dir/b:0", &b}});
  const NpzFile file(path("all.npz"));
  EXPECT_THAT(file.members(), ElementsAre("a", "dir/b:0"));
  EXPECT_THAT(values(file.read("dir/b:0", [](const auto&, const auto&) {})), ElementsAre(5));
  EXPECT_THAT(message_of([&] {
                write_npz(path("two.npz"), {{"a", &a}, {"a", &b}});
              }),
              HasSubstr("two arrays"));
  EXPECT_FALSE(fs::exists(path("two.npz")));
}

TEST_F(TensorFiles, ArraysAreRefusedBeforeTheyAreUnpacked) {
  const NpzFile file(kData + "/stored.npz");
  EXPECT_THAT(message_of([&] { file.read("image", [](const auto&, const auto&) { user_error("no"); }); }),
              "no");
}

TEST_F(TensorFiles, SizesThatContradictEachOtherAreRefused) {
  std::string bytes = contents(kData + "/positional.npz");
  // The central directory's first entry: 24 bytes on stands what it unpacks to.
  const size_t entry = bytes.find(std::string("PK\x01\x02", 4));
  ASSERT_NE(entry, std::string::npos);
  const uint32_t huge = 0x7fffffff;
  std::memcpy(bytes.data() + entry + 24, &huge, sizeof(huge));
  const std::string bomb = write("bomb.npz", bytes);
  EXPECT_THAT(
      message_of([&] { read_tensor_files({wanted("a", "f32", {-1})}, {"a=" + bomb + ":arr_0"}, kInput); }),
      HasSubstr("bomb.npz:arr_0"));
}

TEST_F(TensorFiles, DamagedArchivesGiveErrors) {
  std::mt19937 random(8);
  for (const char* name : {"/stored.npz", "/positional.npz"}) {
    const std::string bytes = contents(kData + name);
    for (int i = 0; i < 400; ++i) {
      std::string damaged = i % 2 == 0 ? bytes : bytes.substr(0, 4 + random() % (bytes.size() - 4));
      damaged[random() % damaged.size()] = static_cast<char>(random());
      const std::string file = write("damaged.npz", damaged);
      try {
        const NpzFile archive(file);
        for (const std::string& member : archive.members())
          archive.read(member, [](const auto&, const auto&) {});
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
        EXPECT_THAT(error.what(), HasSubstr("damaged.npz"));
      }
    }
  }
}

TEST_F(TensorFiles, TensorsOfOnnxAreReadFromTypedFieldsAndRawData) {
  using T = onnx::TensorProto;
  onnx::TensorProto half;
  half.set_data_type(T::FLOAT16);
  half.add_dims(2);
  half.add_int32_data(0x3c00);
  half.add_int32_data(0xc000);
  onnx::TensorProto raw;
  raw.set_data_type(T::INT16);
  raw.add_dims(1);
  raw.add_dims(2);
  raw.set_raw_data(std::string("\x01\x00\xff\xff", 4));
  onnx::TensorProto unsigned_;
  unsigned_.set_data_type(T::UINT32);
  unsigned_.add_uint64_data(4000000000u);
  write("half.pb", half);
  write("raw.pb", raw);
  write("unsigned.pb", unsigned_);
  const std::vector<rpc::TensorDescription> model = {wanted("h", "f16", {2}), wanted("r", "i16", {1, 2}),
                                                     wanted("u", "u32", {})};
  const auto given = read_tensor_files(
      model, {"h=" + path("half.pb"), "r=" + path("raw.pb"), "u=" + path("unsigned.pb")}, kInput);
  EXPECT_THAT(values(given[0]->tensor), ElementsAre(1, -2));
  EXPECT_THAT(values(given[1]->tensor), ElementsAre(1, -1));
  EXPECT_THAT(values(given[2]->tensor), ElementsAre(4000000000.0));
}

TEST_F(TensorFiles, TensorsOfOnnxSayWhichInputTheyAre) {
  const std::vector<rpc::TensorDescription> model = {wanted("a", "f32", {2}), wanted("b", "f32", {2})};
  write("x.pb", floats("b", {3, 4}));
  const auto given = read_tensor_files(model, {path("x.pb")}, kInput);
  EXPECT_FALSE(given[0]);
  EXPECT_THAT(values(given[1]->tensor), ElementsAre(3, 4));
  write("y.pb", floats("z", {3, 4}));
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {path("y.pb")}, kInput); }),
              HasSubstr("the model has 2 inputs; say which: --input NAME="));
}

TEST_F(TensorFiles, TensorsOfOnnxOfEveryElementTypeAreWrittenAndReadBack) {
  const char* bytes = "\1\0\1\1\0\0\1\1\0\1\1\0\1\0\0\1";
  for (const char* name : {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"}) {
    const DType dtype = *parse_dtype(name);
    const int64_t count = 16 / byte_width(dtype);
    const ConstantPtr constant = make_constant({dtype, {count, 1}}, bytes);
    std::ofstream(path("t.pb"), std::ios::binary) << format_tensor_proto("x", *constant);
    const TensorFile back = read_tensor_file(path("t.pb"));
    EXPECT_EQ(back.name, "x");
    EXPECT_EQ(back.data->type, constant->type);
    EXPECT_EQ(std::memcmp(back.data->bytes, bytes, 16), 0) << name;
    // As ONNX's own reader takes it.
    onnx::TensorProto proto;
    ASSERT_TRUE(proto.ParseFromString(format_tensor_proto("x", *constant)));
    EXPECT_EQ(dtype_of(proto.data_type(), "x"), dtype);
    EXPECT_EQ(proto.raw_data(), std::string(bytes, 16));
    EXPECT_THAT(proto.dims(), ElementsAre(count, 1));
  }
}

TEST_F(TensorFiles, TensorsOfOnnxThatAreCutOrAlteredGiveErrorsThatNameTheFile) {
  onnx::TensorProto typed = floats("a", {1, 2, 3});
  typed.clear_name();  // which would come last
  onnx::TensorProto raw = floats("a", {1, 2, 3});
  raw.set_raw_data(std::string(12, '\1'));
  raw.clear_float_data();
  for (const std::string& whole : {typed.SerializeAsString(), raw.SerializeAsString()}) {
    const auto read = [&](const std::string& bytes) {
      std::ofstream(path("a.pb"), std::ios::binary) << bytes;
      return message_if_any([&] { read_tensor_file(path("a.pb")); });
    };
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_THAT(read(whole.substr(0, size)), HasSubstr("a.pb")) << size;
    for (size_t at = 0; at < whole.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string altered = whole;
        altered[at] = static_cast<char>(altered[at] ^ (1 << bit));
        const std::string message = read(altered);
        if (message != "no error") {
          EXPECT_THAT(message, HasSubstr("a.pb"));
        }
      }
    }
  }
}

TEST_F(TensorFiles, TensorsOfOnnxWhoseDataContradictTheirShapeAreRefused) {
  onnx::TensorProto tensor = floats("a", {1, 2, 3});
  tensor.set_dims(0, 1000000000000);
  write("a.pb", tensor);
  EXPECT_THAT(message_of([&] { read_tensor_files({wanted("a", "f32", {-1})}, {path("a.pb")}, kInput); }),
              HasSubstr("a.pb has 3 elements, but its shape"));
  tensor.set_dims(0, -3);
  write("a.pb", tensor);
  EXPECT_THAT(message_of([&] { read_tensor_files({wanted("a", "f32", {-1})}, {path("a.pb")}, kInput); }),
              HasSubstr("negative dimension"));
}

TEST_F(TensorFiles, DataSetsGiveInputsInTheirOrder) {
  const std::vector<rpc::TensorDescription> model = {wanted("a", "f32", {2}), wanted("b", "f32", {1})};
  write("set/input_0.pb", floats("", {1, 2}));
  write("set/input_1.pb", floats("", {3}));
  write("set/output_0.pb", floats("", {4}));
  const auto given = read_tensor_files(model, {path("set")}, kInput);
  EXPECT_THAT(values(given[0]->tensor), ElementsAre(1, 2));
  EXPECT_THAT(values(given[1]->tensor), ElementsAre(3));
  const FileOption expect{.name = "--expect", .kind = "output", .exact_type = false};
  EXPECT_THAT(values(read_tensor_files({wanted("y", "f32", {1})}, {path("set")}, expect)[0]->tensor),
              ElementsAre(4));
  EXPECT_THAT(message_of([&] { read_tensor_files({wanted("a", "f32", {2})}, {path("set")}, kInput); }),
              HasSubstr("has a file input_1.pb, but the model has 1 input"));
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {"a=" + path("set")}, kInput); }),
              HasSubstr("leave out a="));
  fs::create_directories(path("model/test_data_set_0"));
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {path("model")}, kInput); }),
              HasSubstr("model/test_data_set_0'?"));
}

TEST_F(TensorFiles, ImagesWantAPreprocessing) {
  const std::vector<rpc::TensorDescription> model = {wanted("image", "u8", {1, 43, 61, 3})};
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {kData + "/picture.jpg"}, kInput); }),
              HasSubstr("is an image; say how it becomes input 'image' (u8 1x43x61x3): --preprocess"));
  FileOption option = kInput;
  option.preprocess = {"none"};
  const auto given = read_tensor_files(model, {kData + "/picture.jpg"}, option);
  EXPECT_EQ(given[0]->source, kData + "/picture.jpg, preprocessing none");
  EXPECT_EQ(given[0]->tensor.bytes.size(), 43u * 61u * 3u);
  option.preprocess = {"image=none"};
  EXPECT_EQ(read_tensor_files(model, {kData + "/picture.png"}, option)[0]->tensor.bytes.size(),
            43u * 61u * 3u);
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {}, option); }), HasSubstr("no image is given"));
  const FileOption expect{.name = "--expect", .kind = "output"};
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {kData + "/picture.png"}, expect); }),
              HasSubstr("give the tensor as .npy"));
}

TEST_F(TensorFiles, ContentsDecideNotNames) {
  const std::vector<rpc::TensorDescription> model = {wanted("x", "f32", {2})};
  write_npy(path("x.png"), tensor_of<float>("f32", {2}, {1, 2}));
  EXPECT_THAT(values(read_tensor_files(model, {path("x.png")}, kInput)[0]->tensor), ElementsAre(1, 2));
  write("x.npy", floats("x", {5, 6}));
  EXPECT_THAT(values(read_tensor_files(model, {path("x.npy")}, kInput)[0]->tensor), ElementsAre(5, 6));
  for (const auto& [name, bytes] : {std::pair{"text.npy", "hello there"}, {"empty.npy", ""}}) {
    write(name, std::string(bytes));
    EXPECT_THAT(message_of([&, &name = name] { read_tensor_files(model, {path(name)}, kInput); }),
                HasSubstr("data come from .npy or .npz files"));
  }
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {path("absent.npy")}, kInput); }),
              HasSubstr("there is no such file"));
  EXPECT_THAT(message_of([&] { read_tensor_files(model, {path("x.png") + ":a"}, kInput); }),
              HasSubstr("only .npz files have members"));
}

TEST_F(TensorFiles, ModelsAreNoTensors) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name("a producer");
  model.mutable_graph()->set_name("graph");
  const std::string file = write("model.onnx", model.SerializeAsString());
  EXPECT_THAT(message_of([&] { kind_of_input(file); }), HasSubstr("holds none of the kinds that are read"));
}

}  // namespace
}  // namespace gantry::cli
