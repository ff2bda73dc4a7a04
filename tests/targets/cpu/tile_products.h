// Convolutions and matrix products on tiles, as graphs, and what to compare them with.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/ops/op.h"
#include "host/ops/tiles.h"
#include "tests/support/compiled_model.h"
#include "tests/support/tile_registers.h"
#include "tests/targets/cpu/image_convolution.h"

namespace gantry::test {

inline const TileUnit kAmx = tile_unit_named("amx"), kBfmmla = tile_unit_named("bfmmla"),
                      kVdpbf16ps = tile_unit_named("vdpbf16ps"), kVpdpbusd = tile_unit_named("vpdpbusd");
inline constexpr const char *kTarget = "sapphirerapids", *kArmTarget = "aarch64+bf16",
                            *kVectorTarget = "x86-64-v4+avx512bf16";

inline const char* target_with(TileUnit unit) {
  if (unit == kAmx) return kTarget;
  if (unit == kVpdpbusd) return "x86-64-v4+avx512vnni";
  return unit == kBfmmla ? kArmTarget : kVectorTarget;
}

/// Which instructions, and bf16 parts of the weights.
struct Arithmetic {
  TileUnit unit;
  int64_t parts;
};

inline void PrintTo(const Arithmetic& a, std::ostream* out) {
  *out << name_of(a.unit) << ", " << a.parts << " parts";
}

inline bool this_cpu_has(const char* feature) {
  const Target here = find_target("native");
  return std::find(here.features.begin(), here.features.end(), feature) != here.features.end();
}

inline bool has_tile_registers() {
  return !testing::target_with_tile_registers().empty();
}

inline std::vector<std::byte> module_of(const Graph& graph, TileUnit unit, int threads = 2) {
  const std::string target = unit == kAmx ? testing::target_with_tile_registers() : target_with(unit);
  return testing::compile_to_bytes(graph, {.target = target, .threads = threads});
}

inline ConstantPtr run_module(const std::vector<std::byte>& module, const ConstantPtr& x, TileUnit unit,
                              int threads = 2) {
  if (unit != kBfmmla) return testing::LocalModel(module, threads).run({x}).at(0);
  static testing::EmulatedBoard board;
  return testing::run_on_board(board.client(), module, {x}, threads).at(0);
}

inline ConstantPtr run_graph(const Graph& graph, const ConstantPtr& x, TileUnit unit, int threads = 2) {
  return run_module(module_of(graph, unit, threads), x, unit, threads);
}

struct Layer {
  int64_t batch = 1, height = 14, width = 14, inputs = 64, outputs = 64, kernel = 3, stride = 1, dilation = 1;
  std::vector<int64_t> padding{1, 1, 1, 1};  ///< top, left, bottom, right; of sequences left, right

  bool sequences() const { return padding.size() == 2; }
  /// Of an odd window over a sequence only the middle line meets the one line of an image.
  ImageConvolution image() const {
    if (!sequences()) return {batch, height, width, inputs, outputs, padding, kernel, stride, dilation};
    const int64_t lines = dilation * (kernel / 2);
    return {batch,  1,      width,   inputs, outputs, {lines, padding[0], lines, padding[1]},
            kernel, stride, dilation};
  }
  /// (H, W) and alike as the layer has them.
  std::vector<int64_t> spatial(int64_t vertical, int64_t horizontal) const {
    return sequences() ? std::vector{horizontal} : std::vector{vertical, horizontal};
  }
  std::vector<int64_t> both(int64_t extent) const { return spatial(extent, extent); }
  std::vector<int64_t> data() const {
    std::vector<int64_t> shape = spatial(height, width);
    shape.insert(shape.begin(), batch);
    shape.push_back(inputs);
    return shape;
  }
  std::vector<int64_t> weight() const {
    std::vector<int64_t> shape = both(kernel);
    shape.insert(shape.begin(), {outputs, inputs});
    return shape;
  }
  std::vector<double> rectified(const float* x, const ConstantPtr& w) const {
    return image().rectified(x, sequences() ? square_windows(*w).data() : w->as<float>());
  }

