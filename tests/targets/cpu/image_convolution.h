// A direct convolution of channels-last images and volumes in float64, to compare with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gantry {

/// The first spatial axis of a volume; an image has one slice.
struct Slices {
  int64_t extent = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;

  int64_t out() const { return (extent + before + after - dilation * (kernel - 1) - 1) / stride + 1; }
};

struct ImageConvolution {
  int64_t batch, height, width, inputs, outputs;
  std::vector<int64_t> padding;  ///< top, left, bottom, right
  int64_t kernel = 3, stride = 1, dilation = 1, groups = 1;
  Slices slices = {};

  int64_t out(int64_t extent, size_t axis) const {
    return (extent + padding[axis] + padding[axis + 2] - dilation * (kernel - 1) - 1) / stride + 1;
  }
  int64_t out_height() const { return out(height, 0); }
  int64_t out_width() const { return out(width, 1); }

  /// (N, [OD,] OH, OW, O) of the data (N, [D,] H, W, I) and the weight (O, I / groups, [slices,] kernel,
  /// kernel), rectified.
  std::vector<double> rectified(const float* x, const float* w) const {
    std::vector<double> y;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t oz = 0; oz < slices.out(); ++oz)
        for (int64_t oy = 0; oy < out_height(); ++oy)
          for (int64_t ox = 0; ox < out_width(); ++ox)
            for (int64_t o = 0; o < outputs; ++o) y.push_back(std::max(point(x, w, n, oz, oy, ox, o), 0.0));
    return y;
  }

 private:
  double point(const float* x, const float* w, int64_t n, int64_t oz, int64_t oy, int64_t ox,
               int64_t o) const {
    const int64_t of_group = inputs / groups, window = of_group * slices.kernel * kernel * kernel;
    const float* data = x + n * slices.extent * height * width * inputs + o / (outputs / groups) * of_group;
    double total = 0;
    for (int64_t kz = 0; kz < slices.kernel; ++kz) {
      const int64_t iz = oz * slices.stride + kz * slices.dilation - slices.before;
      if (iz < 0 || iz >= slices.extent) continue;
      total += slice(data + iz * height * width * inputs, w + o * window + kz * kernel * kernel, oy, ox);
    }
    return total;
  }

  /// What one slice of the data and of a weight gives to a point.
  double slice(const float* x, const float* w, int64_t oy, int64_t ox) const {
    const int64_t of_channel = slices.kernel * kernel * kernel;
    double total = 0;
    for (int64_t ky = 0; ky < kernel; ++ky)
      for (int64_t kx = 0; kx < kernel; ++kx) {
        const int64_t iy = oy * stride + ky * dilation - padding[0],
                      ix = ox * stride + kx * dilation - padding[1];
        if (iy < 0 || ix < 0 || iy >= height || ix >= width) continue;
        for (int64_t i = 0; i < inputs / groups; ++i)
          total += double(x[(iy * width + ix) * inputs + i]) * double(w[i * of_channel + ky * kernel + kx]);
      }
    return total;
  }
};

}  // namespace gantry
