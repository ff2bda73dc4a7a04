// Builtins that decode images, and plans that call them. testdata/images/make_images.py makes the files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "device_runtime/src/builtins.h"
#include "device_runtime/src/c_api.h"
#include "tests/device_runtime/loaded_module.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::LoadedModule;
using testing::ModuleBuilder;
using Bytes = std::vector<uint8_t>;

enum Pixels : int64_t { kRgb, kBgr, kGray };

struct Decoded {
  Status status;
  int64_t size[2] = {};  ///< height, width
  Bytes pixels;
};

Status call(const char* function, const Bytes& bytes, ElementType type, const std::vector<int64_t>& shape,
            void* result, std::vector<int64_t> integers = {}) {
  Bytes copy = bytes;  // of its own, so that sanitizers see what is read behind it
  const int64_t length[] = {static_cast<int64_t>(copy.size())};
  uint64_t elements = 1;
  for (const int64_t extent : shape) elements *= static_cast<uint64_t>(extent);
  const BuiltinTensor given{ElementType::kU8, length, reinterpret_cast<std::byte*>(copy.data()), copy.size()};
  const BuiltinTensor wanted{type, shape, static_cast<std::byte*>(result), elements};
  return builtin_part()->call({function, {&given, 1}, {&wanted, 1}, integers, {}, nullptr});
}

Decoded decode(const Bytes& bytes, int64_t pixels = kRgb) {
  Decoded decoded;
  decoded.status = call("image.size", bytes, ElementType::kI64, {2}, decoded.size);
  if (!decoded.status.ok()) return decoded;
  const int64_t channels = pixels == kGray ? 1 : 3;
  decoded.pixels.resize(static_cast<size_t>(decoded.size[0] * decoded.size[1] * channels));
  decoded.status = call("image.decode", bytes, ElementType::kU8, {decoded.size[0], decoded.size[1], channels},
                        decoded.pixels.data(), {pixels});
  return decoded;
}

Bytes bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

Bytes file(const std::string& name) {
  const std::vector<std::byte> read = testing::read_testdata("images/" + name);
  Bytes bytes(read.size());
  std::memcpy(bytes.data(), read.data(), read.size());
  return bytes;
}

/// Of the 4 x 2 images.
const Bytes kPixels{10, 20, 30,  200, 100, 50, 255, 255, 255, 0,   0,   0,
                    0,  0,  255, 0,   255, 0,  255, 0,   0,   128, 128, 128};

void expect_image(const Bytes& bytes, int64_t height, int64_t width, const Bytes& pixels) {
  const Decoded decoded = decode(bytes);
  if (decoded.status.code() == GANTRY_INCOMPATIBLE) GTEST_SKIP() << decoded.status.message();
  ASSERT_TRUE(decoded.status.ok()) << decoded.status.message();
  EXPECT_THAT(decoded.size, ElementsAre(height, width));
  EXPECT_EQ(decoded.pixels, pixels);
}

/// Numbers of so many bytes, the lowest first.
void append(Bytes& bytes, size_t width, std::initializer_list<uint32_t> numbers) {
  for (const uint32_t number : numbers) {
    for (size_t i = 0; i < width; ++i) bytes.push_back(static_cast<uint8_t>(number >> (8 * i)));
  }
}

/// A BMP with the longer header; `behind`: palette and rows.
Bytes bmp(int32_t width, int32_t height, uint32_t bits, uint32_t colours, const Bytes& behind) {
  Bytes bytes = bytes_of("BM");
  append(bytes, 4, {static_cast<uint32_t>(54 + behind.size()), 0, 54 + 4 * colours, 40});
  append(bytes, 4, {static_cast<uint32_t>(width), static_cast<uint32_t>(height)});
  append(bytes, 2, {1, bits});
  append(bytes, 4, {0, 0, 0, 0, colours, 0});
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  return bytes;
}

