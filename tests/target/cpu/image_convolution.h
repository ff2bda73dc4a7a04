// A direct convolution of channels-last images in float64, to compare with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gantry {

struct ImageConvolution {
  int64_t batch, height, width, inputs, outputs;
  std::vector<int64_t> padding;  ///< top, left, bottom, right
  int64_t kernel = 3, stride = 1, dilation = 1, groups = 1;

  int64_t out(int64_t extent, size_t axis) const {
    return (extent + padding[axis] + padding[axis + 2] - dilation * (kernel - 1) - 1) / stride + 1;
  }
  int64_t out_height() const { return out(height, 0); }
  int64_t out_width() const { return out(width, 1); }

  /// (N, OH, OW, O) of the data (N, H, W, I) and the weight (O, I / groups, kernel, kernel), rectified.
  std::vector<double> rectified(const float* x, const float* w) const {
    std::vector<double> y;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t oy = 0; oy < out_height(); ++oy)
        for (int64_t ox = 0; ox < out_width(); ++ox)
          for (int64_t o = 0; o < outputs; ++o) y.push_back(std::max(point(x, w, n, oy, ox, o), 0.0));
    return y;
  }

 private:
  double point(const float* x, const float* w, int64_t n, int64_t oy, int64_t ox, int64_t o) const {
    const int64_t of_group = inputs / groups, first = o / (outputs / groups) * of_group;
    double total = 0;
    for (int64_t ky = 0; ky < kernel; ++ky)
      for (int64_t kx = 0; kx < kernel; ++kx) {
        const int64_t iy = oy * stride + ky * dilation - padding[0],
                      ix = ox * stride + kx * dilation - padding[1];
        if (iy < 0 || ix < 0 || iy >= height || ix >= width) continue;
        for (int64_t i = 0; i < of_group; ++i)
          total += double(x[((n * height + iy) * width + ix) * inputs + first + i]) *
                   double(w[((o * of_group + i) * kernel + ky) * kernel + kx]);
      }
    return total;
  }
};

}  // namespace gantry
