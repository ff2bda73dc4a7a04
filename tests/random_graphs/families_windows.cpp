// Convolutions, poolings, normalisations of images, resizing.
#include "host/ops/norm.h"
#include "host/ops/pool.h"
#include "host/ops/resize.h"
#include "tests/random_graphs/images.h"

namespace gantry::random_graphs {

Value* image(Sketch& s, DType dtype, int64_t spatial, bool constant_axes) {
  auto fits = [&](const Value& v) {
    if (v.type.dtype != dtype || v.type.rank() != spatial + 2 || !v.type.shape[1].is_constant()) return false;
    return !constant_axes || constant_shape({v.type.shape.begin() + 1, v.type.shape.end()}).has_value();
  };
  if (s.choices.chance(0.8)) {
    if (Value* found = s.pick(fits)) return found;
  }
  Shape shape{s.choices.chance(0.5) ? s.dim() : Dim(s.choices.between(1, 2)),
              s.choices.of({1, 2, 3, 4, 4, 6, 8, 9})};
  for (int64_t i = 0; i < spatial; ++i)
    shape.push_back(spatial == 3 ? Dim(s.choices.between(1, 5)) : s.dim(!constant_axes));
  return s.parameter({dtype, shape});
}

Value* add_conv(Sketch& s, Value* image, std::shared_ptr<ConvAttrs> attrs, double constant_chance) {
  const int64_t channels = image->type.shape[1].value();
  const int64_t choice = s.choices.below(10);
  if (choice < 2) {
    attrs->groups = channels;
  } else if (choice < 4) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= channels; ++d) {
      if (channels % d == 0) divisors.push_back(d);
    }
    attrs->groups = s.choices.of(divisors);
  }
  const bool depthwise = choice < 2 && s.choices.chance(0.8);
  attrs->channels = depthwise ? channels : attrs->groups * s.choices.between(1, attrs->groups > 1 ? 3 : 9);
  // Now and then as many as a vector has lanes, and more.
  if (attrs->groups == 1 && s.choices.chance(0.1)) attrs->channels = s.choices.between(15, 33);
  Shape weight{attrs->channels, channels / attrs->groups};
  weight.insert(weight.end(), attrs->kernel.begin(), attrs->kernel.end());
  const TensorType type{image->type.dtype, weight};
  Value* w = s.choices.chance(constant_chance) ? s.constant(type, 0.5) : s.parameter(type);
  Value* y = s.add("nn.conv", {image, w}, attrs);
  if (s.choices.chance(0.4)) {
    Shape bias(attrs->kernel.size() + 1, Dim(1));
    bias[0] = attrs->channels;
    y = s.add("add", {y, s.operand({image->type.dtype, bias}, 0.9)});
  }
  return s.choices.chance(0.3) ? s.add("nn.relu", {y}) : y;
}

