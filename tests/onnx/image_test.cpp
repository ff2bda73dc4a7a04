// ImageDecoder: what ONNX's own tests have not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/support/error.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::OneNode;

/// A node that is given these bytes.
OneNode decoder(const std::string& file, DType dtype = DType::kU8) {
  OneNode node("", "ImageDecoder", 20);
  node.input<uint8_t>(dtype, {static_cast<int64_t>(file.size())}, {file.begin(), file.end()});
  return node;
}

std::string error_of(const OneNode& node) {
  try {
    node.results();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ImageDecoder, GivesTheOrderOfChannelsThatIsAskedFor) {
  const std::string file = "P3 2 1 255\n10 20 30 200 100 50";
  EXPECT_THAT(decoder(file).run<uint8_t>(DType::kU8), ElementsAre(10, 20, 30, 200, 100, 50));
  EXPECT_THAT(decoder(file).with("pixel_format", "BGR").run<uint8_t>(DType::kU8),
              ElementsAre(30, 20, 10, 50, 100, 200));
  // Pillow's luma: (19595 R + 38470 G + 7471 B + 32768) / 65536
  EXPECT_THAT(decoder(file).with("pixel_format", "Grayscale").run<uint8_t>(DType::kU8), ElementsAre(18, 124));
}

TEST(ImageDecoder, HasSizesThatTheImageSays) {
  const std::vector<ConstantPtr> results = decoder("P5 3 2 255\nabcdef").results();
  EXPECT_EQ(results.at(0)->type.str(), "Tensor[(2, 3, 3), u8]");
}

TEST(ImageDecoder, SaysWhatIsWrongWithTheBytes) {
  EXPECT_THAT(error_of(decoder("GIF89a")), HasSubstr("no known format of images"));
  EXPECT_THAT(error_of(decoder("P6 2 1 255\nabc")), HasSubstr("cut off"));
  EXPECT_THAT(error_of(decoder("P6 60000 60000 255\nabc")), HasSubstr("at most"));
}

TEST(ImageDecoder, RefusesWhatIsNoVectorOfBytesWhenTheModelIsRead) {
  EXPECT_THAT(error_of(decoder("P5 1 1 255\na", DType::kI8)), HasSubstr("node (ImageDecoder)"));
  EXPECT_THAT(error_of(decoder("P5 1 1 255\na").with("pixel_format", "RGBA")), HasSubstr("'RGBA'"));
}

}  // namespace
}  // namespace gantry
