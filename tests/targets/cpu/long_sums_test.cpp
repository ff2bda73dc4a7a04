// Sums of many positions into few elements, which are computed in two steps, against float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/ops/op.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

struct Image {
  int64_t batch = 1, height = 1, width = 1, channels = 1;
};

double error_of_mean(const Image& image, const char* target) {
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}, {2}, {3}), f32]) -> Tensor[({0}, 1, 1, {3}), f32] {{\n"
      "  %y = mean(%x, axes=[1, 2], keepdims=true)\n  return %y\n}}\n",
      image.batch, image.height, image.width, image.channels);
  const ConstantPtr x =
      testing::random_tensor(DType::kF32, {image.batch, image.height, image.width, image.channels}, 7);
  testing::LocalModel model(testing::compile_to_bytes(parse_graph(text, op_set(), {}), {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  const int64_t positions = image.height * image.width;
  double worst = 0;
  for (int64_t n = 0; n < image.batch; ++n) {
    for (int64_t c = 0; c < image.channels; ++c) {
      double sum = 0;
      for (int64_t p = 0; p < positions; ++p) sum += x->as<float>()[(n * positions + p) * image.channels + c];
      const double expected = sum / double(positions);
      worst = std::max(worst, std::fabs(expected - y->as<float>()[n * image.channels + c]));
    }
  }
  return worst;
}

TEST(LongSums, AreTheMeansOfImagesOfAnySize) {
  for (const char* target : {"native", "x86-64-v3"}) {
    for (const Image& image :
         {Image{1, 56, 56, 96}, Image{1, 7, 7, 1280}, Image{2, 14, 14, 100}, Image{1, 112, 112, 3},
          Image{3, 28, 20, 33}, Image{1, 13, 64, 48}, Image{1, 18, 9, 512}, Image{1, 15, 30, 130}}) {
      EXPECT_LT(error_of_mean(image, target), 1e-6) << target << ": " << image.batch << " x " << image.height
                                                    << " x " << image.width << " x " << image.channels;
    }
  }
}

double error_of_norm(const Image& image, const char* target) {
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}, {2}, {3}), f32]) -> Tensor[({0}, {1}, {2}, {3}), f32] {{\n"
      "  %y = nn.instance_norm(%x, @scale: Tensor[({3}), f32], @bias: Tensor[({3}), f32], "
      "channels_last=true, epsilon=0.001)\n  return %y\n}}\n",
      image.batch, image.height, image.width, image.channels);
  const ConstantPtr x = testing::random_tensor(DType::kF32,
                                               {image.batch, image.height, image.width, image.channels}, 7),
                    scale = testing::random_tensor(DType::kF32, {image.channels}, 8),
                    bias = testing::random_tensor(DType::kF32, {image.channels}, 9);
  testing::LocalModel model(testing::compile_to_bytes(
      parse_graph(text, op_set(), {{"scale", scale}, {"bias", bias}}), {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  const int64_t positions = image.height * image.width;
  double worst = 0;
  for (int64_t n = 0; n < image.batch; ++n) {
    for (int64_t c = 0; c < image.channels; ++c) {
      auto at = [&](int64_t p) { return (n * positions + p) * image.channels + c; };
      double mean = 0, variance = 0;
      for (int64_t p = 0; p < positions; ++p) mean += x->as<float>()[at(p)] / double(positions);
      for (int64_t p = 0; p < positions; ++p)
        variance += std::pow(x->as<float>()[at(p)] - mean, 2) / double(positions);
      for (int64_t p = 0; p < positions; ++p) {
        const double normal = (x->as<float>()[at(p)] - mean) / std::sqrt(variance + 0.001);
        const double expected = normal * scale->as<float>()[c] + bias->as<float>()[c];
        worst = std::max(worst, std::fabs(expected - y->as<float>()[at(p)]));
      }
    }
  }
  return worst;
}

TEST(LongSums, AreTheMomentsOfNormalisedImages) {
  for (const char* target : {"native", "x86-64-v3"}) {
    for (const Image& image :
         {Image{1, 56, 56, 64}, Image{2, 14, 14, 100}, Image{1, 13, 64, 48}, Image{1, 7, 7, 512}}) {
      EXPECT_LT(error_of_norm(image, target), 1e-5) << target << ": " << image.batch << " x " << image.height
                                                    << " x " << image.width << " x " << image.channels;
    }
  }
}

}  // namespace
}  // namespace gantry