TEST(BmpImages, HaveRowsFromTheBottomInFours) {
  // Blue, green, red; each row is filled up to a multiple of 4 bytes.
  const Bytes rows{3, 2, 1, 6, 5, 4, 99, 99, 9, 8, 7, 12, 11, 10, 99, 99};
  expect_image(bmp(2, 2, 24, 0, rows), 2, 2, {7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6});
  expect_image(bmp(2, -2, 24, 0, rows), 2, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_image(bmp(1, 1, 32, 0, {3, 2, 1, 99}), 1, 1, {1, 2, 3});
}

TEST(BmpImages, MayHavePalettes) {
  const Bytes two{30, 20, 10, 0, 3, 2, 1, 0};
  Bytes bits = two, nibbles = two, whole = two;
  bits.insert(bits.end(), {0b10100000, 0, 0, 0});
  expect_image(bmp(3, 1, 1, 2, bits), 1, 3, {1, 2, 3, 10, 20, 30, 1, 2, 3});
  nibbles.insert(nibbles.end(), {0x10, 0x10, 0, 0});
  expect_image(bmp(3, 1, 4, 2, nibbles), 1, 3, {1, 2, 3, 10, 20, 30, 1, 2, 3});
  whole.insert(whole.end(), {0, 1, 0, 0});
  expect_image(bmp(2, 1, 8, 2, whole), 1, 2, {10, 20, 30, 1, 2, 3});
  whole[8] = 2;  // of a palette of two
  EXPECT_THAT(decode(bmp(2, 1, 8, 2, whole)).status.message(), HasSubstr("palette"));
}

TEST(BmpImages, OfTheFirstKindAreRead) {
  Bytes bytes = bytes_of("BM");
  append(bytes, 4, {32, 0, 26, 12});
  append(bytes, 2, {1, 1, 1, 24});
  append(bytes, 1, {3, 2, 1, 0});
  expect_image(bytes, 1, 1, {1, 2, 3});
}

TEST(BmpImages, ThatAreDamagedAreRefused) {
  const Bytes whole = bmp(2, 2, 24, 0, Bytes(16, 1));
  for (size_t length = 2; length < whole.size(); ++length)
    EXPECT_EQ(decode(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length))).status.code(),
              GANTRY_INVALID_ARGUMENT)
        << length;
  EXPECT_THAT(decode(bmp(0, 1, 24, 0, {})).status.message(), HasSubstr("no pixels"));
  EXPECT_THAT(decode(bmp(-1, 1, 24, 0, {})).status.message(), HasSubstr("negative"));
  EXPECT_THAT(decode(bmp(1, INT32_MIN, 24, 0, {})).status.message(), HasSubstr("at most 65535 a side"));
  EXPECT_THAT(decode(bmp(60000, 60000, 24, 0, {})).status.message(), HasSubstr("134217728 in all"));
  EXPECT_THAT(decode(bmp(1, 1, 16, 0, {0, 0, 0, 0})).status.message(),
              HasSubstr("neither 1, 4, 8, 24 nor 32"));
  EXPECT_THAT(decode(bmp(1, 1, 8, 0xffffffff, {0, 0, 0, 0})).status.message(), HasSubstr("palette"));
}

TEST(PnmImages, AreTextOrBinary) {
  expect_image(bytes_of("P3 # colours\n2 1\n255\n1 2 3\n 40 50 60"), 1, 2, {1, 2, 3, 40, 50, 60});
  expect_image(bytes_of("P6 2 1 255\n\1\2\3ABC"), 1, 2, {1, 2, 3, 'A', 'B', 'C'});
  expect_image(bytes_of("P2\n1 2\n3\n1 3"), 2, 1, {85, 85, 85, 255, 255, 255});
  expect_image(bytes_of(std::string_view("P5 1 2 65535\n\xff\xff\x80\0", 17)), 2, 1,
               {255, 255, 255, 128, 128, 128});
  expect_image(bytes_of("P1 3 1 1 01"), 1, 3, {0, 0, 0, 255, 255, 255, 0, 0, 0});
  expect_image(bytes_of("P4 3 1\n\xa0"), 1, 3, {0, 0, 0, 255, 255, 255, 0, 0, 0});
}

