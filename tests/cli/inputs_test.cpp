#include "host/cli/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <span>

#include "host/cli/npy.h"
#include "host/cli/sequence_inputs.h"
#include "host/onnx/import.h"
#include "host/onnx/tensor_file.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/support/temporary.h"
#include "tests/support/message_of.h"

namespace gantry::cli {
namespace {

using ::testing::HasSubstr;
using testing::message_if_any;
using testing::message_of;

const rpc::ElementType kF32 = *parse_type_name("f32");
const rpc::ElementType kI64 = *parse_type_name("i64");

std::vector<rpc::TensorDescription> two_inputs() {
  return {{"image", kF32, {-1, 3, 4, 4}}, {"ids", kI64, {2}}};
}

/// A file of this process's own, which goes with it.
std::string saved(const std::string& name, const HostTensor& tensor) {
  static const TemporaryFolder folder("test");
  const auto path = folder.path() / (name + ".npy");
  write_npy(path, tensor);
  return path.string();
}

TEST(Cpus, AreListsAndRanges) {
  EXPECT_EQ(parse_cpus(""), std::vector<int>());
  EXPECT_EQ(parse_cpus("3"), std::vector<int>({3}));
  EXPECT_EQ(parse_cpus("2,0"), std::vector<int>({2, 0}));
  EXPECT_EQ(parse_cpus("0-2,5"), std::vector<int>({0, 1, 2, 5}));
}

TEST(Cpus, NonsenseIsQuoted) {
  for (const char* bad :
       {"a", "1,", ",1", "-1", "1-", "3-1", "0,0", "0-2,1", "1;2", "0-99999999", "99999999999"}) {
    EXPECT_THAT(message_of([&] { parse_cpus(bad); }), HasSubstr(bad));
  }
}

TEST(Shapes, SeparatedByXOrComma) {
  const auto shapes = parse_shapes({"a=1x3x224x224", "b=2,5", "c=x=7"});
  EXPECT_EQ(shapes.at("a"), (std::vector<GivenSize>{1, 3, 224, 224}));
  EXPECT_EQ(shapes.at("b"), (std::vector<GivenSize>{2, 5}));
  EXPECT_EQ(shapes.at("c=x"), (std::vector<GivenSize>{7}));
}

TEST(Shapes, MayLeaveDimensionsOpen) {
  const auto shapes = parse_shapes({"a=1x3x?x?", "b=?"});
  EXPECT_EQ(shapes.at("a"), (std::vector<GivenSize>{1, 3, kOpenSize, kOpenSize}));
  EXPECT_EQ(shapes.at("b"), (std::vector<GivenSize>{kOpenSize}));
  for (const char* bad : {"a=??", "a=?x", "a=1?", "a=?1x2"})
    EXPECT_THAT(message_of([&] { parse_shapes({bad}); }), HasSubstr(bad));
}

TEST(Shapes, MayBeOfWhatHasNoValue) {
  EXPECT_TRUE(is_no_value(parse_shapes({"a=none"}).at("a")));
  EXPECT_FALSE(is_no_value(parse_shapes({"a=2"}).at("a")));
  for (const char* bad : {"a=nonex1", "a=None", "a=1xnone"})
    EXPECT_THAT(message_of([&] { parse_shapes({bad}); }), HasSubstr(bad));
}

TEST(Shapes, MayHaveRanges) {
  const DimRange few{1, 8}, many{2, DimRange().high};
  EXPECT_EQ(parse_shapes({"a=1..8x3x2..x?"}).at("a"), (std::vector<GivenSize>{few, 3, many, kOpenSize}));
  EXPECT_EQ(parse_sizes({"N=1..8"}).at("N"), GivenSize(few));
  for (const char* bad : {"a=1.8", "a=1...8", "a=..8", "a=8..1", "a=1..8..9", "a=1..?", "a=1..-2"})
    EXPECT_THAT(message_of([&] { parse_shapes({bad}); }), HasSubstr(bad));
  for (const char* bad : {"N=8..1", "N=..", "N=?", "N=1..x"})
    EXPECT_THAT(message_of([&] { parse_sizes({bad}); }), HasSubstr(bad));
  for (const char* bad : {"a=8..1", "a=..8", "a=3x..8"})
    EXPECT_THAT(message_of([&] { parse_shapes({bad}); }), HasSubstr("a range goes from the smallest size"));
}

TEST(Specializations, AreSizesOfOneOrMoreDimensions) {
  using Sizes = std::map<std::string, int64_t>;
  EXPECT_EQ(parse_specializations({"N=1", "N=1,S=128"}), (std::vector<Sizes>{{{"N", 1}}, {{"N", 1}, {"S", 128}}}));
  for (const char* bad : {"N", "N=", "=1", "N=1,", ",N=1", "N=1..8", "N=?", "N=-1", "N=1,N=2"})
    EXPECT_THAT(message_of([&] { parse_specializations({bad}); }), HasSubstr(bad));
  EXPECT_THAT(message_of([] { parse_specializations({"N=1", "N=1"}); }), HasSubstr("already"));
}

TEST(Sizes, AreNamed) {
  EXPECT_EQ(parse_sizes({"N=4", "p2o.Dim.0=7"}),
            (std::map<std::string, GivenSize>{{"N", 4}, {"p2o.Dim.0", 7}}));
  for (const char* bad : {"N", "=4", "N=", "N=-1", "N=4x5", "N=99999999999999999999"})
    EXPECT_THAT(message_of([&] { parse_sizes({bad}); }), HasSubstr(bad));
  EXPECT_THAT(message_of([] { parse_sizes({"N=1", "N=1"}); }), HasSubstr("already"));
}

TEST(Shapes, NonsenseIsQuoted) {
  for (const char* bad :
       {"a", "=1x2", "a=1x", "a=x1", "a=1xx2", "a=-1x2", "a=1x2q", "a=99999999999999999999"}) {
    EXPECT_THAT(message_of([&] { parse_shapes({bad}); }), HasSubstr(bad));
  }
  EXPECT_THAT(message_of([] { parse_shapes({"a=1", "a=2"}); }), HasSubstr("already"));
}

TEST(Inputs, ThatAreMadeUpTakeTheSizesChosenAndSaySo) {
  InputChoice choice;
  choice.seed = 5;
  choice.choose = [](const std::vector<std::vector<int64_t>>& shapes) {
    EXPECT_EQ(shapes, (std::vector<std::vector<int64_t>>{{-1, 3, 4, 4}, {2}}));
    return std::vector<ChosenShape>{{{6, 3, 4, 4}, {{"N", 0, "batch", 6, "why"}}}, {{2}, {}}};
  };
  const auto inputs = gather_inputs(two_inputs(), choice);
  EXPECT_EQ(inputs.at(0).tensor.shape, (std::vector<int64_t>{6, 3, 4, 4}));
  EXPECT_EQ(inputs[0].source, "random, seed 5; chosen: batch 6");
  EXPECT_EQ(inputs[0].chosen.at(0).reason, "why");
  EXPECT_EQ(inputs.at(1).source, "random, seed 5");
}

TEST(Inputs, WithAShapeAreNotChosen) {
  InputChoice choice;
  choice.seed = 5;
  choice.shapes["image"] = {2, -1, 4, 4};
  choice.choose = [](const auto&) -> std::vector<ChosenShape> { throw std::logic_error("nothing is open"); };
  EXPECT_EQ(gather_inputs(two_inputs(), choice).at(0).tensor.shape, (std::vector<int64_t>{2, 3, 4, 4}));
}

TEST(Inputs, MissingOnesAreAllNamedWithTheirTypes) {
  const std::string message = message_of([] { gather_inputs(two_inputs(), {}); });
  EXPECT_THAT(message, HasSubstr("'image' (f32 ?x3x4x4)"));
  EXPECT_THAT(message, HasSubstr("'ids' (i64 2)"));
}

TEST(Inputs, MadeUpOnesTakeOneForSymbolicDimensionsUnlessToldOtherwise) {
  EXPECT_EQ(gather_inputs(two_inputs(), {{}, {}, 0})[0].tensor.shape, (std::vector<int64_t>{1, 3, 4, 4}));
  const InputChoice choice{{}, {{"image", {5, 3, 4, 4}}}, 0};
  EXPECT_EQ(gather_inputs(two_inputs(), choice)[0].tensor.shape, (std::vector<int64_t>{5, 3, 4, 4}));
}

TEST(Inputs, FilesAreCheckedAgainstTheModel) {
  const std::string wrong_type = saved("type", random_tensor(kI64, {1, 3, 4, 4}, 0, "x"));
  const std::string wrong_shape = saved("shape", random_tensor(kF32, {1, 3, 4, 5}, 0, "x"));
  const std::string good = saved("good", random_tensor(kF32, {2, 3, 4, 4}, 0, "x"));
  auto gather = [](const std::string& input) {
    return message_if_any([&] { gather_inputs(two_inputs(), {{input}, {}, 0}); });
  };
  EXPECT_THAT(gather("image=" + wrong_type), HasSubstr("holds i64, but input 'image' takes f32"));
  EXPECT_THAT(gather("image=" + wrong_shape),
              HasSubstr("has shape 1x3x4x5, but input 'image' takes ?x3x4x4"));
  EXPECT_THAT(gather("imgae=" + good), HasSubstr("did you mean 'image'?"));
  EXPECT_THAT(gather(good), HasSubstr("image, ids"));
  EXPECT_EQ(gather("image=" + good), "no error");
  EXPECT_THAT(message_of([&] {
                gather_inputs(two_inputs(), {{"image=" + good, "image=" + good}, {}, 0});
              }),
              HasSubstr("already"));
}

// --- sequences

/// A module's inputs where the model's are a sequence s of matrices and a vector x.
std::vector<rpc::TensorDescription> with_sequence() {
  return {{"s[]", kF32, {-1}}, {"s[].dims", kI64, {-1, 3}}, {"x", kF32, {2}}};
}
HostTensor matrix(std::vector<int64_t> shape, const std::vector<float>& values) {
  HostTensor tensor{kF32, std::move(shape), {}};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}
std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(tensor.shape); ++i) values.push_back(element_as_double(tensor, i));
  return values;
}