 private:
  /// Windows of a sequence as the middle lines of an image's.
  std::vector<float> square_windows(const ConstantData& w) const {
    std::vector<float> square(static_cast<size_t>(outputs * inputs * kernel * kernel), 1);
    for (int64_t c = 0; c < outputs * inputs; ++c)
      std::copy_n(w.as<float>() + c * kernel, kernel, square.data() + (c * kernel + kernel / 2) * kernel);
    return square;
  }
};

/// `images`: a symbol in place of the layer's batch; `squared`: of the data's positive elements.
inline Graph network(const Layer& l, const Arithmetic& by, const std::string& images = "",
                     bool squared = false) {
  ConvAttrs attrs;
  attrs.form.tile_unit = by.unit;
  attrs.kernel = l.both(l.kernel);
  attrs.dilations = l.both(l.dilation);
  const bool fold = folds_width(attrs, l.inputs);
  const std::vector<int64_t> result = l.spatial(l.image().out_height(), l.image().out_width());
  using fmt::join;
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({batch}, {data}, {inputs}), f32]) -> Tensor[({batch}, {result}, {outputs}), f32] "
      "{{\n"
      "  %u = nn.tile_weight(@w: Tensor[({weight}), f32], parts={parts}, column_tiles={columns}, "
      "fold_width={fold}, tile_unit={unit})\n"
      "{first}  %y = nn.conv({operand}, %u, channels={outputs}, kernel=[{kernel}], strides=[{strides}], "
      "dilations=[{dilations}], padding=({padding}), channels_last=true, algorithm=tiles, "
      "tile_parts={parts}, tile_fold_width={fold}, tile_unit={unit})\n"
      "  %z = nn.relu(%y)\n  return %z\n}}\n",
      fmt::arg("batch", images.empty() ? std::to_string(l.batch) : images),
      fmt::arg("data", join(l.spatial(l.height, l.width), ", ")), fmt::arg("inputs", l.inputs),
      fmt::arg("result", join(result, ", ")), fmt::arg("outputs", l.outputs),
      fmt::arg("weight", join(l.weight(), ", ")), fmt::arg("parts", by.parts),
      fmt::arg("columns", tile_columns(by.unit, l.outputs)), fmt::arg("fold", fold),
      fmt::arg("unit", name_of(by.unit)), fmt::arg("kernel", join(attrs.kernel, ", ")),
      fmt::arg("strides", join(l.both(l.stride), ", ")), fmt::arg("dilations", join(attrs.dilations, ", ")),
      fmt::arg("padding", join(l.padding, ", ")),
      fmt::arg("first", squared ? "  %p = nn.relu(%x)\n  %s = multiply(%p, %p)\n" : ""),
      fmt::arg("operand", squared ? "%s" : "%x"));
  return parse_graph(text, op_set(), {{"w", testing::random_tensor(DType::kF32, l.weight(), 1)}});
}

/// Largest difference by largest result.
inline double relative_error(const ConstantPtr& got, const std::vector<double>& reference) {
  EXPECT_EQ(got->size, reference.size() * sizeof(float));
  double worst = 0, largest = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(double(got->as<float>()[i]) - reference[i]));
    largest = std::max(largest, std::abs(reference[i]));
  }
  return worst / largest;
}

/// What host/ops/tiles.h states for one product, with room for the sum in f32, which bfmmla rounds to odd and
/// vdpbf16ps after every product.
inline double bound(const Arithmetic& by) {
  const double sums = by.unit == kAmx ? 1e-6 : 6e-6;
  return by.parts == 1 ? 0x1p-8 : by.parts == 2 ? 0x1p-17 : sums;
}

inline Graph dense_network(const std::string& rows, int64_t depth, int64_t units, const Arithmetic& by) {
  return parse_graph(
      fmt::format(
          "fn @main(%x: Tensor[({0}, {1}), f32]) -> Tensor[({0}, {2}), f32] {{\n"
          "  %u = nn.tile_weight(@w: Tensor[({1}, {2}), f32], parts={3}, column_tiles={4}, dense=true, "
          "tile_unit={5})\n"
          "  %y = nn.dense(%x, %u, units={2}, tile_parts={3}, tile_unit={5})\n  return %y\n}}\n",
          rows, depth, units, by.parts, tile_columns(by.unit, units), name_of(by.unit)),
      op_set(), {{"w", testing::random_tensor(DType::kF32, {depth, units}, 2)}});
}

inline std::vector<double> expected_product(const float* x, const float* w, int64_t rows, int64_t depth,
                                            int64_t units) {
  std::vector<double> y(static_cast<size_t>(rows * units), 0);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < units; ++n)
        y[static_cast<size_t>(m * units + n)] += double(x[m * depth + k]) * double(w[k * units + n]);
  return y;
}

}  // namespace gantry::test
