// Images beside what Pillow makes of the same files: testdata/make_references.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "host/cli/image_resize.h"
#include "host/cli/input_kind.h"
#include "host/cli/npz.h"
#include "host/support/error.h"
#include "tests/support/message_of.h"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

const std::string kData = GANTRY_CLI_TESTDATA;

HostTensor reference(const std::string& name) {
  static const NpzFile file(kData + "/references.npz");
  return file.read(name, [](const auto&, const auto&) {});
}

std::vector<std::byte> bytes_of(const std::string& name) {
  return read_bytes(kData + "/" + name, 1 << 20);
}

Image decode(const std::string& name, std::span<const std::byte> bytes) {
  return decode_image(bytes, name);
}
Image decode(const std::string& name) {
  return decode(name, bytes_of(name));
}

void expect_equal(const Image& image, const HostTensor& expected, const std::string& what) {
  std::vector<int64_t> shape = {image.height, image.width};
  if (image.channels == 3) shape.push_back(3);
  ASSERT_EQ(shape, expected.shape) << what;
  int worst = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    worst = std::max(worst, std::abs(image.pixels[i] - std::to_integer<int>(expected.bytes[i])));
  }
  EXPECT_EQ(worst, 0) << what;
}

TEST(Images, AreDecodedAsPillowDoes) {
  for (const char* name : {"picture.png", "picture.ppm", "gray.png", "palette.png", "alpha.png", "deep.png",
                           "picture.jpg", "progressive.jpg", "gray.jpg"}) {
    const HostTensor expected = reference(std::string("decoded ") + name);
    const Image image = decode(name);
    expect_equal(expected.shape.size() == 3 ? image : to_gray(image), expected, name);
  }
}

TEST(Images, ComeInTheFormatsThatModelsDecode) {
  const std::string text = "P3 2 1 255\n1 2 3 4 5 6", array = "\x93NUMPY";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_TRUE(begins_as_image(bytes));
  EXPECT_EQ(decode("a.ppm", bytes).pixels, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(begins_as_image(std::as_bytes(std::span(array))));
  EXPECT_THAT(message_of([&] { decode("a", std::as_bytes(std::span(array))); }), HasSubstr("a: the 6 bytes"));
}

TEST(Images, BecomeGrayAsPillowDoes) {
  expect_equal(to_gray(decode("picture.png")), reference("luma"), "luma");
}

TEST(Images, AreResizedAsPillowDoes) {
  const Image image = decode("picture.png");
  for (const auto& [name, interpolation] : {std::pair{"bilinear", Interpolation::kBilinear},
                                            {"bicubic", Interpolation::kBicubic},
                                            {"nearest", Interpolation::kNearest}}) {
    for (const auto& [width, height] : {std::pair{24, 17}, {97, 11}, {61, 90}, {1, 1}}) {
      const std::string what = fmt::format("{} {}x{}", name, width, height);
      expect_equal(resize(image, width, height, interpolation, true, what), reference(what), what);
    }
  }
}

TEST(Images, ShrunkWithoutAntialiasWeighTwoNeighbours) {
  Image image = new_image(8, 1, 1, "row");
  for (int x = 0; x < 8; ++x)
    image.pixels[static_cast<size_t>(x)] = static_cast<uint8_t>(x % 4 == 1 ? 200 : 0);
  // Centres at 2 and 6: halfway between pixels 1 and 2, 5 and 6.
  EXPECT_EQ(resize(image, 2, 1, Interpolation::kBilinear, false, "row").pixels,
            (std::vector<uint8_t>{100, 100}));
  EXPECT_NE(resize(image, 2, 1, Interpolation::kBilinear, true, "row").pixels,
            (std::vector<uint8_t>{100, 100}));
}

/// What a row of 8 pixels, black but for one of 200, becomes with a width of 4: bicubic, without antialias.
std::vector<uint8_t> halved_row(size_t bright) {
  Image image = new_image(8, 1, 1, "row");
  image.pixels[bright] = 200;
  return resize(image, 4, 1, Interpolation::kBicubic, false, "row").pixels;
}

TEST(Images, ResizedByBicubicWithoutAntialiasHaveTheWeightsAndTheEdgesOfOpenCv) {
  // Halfway between two pixels, with a = -3/4: 19/32 of each of them, -3/32 of those beside them.
  EXPECT_EQ(halved_row(2), (std::vector<uint8_t>{0, 119, 0, 0}));
  // The first pixel stands for the one before it too, the last one for the one behind it: 19/32 - 3/32.
  EXPECT_EQ(halved_row(0), (std::vector<uint8_t>{100, 0, 0, 0}));
  EXPECT_EQ(halved_row(7), (std::vector<uint8_t>{0, 0, 0, 100}));
}

TEST(Images, OfCmykAreRefused) {
  EXPECT_THAT(message_of([] { decode("cmyk.jpg"); }), AllOf(HasSubstr("cmyk.jpg: "), HasSubstr("CMYK")));
}

TEST(Images, WithLargeSidesAreRefusedBeforeTheyAreDecoded) {
  std::vector<std::byte> bytes = bytes_of("picture.png");
  bytes[16] = std::byte{0x0f};  // width 0x0f00003d
  EXPECT_THAT(message_of([&] { decode("a.png", bytes); }),
              HasSubstr("a.png: the image cannot be decoded as PNG"));
  const std::string huge = "P6 65500 65500 255\n";
  EXPECT_THAT(message_of([&] { decode("a.ppm", std::as_bytes(std::span(huge))); }),
              HasSubstr("a.ppm: the image in PNM has 65500 x 65500 pixels"));
}

TEST(Images, CutAnywhereGiveAnError) {
  for (const char* name : {"picture.png", "picture.ppm", "palette.png", "picture.jpg", "progressive.jpg"}) {
    const std::vector<std::byte> bytes = bytes_of(name);
    for (size_t size = 2; size + 2 < bytes.size(); size += 1 + bytes.size() / 97) {
      EXPECT_THAT(message_of([&] { decode(name, std::span(bytes).first(size)); }), HasSubstr(name))
          << "cut to " << size;
    }
  }
}

TEST(Images, WithAnyDamageAreDecodedOrRefused) {
  std::mt19937 random(20);
  for (const char* name :
       {"picture.png", "palette.png", "deep.png", "picture.jpg", "progressive.jpg", "picture.ppm"}) {
    const std::vector<std::byte> bytes = bytes_of(name);
    for (int i = 0; i < 300; ++i) {
      std::vector<std::byte> damaged = bytes;
      for (int k = 0; k < 3; ++k) damaged[2 + random() % (damaged.size() - 2)] = std::byte(random());
      try {
        decode(name, damaged);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace gantry::cli