TEST(SequenceInputs, ArePutTogetherOfTheirTensors) {
  const std::string x = saved("s_x", matrix({2}, {8, 9}));
  const std::string first = saved("s0", matrix({1, 2}, {1, 2})), second = saved("s1", matrix({2, 1}, {3, 4}));
  const auto inputs = gather_inputs(with_sequence(), {{"s[1]=" + second, "x=" + x, "s[0]=" + first}, {}, {}});
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_EQ(values_of(inputs[0].tensor), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(inputs[1].tensor.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(values_of(inputs[1].tensor), (std::vector<double>{2, 1, 2, 2, 2, 1}));
  EXPECT_EQ(inputs[0].source, first + ", " + second);
  EXPECT_EQ(values_of(inputs[2].tensor), (std::vector<double>{8, 9}));
}

TEST(SequenceInputs, TakeTensorsThatNameTheirPlace) {
  const TemporaryFolder folder("test");
  const auto written = [&](const std::string& name, float value) {
    const auto path = folder.path() / (name + ".pb");
    write_file(path, format_tensor_proto(name, *make_constant({DType::kF32, {1, 1}}, &value)));
    return path.string();
  };
  const std::string x = saved("p_x", matrix({2}, {8, 9}));
  const std::string second = written("s[1]", 2), first = written("s[0]", 1);
  const auto inputs = gather_inputs(with_sequence(), {{second, "x=" + x, first}, {}, {}});
  EXPECT_EQ(values_of(inputs.at(0).tensor), (std::vector<double>{1, 2}));
  EXPECT_EQ(values_of(inputs.at(1).tensor), (std::vector<double>{2, 1, 1, 2, 1, 1}));
}

TEST(SequenceInputs, AreMadeUpInTheShapesGiven) {
  const auto inputs = gather_inputs(with_sequence(), {{}, {{"s[0]", {2, 3}}, {"s[1]", {0, 4}}}, 0});
  EXPECT_EQ(inputs.at(0).tensor.shape, (std::vector<int64_t>{6}));
  EXPECT_EQ(values_of(inputs.at(1).tensor), (std::vector<double>{2, 2, 3, 2, 0, 4}));
  EXPECT_TRUE(is_tensor_of_sequence(with_sequence(), "s[12]"));
  for (const char* other : {"s", "s[]", "s[x]", "s[1", "t[1]", "s[-1]", "x[0]"})
    EXPECT_FALSE(is_tensor_of_sequence(with_sequence(), other)) << other;
}

TEST(SequenceInputs, MayBeGivenAsTheModuleHasThem) {
  const std::string elements = saved("elements", matrix({2}, {1, 2}));
  HostTensor row{kI64, {1, 3}, {}};
  const std::vector<int64_t> numbers{2, 1, 2};
  const auto bytes = std::as_bytes(std::span(numbers));
  row.bytes.assign(bytes.begin(), bytes.end());
  const auto inputs =
      gather_inputs(with_sequence(), {{"s[]=" + elements, "s[].dims=" + saved("row", row)}, {}, 0});
  EXPECT_EQ(values_of(inputs.at(0).tensor), (std::vector<double>{1, 2}));
  EXPECT_EQ(values_of(inputs.at(1).tensor), (std::vector<double>{2, 1, 2}));
}

TEST(SequenceInputs, SayWhatIsMissingOrWrong) {
  const std::string good = saved("matrix", matrix({1, 2}, {1, 2})),
                    vector = saved("s_vector", matrix({2}, {1, 2}));
  const auto told = [](const InputChoice& choice) {
    return message_of([&] { gather_inputs(with_sequence(), choice); });
  };
  EXPECT_THAT(told({{}, {}, {}}),
              HasSubstr("input 's' is a sequence: say which tensors it has, with --input s[0]=FILE"));
  EXPECT_THAT(told({{}, {}, 0}), HasSubstr("--shape s[0]=?x?"));
  EXPECT_THAT(told({{"s[1]=" + good}, {}, 0}), HasSubstr("no data for input 's[0]'"));
  EXPECT_THAT(told({{"s[0]=" + vector}, {}, 0}), HasSubstr("input 's[0]' takes ?x?"));
  EXPECT_THAT(told({{}, {{"s[0]", {2}}}, 0}), HasSubstr("--shape s[0]=2"));
  EXPECT_THAT(told({{"s[0]=" + good, "s[]=" + vector}, {}, 0}), HasSubstr("leave out one of them"));
}

TEST(Inputs, RandomDataIsSeededAndSafe) {
  const HostTensor a = random_tensor(kF32, {1000}, 3, "x");
  EXPECT_EQ(a.bytes, random_tensor(kF32, {1000}, 3, "x").bytes);
  EXPECT_NE(a.bytes, random_tensor(kF32, {1000}, 4, "x").bytes);
  for (const char* name :
       {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool", "i4", "u4", "i2", "u2"}) {
    const TensorSummary s = summarise(random_tensor(*parse_type_name(name), {100}, 0, "x"));
    EXPECT_EQ(s.min, 0) << name;
    EXPECT_EQ(s.max, 1) << name;
  }
  for (const char* name : {"f16", "bf16", "f32", "f64"}) {
    const HostTensor tensor = random_tensor(*parse_type_name(name), {4000}, 0, "x");
    double squares = 0;
    for (int64_t i = 0; i < 4000; ++i) squares += std::pow(element_as_double(tensor, i), 2);
    EXPECT_NEAR(squares / 4000, 1, 0.08) << name;
  }
  for (const char* name :
       {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn"}) {
    const HostTensor tensor = random_tensor(*parse_type_name(name), {4000}, 0, "x");
    EXPECT_EQ(summarise(tensor).non_finite, 0) << name;
    EXPECT_NEAR(summarise(tensor).mean, 0, 0.1) << name;
    double squares = 0;
    for (int64_t i = 0; i < 4000; ++i) squares += std::pow(element_as_double(tensor, i), 2);
    EXPECT_NEAR(squares / 4000, 1, 0.15) << name;  // f4e2m1fn has steps of 1/2
  }
  const TensorSummary exponents = summarise(random_tensor(*parse_type_name("f8e8m0fnu"), {4000}, 0, "x"));
  EXPECT_EQ(exponents.non_finite, 0);
  EXPECT_GE(exponents.min, 0x1p-8);
  EXPECT_EQ(exponents.max, 4);
}

TEST(Outputs, AreAssignedByName) {
  const std::vector<rpc::TensorDescription> one = {{"logits", kF32, {1, 10}}};
  EXPECT_EQ(assign_outputs(one, {"a.npy"}), std::vector<std::string>{"a.npy"});
  EXPECT_EQ(assign_outputs(two_inputs(), {"ids=b.npy"}), (std::vector<std::string>{"", "b.npy"}));
  EXPECT_THAT(message_of([&] { assign_outputs(one, {"logit=a.npy"}); }), HasSubstr("did you mean 'logits'?"));
  EXPECT_THAT(message_of([&] { assign_outputs(two_inputs(), {"a.npy"}); }), HasSubstr("image, ids"));
}

}  // namespace
}  // namespace gantry::cli
