// CropAndResize of com.microsoft against float64 loops, which agree with ONNX Runtime's kernel for CPUs.
#include <cmath>

#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

constexpr size_t kChannels = 3, kHeight = 5, kWidth = 6;
using Values = std::vector<double>;

/// Where element i of `count` lies on an axis of `length` elements.
double position(double begin, double end, size_t i, size_t count, size_t length) {
  const auto last = static_cast<double>(length - 1);
  if (count == 1) return 0.5 * (begin + end) * last;
  return (begin + (end - begin) * static_cast<double>(i) / static_cast<double>(count - 1)) * last;
}

/// Of an image (kHeight, kWidth); 7 outside.
double sample(const double* image, double y, double x, bool nearest) {
  if (y < 0 || x < 0 || y > kHeight - 1 || x > kWidth - 1) return 7;
  const auto pixel = [&](double row, double column) {
    return image[static_cast<size_t>(row) * kWidth + static_cast<size_t>(column)];
  };
  if (nearest) return pixel(std::floor(y + 0.5), std::floor(x + 0.5));
  const double down = y - std::floor(y), along = x - std::floor(x);
  const auto row = [&](double r) {
    return pixel(r, std::floor(x)) * (1 - along) + pixel(r, std::ceil(x)) * along;
  };
  return row(std::floor(y)) * (1 - down) + row(std::ceil(y)) * down;
}

TEST(CropAndResize, BringsBoxesToOneSize) {
  const Given images = random({2, kChannels, kHeight, kWidth}, 1);
  // The whole image, a part, one that is turned around, one that reaches outside, and a point.
  const Values boxes{0,    0,     1,     1,     0.125, 0.25, 0.75,  0.875, 0.75,  0.875,
                     0.25, 0.125, -0.25, 0.125, 0.5,   1.25, 0.375, 0.375, 0.375, 0.375};
  const Values batch{0, 1, 1, 0, 1};
  const Inputs inputs{{"x", images}, {"b", {{5, 4}, boxes}}, {"i", {{5}, batch, DType::kI32}}};
  struct Size {
    size_t height, width;
  };
  for (const Size& size : {Size{3, 4}, {1, 2}, {4, 1}}) {
    for (const bool nearest : {false, true}) {
      SCOPED_TRACE(fmt::format("{} x {}, nearest {}", size.height, size.width, nearest));
      Values expected;
      for (size_t box = 0; box < batch.size(); ++box) {
        const double* at = &boxes[box * 4];
        for (size_t c = 0; c < kChannels; ++c) {
          const auto image = static_cast<size_t>(batch[box]) * kChannels + c;
          for (size_t i = 0; i < size.height; ++i) {
            for (size_t j = 0; j < size.width; ++j)
              expected.push_back(sample(&images.values[image * kHeight * kWidth],
                                        position(at[0], at[2], i, size.height, kHeight),
                                        position(at[1], at[3], j, size.width, kWidth), nearest));
          }
        }
      }
      const std::string nodes =
          fmt::format("initializer {{ name: 's' data_type: 6 dims: 2 int32_data: [{}, {}] }} ", size.height,
                      size.width) +
          node("CropAndResize", "x b i s", "y",
               "domain: 'com.microsoft' " + attribute("extrapolation_value", "type: FLOAT f: 7") +
                   attribute("mode", fmt::format("type: STRING s: '{}'", nearest ? "nearest" : "bilinear")));
      expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-5);
    }
  }
}

}  // namespace
}  // namespace gantry
