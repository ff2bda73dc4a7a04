// Images as inputs, beside what Pillow and NumPy make of the same files: testdata/make_references.py.
#include "host/cli/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "host/cli/input_kind.h"
#include "host/cli/npz.h"
#include "host/support/error.h"
#include "tests/support/message_of.h"

namespace gantry::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

const std::string kData = GANTRY_CLI_TESTDATA;

HostTensor reference(const std::string& name) {
  static const NpzFile file(kData + "/references.npz");
  return file.read(name, [](const auto&, const auto&) {});
}

Image picture(const std::string& name = "picture.png") {
  return decode_image(read_bytes(kData + "/" + name, 1 << 20), name);
}

rpc::TensorDescription input(const std::string& type, std::vector<int64_t> shape) {
  return {"image", *parse_type_name(type), std::move(shape)};
}

void expect_near(const HostTensor& actual, const HostTensor& expected, double tolerance) {
  ASSERT_EQ(actual.shape, expected.shape);
  double worst = 0;
  for (int64_t i = 0; i < element_count(actual.shape); ++i) {
    worst = std::max(worst, std::fabs(element_as_double(actual, i) - element_as_double(expected, i)));
  }
  EXPECT_LE(worst, tolerance);
}

/// 2 x 1 pixels: (10, 20, 30), (40, 50, 60).
Image two_pixels() {
  return {2, 1, 3, {10, 20, 30, 40, 50, 60}};
}

std::vector<double> values(const HostTensor& tensor) {
  std::vector<double> all;
  for (int64_t i = 0; i < element_count(tensor.shape); ++i) all.push_back(element_as_double(tensor, i));
  return all;
}

std::vector<double> values_with(const std::string& toml, const rpc::TensorDescription& wanted) {
  return values(image_tensor(two_pixels(), parse_preprocess(toml, "p.toml"), wanted, "a.png"));
}

TEST(Preprocess, ImagenetIsWhatTorchvisionMakesOfPillowsImages) {
  const Preprocess imagenet = find_preprocess("imagenet");
  expect_near(image_tensor(picture(), imagenet, input("f32", {1, 3, 32, 32}), "a"), reference("imagenet 32"),
              1e-6);
  expect_near(image_tensor(picture("tall.png"), imagenet, input("f32", {-1, 3, 32, 32}), "a"),
              reference("imagenet 32 tall"), 1e-6);
  expect_near(image_tensor(picture(), imagenet, input("f16", {1, 3, 32, 32}), "a"), reference("imagenet 32"),
              2e-3);
}

TEST(Preprocess, ImagenetTakes224PixelsWhereTheModelLeavesThemOpen) {
  const auto tensor =
      image_tensor(picture(), find_preprocess("imagenet"), input("f32", {-1, 3, -1, -1}), "a");
  EXPECT_THAT(tensor.shape, ElementsAre(1, 3, 224, 224));
}

TEST(Preprocess, PaddingKeepsTheWholeImageInTheMiddle) {
  const Preprocess padded =
      parse_preprocess("resize = \"pad\"\npad_value = 114\ninterpolation = \"nearest\"", "p");
  const HostTensor tensor = image_tensor(picture(), padded, input("u8", {20, 40, 3}), "a");
  const HostTensor expected = reference("letterbox 40x20");
  EXPECT_EQ(tensor.shape, expected.shape);
  EXPECT_EQ(tensor.bytes, expected.bytes);
}

TEST(Preprocess, StretchingIsOneResize) {
  const Preprocess stretched = parse_preprocess("resize = \"stretch\"", "p");
  EXPECT_EQ(image_tensor(picture(), stretched, input("u8", {1, 17, 24, 3}), "a").bytes,
            reference("bilinear 24x17").bytes);
}

TEST(Preprocess, LayoutFollowsTheModelsChannels) {
  EXPECT_THAT(values_with("", input("f32", {1, 3, 1, 2})), ElementsAre(10, 40, 20, 50, 30, 60));
  EXPECT_THAT(values_with("", input("f32", {-1, -1, -1, 3})), ElementsAre(10, 20, 30, 40, 50, 60));
  EXPECT_THAT(values_with("layout = \"nhwc\"", input("f32", {1, 1, 2, 3})),
              ElementsAre(10, 20, 30, 40, 50, 60));
}