TEST(PnmImages, ThatAreDamagedAreRefused) {
  for (const char* wrong :
       {"P6", "P6 1", "P6 1 1", "P6 1 1 255", "P6 1 1 255\nab", "P6 x 1 255\nabc", "P6 1 1 0\nabc",
        "P6 1 1 65536\nabcdef", "P5 1 1 1\n\2", "P2 1 1 3\n4", "P2 2 1 3\n1", "P2 1 1 3\n-1", "P1 1 1\n2",
        "P6 0 1 255\n", "P6 99999999999999999999 1 255\nabc", "P6 1 1 #", "P6 1 1 255#"})
    EXPECT_EQ(decode(bytes_of(wrong)).status.code(), GANTRY_INVALID_ARGUMENT) << wrong;
  for (const char* wrong : {"P6 1 1 255xabc", "P6 1 1 255#abc", "P61 1 255\nabc"})
    EXPECT_THAT(decode(bytes_of(wrong)).status.message(), HasSubstr("its header is damaged")) << wrong;
  EXPECT_THAT(decode(bytes_of("P6 60000 60000 255\n")).status.message(), HasSubstr("60000 x 60000"));
}

/// Little-endian, of one strip, whose place and length are filled in.
struct Field {
  uint32_t tag, type, value;
};
Bytes tiff(std::vector<Field> fields, const Bytes& strip) {
  const auto strip_at = static_cast<uint32_t>(8 + 2 + 12 * (fields.size() + 2) + 4);
  fields.push_back({273, 4, strip_at});
  fields.push_back({279, 4, static_cast<uint32_t>(strip.size())});
  Bytes bytes = bytes_of(std::string_view("II*\0", 4));
  append(bytes, 4, {8});
  append(bytes, 2, {static_cast<uint32_t>(fields.size())});
  for (const Field& field : fields) {
    append(bytes, 2, {field.tag, field.type});
    append(bytes, 4, {1, field.value});
  }
  append(bytes, 4, {0});
  bytes.insert(bytes.end(), strip.begin(), strip.end());
  return bytes;
}

TEST(TiffImages, ArePlainOrPackedBits) {
  const Field width{256, 3, 3}, height{257, 3, 2}, bits{258, 3, 8}, gray{262, 3, 1};
  const Bytes values{1, 2, 3, 4, 4, 4};
  const Bytes expected{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4};
  expect_image(tiff({width, height, bits, gray}, values), 2, 3, expected);
  const Field packed{259, 3, 32773};
  expect_image(tiff({width, height, bits, gray, packed}, {2, 1, 2, 3, 128, 254, 4}), 2, 3, expected);
  EXPECT_EQ(decode(tiff({width, height, bits, gray, packed}, {2, 1, 2, 3, 254})).status.code(),
            GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(decode(tiff({width, height, bits, gray}, {1, 2, 3, 4, 4})).status.code(),
            GANTRY_INVALID_ARGUMENT);
}

TEST(TiffImages, HaveWhiteAsZeroAndSamplesOfSomeBits) {
  const Field width{256, 3, 3}, height{257, 3, 1}, white_is_zero{262, 3, 0};
  expect_image(tiff({width, height, white_is_zero}, {0b01000000}), 1, 3,
               {255, 255, 255, 0, 0, 0, 255, 255, 255});
  expect_image(tiff({width, height, {258, 3, 4}, {262, 3, 1}}, {0x0f, 0x30}), 1, 3,
               {0, 0, 0, 255, 255, 255, 51, 51, 51});
  expect_image(tiff({width, height, {258, 3, 16}, {262, 3, 1}}, {255, 1, 255, 2, 255, 3}), 1, 3,
               {1, 1, 1, 2, 2, 2, 3, 3, 3});
}

TEST(TiffImages, AreUnpackedByTheirCodes) {
  Bytes pixels;
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 48; ++x) {
      for (int c = 0; c < 3; ++c) pixels.push_back(static_cast<uint8_t>(x * y * (c + 1) / 7 % 5 * 60));
    }
  }
  for (const char* name : {"lzw.tif", "predicted.tif", "deflate.tif"}) {
    SCOPED_TRACE(name);
    const Decoded decoded = decode(file(name));
    if (decoded.status.code() == GANTRY_INVALID_ARGUMENT &&
        decoded.status.message().find("zlib1g-dev") != std::string::npos)
      continue;
    ASSERT_TRUE(decoded.status.ok()) << decoded.status.message();
    EXPECT_THAT(decoded.size, ElementsAre(40, 48));
    EXPECT_EQ(decoded.pixels, pixels);
  }
}