namespace {

int64_t spatial_rank(Sketch& s) {
  return s.choices.of({1, 2, 2, 2, 2, 3});
}

void add_convolution(Sketch& s) {
  Value* x = image(s, s.float_type(), spatial_rank(s));
  auto attrs = std::make_shared<ConvAttrs>();
  choose_window(s, *x, *attrs);
  add_conv(s, x, attrs);
}

void add_transposed(Sketch& s) {
  Value* x = image(s, s.float_type(), spatial_rank(s));
  auto attrs = std::make_shared<ConvTransposeAttrs>();
  choose_window(s, *x, *attrs);
  const int64_t channels = x->type.shape[1].value();
  if (s.choices.chance(0.25)) attrs->groups = channels;
  for (int64_t stride : attrs->strides)
    attrs->output_padding.push_back(s.choices.chance(0.2) ? s.choices.below(stride) : 0);
  Shape weight{channels, s.choices.between(1, 4)};
  weight.insert(weight.end(), attrs->kernel.begin(), attrs->kernel.end());
  const TensorType type{x->type.dtype, weight};
  s.add("nn.conv_transpose", {x, s.choices.chance(0.85) ? s.constant(type, 0.5) : s.parameter(type)}, attrs);
}

void add_pool(Sketch& s) {
  Value* x = image(s, s.float_type(), spatial_rank(s));
  const char* op = s.choices.of({"nn.max_pool", "nn.max_pool", "nn.avg_pool", "nn.avg_pool", "nn.lp_pool"});
  s.add<PoolAttrs>(op, {x}, [&](PoolAttrs& a) {
    choose_window(s, *x, a);
    a.ceil_mode = s.choices.chance(0.25);
    a.count_include_pad = s.choices.chance(0.3);
    a.p = s.choices.between(1, 3);
  });
}

/// A vector of a value for each channel, which is positive for variances.
Value* channel_vector(Sketch& s, DType dtype, const Dim& channels, bool positive = false) {
  if (!channels.is_constant()) return s.parameter({dtype, {channels}});
  std::vector<double> values;
  for (int64_t i = 0; i < channels.value(); ++i)
    values.push_back(positive ? 0.2 + s.choices.uniform() : s.choices.normal());
  return s.constant_of({dtype, {channels}}, values);
}

void add_batch_norm(Sketch& s) {
  const DType dtype = s.float_type();
  Value* x = s.choices.chance(0.7) ? image(s, dtype, spatial_rank(s)) : s.value(dtype, 2, 4);
  const Dim channels = x->type.shape[1];
  std::vector<Value*> inputs{x};
  for (int i = 0; i < 4; ++i) {
    const bool constant = i == 3 || s.choices.chance(0.95);
    inputs.push_back(constant ? channel_vector(s, dtype, channels, i == 3) : s.operand({dtype, {channels}}));
  }
  s.add<BatchNormAttrs>("nn.batch_norm", inputs, [&](BatchNormAttrs& a) {
    a.epsilon = s.choices.of({1e-5, 1e-3});
  });
}

void add_image_norm(Sketch& s) {
  const DType dtype = s.float_type();
  Value* x = image(s, dtype, spatial_rank(s));
  const Dim channels = x->type.shape[1];
  if (s.choices.chance(0.25)) {
    s.add<LrnAttrs>("nn.lrn", {x}, [&](LrnAttrs& a) { a.size = s.choices.between(1, 5); });
    return;
  }
  const bool in_groups = s.choices.chance(0.4);
  Value *scale = channel_vector(s, dtype, channels), *bias = channel_vector(s, dtype, channels);
  s.add<GroupNormAttrs>(in_groups ? "nn.group_norm" : "nn.instance_norm", {x, scale, bias},
                        [&](GroupNormAttrs& a) { a.groups = in_groups ? s.choices.between(1, 3) : 1; });
}

void add_resize(Sketch& s) {
  Value* x = s.choices.chance(0.8) ? image(s, s.float_type(), 2) : s.value(s.number_type(), 1, 4);
  s.add<ResizeAttrs>("resize", {x}, [&](ResizeAttrs& a) {
    a.sizes = x->type.shape;
    for (size_t i = x->type.rank() > 2 ? 2 : 0; i < a.sizes.size(); ++i) {
      if (s.choices.chance(0.8))
        a.sizes[i] = s.choices.chance(0.5) ? a.sizes[i] * 2 : Dim(s.choices.between(1, 9));
    }
    a.mode = s.choices.of({ResizeMode::kNearest, ResizeMode::kNearest, ResizeMode::kLinear,
                           ResizeMode::kLinear, ResizeMode::kCubic});
    if (!is_float(x->type.dtype)) a.mode = ResizeMode::kNearest;
    a.coordinates = s.choices.of({ResizeCoordinates::kHalfPixel, ResizeCoordinates::kHalfPixelSymmetric,
                                  ResizeCoordinates::kPytorchHalfPixel, ResizeCoordinates::kAlignCorners,
                                  ResizeCoordinates::kAsymmetric});
    a.rounding = s.choices.of({ResizeRounding::kRoundPreferFloor, ResizeRounding::kRoundPreferCeil,
                               ResizeRounding::kFloor, ResizeRounding::kCeil, ResizeRounding::kSimple});
    a.exclude_outside = s.choices.chance(0.2);
  });
}

}  // namespace

std::vector<Family> window_families() {
  return {{"convolution", 9, add_convolution},
          {"transposed convolution", 3, add_transposed},
          {"pool", 4, add_pool},
          {"batch norm", 4, add_batch_norm},
          {"image norm", 3, add_image_norm},
          {"resize", 3, add_resize}};
}

}  // namespace gantry::random_graphs
