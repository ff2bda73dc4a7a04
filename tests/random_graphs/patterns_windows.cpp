// Convolutions and poolings that have forms of their own.
#include "host/ops/pool.h"
#include "tests/random_graphs/images.h"

namespace gantry::random_graphs {
namespace {

std::shared_ptr<ConvAttrs> plain_window(std::vector<int64_t> kernel) {
  auto attrs = std::make_shared<ConvAttrs>();
  const size_t rank = kernel.size();
  attrs->kernel = std::move(kernel);
  attrs->strides.assign(rank, 1);
  attrs->dilations.assign(rank, 1);
  attrs->padding.assign(2 * rank, Dim(0));
  return attrs;
}

Value* new_image(Sketch& s, Shape spatial) {
  Shape shape{s.choices.chance(0.5) ? s.dim() : Dim(1), s.choices.between(1, 8)};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  return s.parameter({DType::kF32, shape});
}

void plant_whole_window(Sketch& s) {
  const int64_t h = s.choices.between(1, 4), w = s.choices.between(1, 4);
  add_conv(s, new_image(s, {h, w}), plain_window({h, w}), 0.95);
}

void plant_covered_axis(Sketch& s) {
  const int64_t w = s.choices.between(2, 6);
  auto attrs = plain_window({s.choices.between(1, 3), w});
  attrs->padding[0] = s.choices.below(2);
  attrs->strides[0] = s.choices.between(1, 2);
  add_conv(s, new_image(s, {s.choices.between(3, 9), w}), attrs, 0.95);
}

/// Dilated further than the image is wide, and padded as much.
void plant_dead_taps(Sketch& s) {
  const int64_t extent = s.choices.between(2, 6), dilation = s.choices.between(extent - 1, extent + 3);
  auto attrs = plain_window({3, s.choices.of({1, 3})});
  for (size_t i = 0; i < 2; ++i) {
    attrs->dilations[i] = attrs->kernel[i] == 1 ? 1 : dilation;
    attrs->padding[i] = attrs->padding[2 + i] = attrs->kernel[i] == 1 ? 0 : dilation;
    if (s.choices.chance(0.2)) attrs->strides[i] = 2;
  }
  add_conv(s, new_image(s, {extent, extent}), attrs, 0.95);
}

void plant_unit_axis(Sketch& s) {
  Value* x = new_image(s, {s.choices.between(3, 9), 1});
  auto attrs = plain_window({s.choices.between(1, 3), 1});
  attrs->padding[0] = s.choices.below(2);
  if (s.choices.chance(0.6)) {
    add_conv(s, x, attrs);
    return;
  }
  s.add<PoolAttrs>(s.choices.of({"nn.max_pool", "nn.avg_pool"}), {x}, [&](PoolAttrs& a) {
    a.kernel = attrs->kernel;
    a.strides = {s.choices.between(1, 2), 1};
    a.dilations = attrs->dilations;
    a.padding = attrs->padding;
    if (a.kernel[0] == 1) a.padding[0] = 0;
    a.ceil_mode = s.choices.chance(0.3);
  });
}

void plant_large_maximum(Sketch& s) {
  const int64_t kernel = s.choices.between(5, 9);
  s.add<PoolAttrs>("nn.max_pool", {image(s, DType::kF32, 2)}, [&](PoolAttrs& a) {
    a.kernel = {kernel, s.choices.between(5, 9)};
    a.strides = {1, s.choices.between(1, 2)};
    a.dilations = {1, 1};
    for (int i = 0; i < 4; ++i)
      a.padding.emplace_back(a.kernel[static_cast<size_t>(i) % 2] - 1 - s.choices.below(3));
    a.ceil_mode = s.choices.chance(0.2);
  });
}

void plant_spread_result(Sketch& s) {
  Value* x = new_image(s, {s.choices.between(1, 9), s.choices.between(1, 9)});
  auto attrs = std::make_shared<ConvTransposeAttrs>();
  const int64_t channels = x->type.shape[1].value();
  for (int i = 0; i < 2; ++i) {
    attrs->kernel.push_back(s.choices.between(1, 4));
    attrs->strides.push_back(s.choices.between(1, 3));
    attrs->dilations.push_back(s.choices.chance(0.2) ? 2 : 1);
    attrs->output_padding.push_back(s.choices.chance(0.2) ? s.choices.below(attrs->strides.back()) : 0);
  }
  for (int i = 0; i < 4; ++i)
    attrs->padding.emplace_back(s.choices.chance(0.6) ? 0 : s.choices.between(0, 1));
  if (s.choices.chance(0.2)) attrs->groups = channels;
  s.add("nn.conv_transpose",
        {x, s.constant({DType::kF32, {channels, s.choices.between(1, 5), attrs->kernel[0], attrs->kernel[1]}},
                       0.5)},
        attrs);
}

/// Three by three, of channels enough for Winograd's algorithms; dilated or in groups now and then.
void plant_three_by_three(Sketch& s) {
  Value* x = image(s, DType::kF32, 2, true);
  auto attrs = plain_window({3, 3});
  const int64_t dilation = s.choices.chance(0.25) ? 2 : 1;
  attrs->dilations = {dilation, dilation};
  for (Dim& d : attrs->padding) d = dilation;
  add_conv(s, x, attrs, 1);
}

/// Scales of channels behind a convolution and its bias, before it, or on both sides.
void plant_scaled_channels(Sketch& s) {
  const auto per_channel = [&s](int64_t channels) { return s.constant({DType::kF32, {channels, 1, 1}}); };
  Value* x = new_image(s, {s.choices.between(1, 6), s.choices.between(1, 6)});
  const int64_t inputs = x->type.shape[1].value(), outputs = s.choices.between(1, 6);
  const bool before = s.choices.chance(0.4);
  if (before) x = s.add("multiply", {x, per_channel(inputs)});
  auto attrs = plain_window({1, 1});
  attrs->channels = outputs;
  Value* y = s.add("nn.conv", {x, s.constant({DType::kF32, {outputs, inputs, 1, 1}}, 0.5)}, attrs);
  if (s.choices.chance(0.5)) y = s.add("add", {y, per_channel(outputs)});
  if (!before || s.choices.chance(0.5)) s.add(s.choices.of({"multiply", "divide"}), {y, per_channel(outputs)});
}

}  // namespace

std::vector<Family> window_patterns() {
  return {{"whole window", 2, plant_whole_window},    {"covered axis", 2, plant_covered_axis},
          {"dead taps", 2, plant_dead_taps},          {"unit axis", 2, plant_unit_axis},
          {"large maximum", 2, plant_large_maximum},  {"spread result", 2, plant_spread_result},
          {"three by three", 3, plant_three_by_three}, {"scaled channels", 2, plant_scaled_channels}};
}

}  // namespace gantry::random_graphs