TEST(TiffImages, WithWhatIsNotDecodedSayWhat) {
  const Field width{256, 3, 1}, height{257, 3, 1}, bits{258, 3, 8}, gray{262, 3, 1};
  const auto message = [&](Field other) {
    return decode(tiff({width, height, bits, gray, other}, {1})).status.message();
  };
  EXPECT_THAT(message({259, 3, 7}), HasSubstr("neither by PackBits"));
  EXPECT_THAT(message({322, 3, 16}), HasSubstr("tiles"));
  EXPECT_THAT(message({266, 3, 2}), HasSubstr("reverse"));
  EXPECT_THAT(message({339, 3, 3}), HasSubstr("no unsigned integers"));
  EXPECT_THAT(message({317, 3, 3}), HasSubstr("predictor"));
  EXPECT_THAT(message({278, 3, 0}), HasSubstr("no rows"));
  EXPECT_THAT(decode(tiff({width, height, bits, {262, 3, 5}}, {1})).status.message(),
              HasSubstr("neither gray"));
  EXPECT_THAT(decode(tiff({width, height, bits, {262, 3, 3}}, {1})).status.message(), HasSubstr("palette"));
  EXPECT_THAT(decode(tiff({width, bits, gray}, {1})).status.message(), HasSubstr("no pixels"));
}