TEST(Preprocess, ColoursScaleMeanAndDeviationAreOfTheModelsChannels) {
  EXPECT_THAT(values_with("colour = \"bgr\"", input("i8", {3, 1, 2})), ElementsAre(30, 60, 20, 50, 10, 40));
  EXPECT_THAT(values_with("scale = 0.5\nmean = [1, 2, 3]\nstd = 2", input("f64", {3, 1, 2})),
              ElementsAre(2, 9.5, 4, 11.5, 6, 13.5));
  EXPECT_THAT(values_with("scale = \"1/10\"\nmean = 3", input("u8", {3, 1, 2})),
              ElementsAre(0, 1, 0, 2, 0, 3));
  EXPECT_THAT(values_with("", input("f32", {1, 2})), ElementsAre(18, 48));  // one channel: luma
}

TEST(Preprocess, PresetsCanBeTheStart) {
  const Preprocess p = parse_preprocess("preset = \"imagenet\"\nsize = [192, 160]\nshorter_side = 200", "p");
  EXPECT_EQ(p.size->height, 192);
  EXPECT_EQ(p.size->width, 160);
  EXPECT_EQ(p.shorter_side, 200);
  EXPECT_THAT(p.mean, ElementsAre(0.485, 0.456, 0.406));
}

TEST(Preprocess, NonsenseIsRefusedWithItsLine) {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"scale = ", "p.toml:1: not valid TOML"},
           {"\nsclae = 1", "p.toml:2: 'sclae' is no key of a preprocessing; did you mean 'scale'?"},
           {"layout = \"hwc\"", "one of \"nchw\", \"nhwc\""},
           {"layout = 1", "must be a string"},
           {"size = 0", "whole numbers from 1"},
           {"size = [1, 2, 3]", "takes 1 to 2 numbers"},
           {"size = 1.5", "whole numbers"},
           {"std = [1, 0, 1]", "cannot be 0"},
           {"mean = [1, 2]", "has 2 numbers"},
           {"mean = [\"a\"]", "must be a number"},
           {"mean = nan", "must be a number"},
           {"scale = \"1/0\"", "quotient like"},
           {"scale = \"1/255x\"", "quotient like"},
           {"antialias = 1", "true or false"},
           {"shorter_side = 5", "is for resize = \"crop\""},
           {"resize = \"pad\"\npad_value = 256", "from 0 to 255"},
           {"preset = \"imagnet\"", "none of imagenet, yolo, none"}}) {
    EXPECT_THAT(message_of([&, &text = text] { parse_preprocess(text, "p.toml"); }), HasSubstr(part)) << text;
  }
  EXPECT_THAT(message_of([] { find_preprocess("imagnet"); }), HasSubstr("did you mean 'imagenet'?"));
  EXPECT_THAT(message_of([] { find_preprocess("absent.toml"); }), HasSubstr("there is no such file"));
}

TEST(Preprocess, WhatDoesNotFitTheModelIsSaid) {
  const auto message = [](const std::string& toml, const rpc::TensorDescription& wanted) {
    return message_of([&] { image_tensor(two_pixels(), parse_preprocess(toml, "p.toml"), wanted, "a.png"); });
  };
  EXPECT_THAT(message("", input("f32", {1, 3, 4, 4})),
              HasSubstr("is 2 x 1 pixels, but the model takes 4 x 4"));
  EXPECT_THAT(message("", input("f32", {1, 4, 1, 2})), HasSubstr("no axis has the 1 or 3 values"));
  EXPECT_THAT(message("", input("f32", {1, 3, 1, 3})), HasSubstr("say layout"));
  EXPECT_THAT(message("", input("f32", {1, -1, -1, -1})), HasSubstr("say layout"));
  EXPECT_THAT(message("", input("f32", {8, 3, 1, 2})), HasSubstr("one image is a batch of 1"));
  EXPECT_THAT(message("", input("i64", {1, 3, 1, 2})), HasSubstr("images become f32"));
  EXPECT_THAT(message("", input("f32", {2})), HasSubstr("rank 4"));
  EXPECT_THAT(message("colour = \"gray\"", input("f32", {1, 3, 1, 2})), HasSubstr("colour = \"rgb\""));
  EXPECT_THAT(message("mean = [1, 2, 3]", input("f32", {1, 2})), HasSubstr("mean has 3 numbers"));
  EXPECT_THAT(message("resize = \"stretch\"", input("f32", {1, 3, -1, -1})), HasSubstr("say size"));
  EXPECT_THAT(message("resize = \"crop\"\nshorter_side = 3", input("f32", {1, 3, 4, 4})),
              HasSubstr("give a larger shorter_side"));
}

}  // namespace
}  // namespace gantry::cli