TEST(TiffImages, OfMillionsOfSamplesAreRefusedAtOnce) {
  // Fields of tags that are not known, then the sizes of as many samples as there are bytes.
  constexpr uint32_t kUnknown = 20'000, kSamples = 1'000'000;
  Bytes bytes = bytes_of(std::string_view("II*\0", 4));
  append(bytes, 4, {8});
  append(bytes, 2, {kUnknown + 4});
  const auto field = [&](uint32_t tag, uint32_t type, uint32_t count, uint32_t value) {
    append(bytes, 2, {tag, type});
    append(bytes, 4, {count, value});
  };
  for (uint32_t i = 0; i < kUnknown; ++i) field(1, 3, 1, 0);
  field(256, 3, 1, 1);
  field(257, 3, 1, 1);
  field(258, 1, kSamples, static_cast<uint32_t>(bytes.size() + 24 + 4));
  field(277, 4, 1, kSamples);
  append(bytes, 4, {0});
  bytes.resize(bytes.size() + kSamples, 8);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(decode(bytes).status.message(), HasSubstr("more than 8"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

TEST(JpegImages, AreColouredOrGray) {
  Bytes colours;
  for (int i = 0; i < 64; ++i) colours.insert(colours.end(), {200, 100, 50});
  expect_image(file("colour.jpg"), 8, 8, colours);
  expect_image(file("gray.jpg"), 8, 8, Bytes(192, 77));
}

TEST(PngImages, AreRgbWithoutTransparency) {
  expect_image(file("pixels.png"), 2, 4, kPixels);
  expect_image(file("alpha.png"), 2, 4, kPixels);
  expect_image(file("palette.png"), 1, 4, Bytes(kPixels.begin(), kPixels.begin() + 12));
  expect_image(file("gray16.png"), 1, 2, {1, 1, 1, 128, 128, 128});
}

TEST(PngImages, ThatAreTooLargeAreRefusedByTheirHeaders) {
  const Status status = decode(file("huge.png")).status;
  if (status.code() == GANTRY_INCOMPATIBLE) GTEST_SKIP() << status.message();
  EXPECT_EQ(status.code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), HasSubstr("60000 x 60000"));
}

TEST(PngImages, OfHugeTextsTakeNoMemoryForThem) {
  const Bytes once = file("text.png"), name = bytes_of("IDAT");
  // The text stands between the header's 8 + 25 bytes and the pixels.
  const auto pixels = std::search(once.begin(), once.end(), name.begin(), name.end()) - 4;
  Bytes bytes(once.begin(), once.begin() + 33);
  for (int i = 0; i < 20; ++i) bytes.insert(bytes.end(), once.begin() + 33, pixels);
  bytes.insert(bytes.end(), pixels, once.end());
  const auto most_resident_mb = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  };
  const long before = most_resident_mb();
  expect_image(bytes, 2, 4, kPixels);
  EXPECT_LT(most_resident_mb() - before, 150);  // of 320
}

TEST(WebpImages, AreDecoded) {
  expect_image(file("pixels.webp"), 2, 4, kPixels);
}

TEST(Images, ComeInOtherOrdersOfChannelsAndAsPillowsGray) {
  const Bytes bytes = bytes_of("P3 4 1 255\n10 20 30 200 100 50 255 0 0 0 0 255");
  const Decoded swapped = decode(bytes, kBgr), gray = decode(bytes, kGray);
  EXPECT_THAT(swapped.pixels, ElementsAre(30, 20, 10, 50, 100, 200, 0, 0, 255, 255, 0, 0));
  // (19595 R + 38470 G + 7471 B + 32768) / 65536
  EXPECT_THAT(gray.pixels, ElementsAre(18, 124, 76, 29));
}

TEST(Images, OfNoKnownFormatAreRefused) {
  for (const std::string_view text :
       {std::string_view(), std::string_view("GIF89a"), std::string_view("P7\n")})
    EXPECT_THAT(decode(bytes_of(text)).status.message(), HasSubstr("of no known format of images")) << text;
  EXPECT_THAT(decode(bytes_of(std::string_view("\0\0\0\x0cjP  \r\n\x87\n", 12))).status.message(),
              HasSubstr("JPEG 2000"));
}

TEST(Images, ThatAreCutOffOrChangedNeverReadOrWriteBeyond) {
  std::mt19937 random(1);
  for (const char* name : {"colour.jpg", "gray.jpg", "pixels.webp", "pixels.png", "palette.png", "lzw.tif",
                           "predicted.tif", "deflate.tif"}) {
    const Bytes whole = file(name);
    for (size_t length = 0; length < whole.size(); length += 1 + whole.size() / 64) {
      const auto end = whole.begin() + static_cast<ptrdiff_t>(length);
      EXPECT_FALSE(decode(Bytes(whole.begin(), end)).status.ok()) << name << " of " << length;
    }
    for (int turn = 0; turn < 300; ++turn) {
      Bytes changed = whole;
      for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<uint8_t>(random());
      int64_t size[2] = {};
      if (!call("image.size", changed, ElementType::kI64, {2}, size).ok() || size[0] * size[1] > 100'000)
        continue;
      decode(changed, static_cast<int64_t>(random() % 3));  // sanitizers would say what is wrong
    }
  }
}

TEST(Images, TensorsThatDoNotFitAreTheModulesFault) {
  const Bytes bytes = bytes_of("P6 1 1 255\nabc");
  Bytes pixels(3);
  const auto code = [&](const std::vector<int64_t>& shape, std::vector<int64_t> integers) {
    return call("image.decode", bytes, ElementType::kU8, shape, pixels.data(), integers).code();
  };
  EXPECT_EQ(code({1, 1, 3}, {0}), GANTRY_OK);
  EXPECT_EQ(code({1, 1, 1}, {0}), GANTRY_INVALID_MODULE);
  EXPECT_EQ(code({1, 3, 1}, {2}), GANTRY_INVALID_MODULE);
  EXPECT_EQ(code({3}, {0}), GANTRY_INVALID_MODULE);
  EXPECT_EQ(code({1, 1, 3}, {3}), GANTRY_INVALID_MODULE);
  EXPECT_EQ(code({1, 1, 3}, {}), GANTRY_INVALID_MODULE);
}

/// out (1, 2, 3) = the image whose 17 bytes `in` has.
ModuleBuilder decoding_module() {
  ModuleBuilder builder;
  builder.manifest.requires_ = {"plan-2", "images"};
  const uint32_t one = builder.constant(1), two = builder.constant(2), three = builder.constant(3);
  const uint32_t length = builder.constant(17), bytes = builder.constant(6), zero = builder.constant(0);
  builder.add_input("in", {length}, ElementType::kU8);
  builder.add_output("out", {one, two, three}, ElementType::kU8);
  const uint32_t in = builder.input_buffer(0, length), out = builder.output_buffer(0, bytes);
  auto stretch = std::make_unique<module_format::StretchT>();
  stretch->workspace_bytes = stretch->kept_bytes = zero;
  builder.variant().stretches.push_back(std::move(stretch));
  const auto tensor = [](uint32_t buffer, std::vector<uint32_t> shape) {
    auto made = std::make_unique<module_format::BuiltinTensorT>();
    made->buffer = buffer;
    made->dtype = module_format::DType::U8;
    made->shape = std::move(shape);
    return made;
  };
  module_format::CallBuiltinT call;
  call.function = "image.decode";
  call.inputs.push_back(tensor(in, {length}));
  call.outputs.push_back(tensor(out, {one, two, three}));
  call.integers = {kRgb};
  call.origin = {"Decode_3"};
  auto step = std::make_unique<module_format::StepT>();
  step->action.Set(std::move(call));
  builder.variant().steps.push_back(std::move(step));
  return builder;
}

GantryStatus run(GantrySession* session, const char* text) {
  Bytes bytes = bytes_of(text);
  int64_t shape[] = {static_cast<int64_t>(bytes.size())};
  DLTensor tensor{};
  tensor.data = bytes.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLUInt, 8, 1};
  tensor.shape = shape;
  const GantryStatus set = gantry_set_input(session, 0, &tensor, 0);
  return set == GANTRY_OK ? gantry_run(session) : set;
}

TEST(ImagesOfModules, AreDecodedRunByRun) {
  const LoadedModule loaded(decoding_module());
  ASSERT_EQ(loaded.status, GANTRY_OK) << loaded.message;
  for (const std::string pixels : {"abcdef", "ABCDEF"}) {
    ASSERT_EQ(run(loaded.session, ("P6 2 1 255\n" + pixels).c_str()), GANTRY_OK) << gantry_last_error();
    DLTensor view{};
    ASSERT_EQ(gantry_get_output(loaded.session, 0, &view), GANTRY_OK) << gantry_last_error();
    const auto* values = static_cast<const char*>(view.data);
    EXPECT_EQ(std::string(values, values + 6), pixels);
  }
}

TEST(ImagesOfModules, ThatCannotBeDecodedEndTheRunWithTheNode) {
  const LoadedModule loaded(decoding_module());
  ASSERT_EQ(loaded.status, GANTRY_OK) << loaded.message;
  EXPECT_EQ(run(loaded.session, "GIF89a 2 1 abcdef"), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(gantry_last_error(), HasSubstr("Decode_3"));
  EXPECT_THAT(gantry_last_error(), HasSubstr("no known format"));
}

TEST(ImagesOfModules, AreRequiredByName) {
  for (const char* other : {"plan-2", "strings"}) {
    ModuleBuilder builder = decoding_module();
    builder.manifest.requires_ = {other};
    const LoadedModule loaded(std::move(builder));
    EXPECT_NE(loaded.status, GANTRY_OK);
    EXPECT_THAT(loaded.message, HasSubstr("image.decode, but the module does not require it"));
  }
}

}  // namespace
}  // namespace gantry::runtime
