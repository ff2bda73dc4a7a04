#include "host/zoo/layers.h"

#include <algorithm>
#include <cmath>

#include "host/support/error.h"

namespace gantry::zoo {
namespace {

int64_t pooled_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode) {
  const int64_t span = size + 2 * padding - kernel;
  return (ceil_mode ? (span + stride - 1) / stride : span / stride) + 1;
}

}  // namespace

Feature image_input(ModelBuilder& model, int64_t size) {
  return {model.float_input("input", {model.batch(), int64_t{3}, size, size}), 3, size};
}

Feature conv(ModelBuilder& model, const std::string& name, const Feature& x, int64_t channels,
             const Convolution& options) {
  const int64_t padding = options.padding < 0 ? options.kernel / 2 : options.padding;
  const int64_t group_inputs = x.channels / options.groups;
  const auto fan_in = static_cast<double>(group_inputs * options.kernel * options.kernel);
  std::vector<std::string> inputs = {
      x.value, model.normal(name + ".weight", {channels, group_inputs, options.kernel, options.kernel}, 0,
                            std::sqrt(options.gain / fan_in))};
  if (options.bias) inputs.push_back(model.normal(name + ".bias", {channels}, 0, 0.05));
  const std::string value =
      model.node("Conv", name, inputs,
                 {{"dilations", std::vector<int64_t>{1, 1}},
                  {"group", options.groups},
                  {"kernel_shape", std::vector<int64_t>{options.kernel, options.kernel}},
                  {"pads", std::vector<int64_t>(4, padding)},
                  {"strides", std::vector<int64_t>{options.stride, options.stride}}});
  return {value, channels, pooled_size(x.size, options.kernel, options.stride, padding, false)};
}

Feature batch_norm(ModelBuilder& model, const std::string& name, const Feature& x, double scale) {
  const std::vector<int64_t> shape = {x.channels};
  const std::string value =
      model.node("BatchNormalization", name,
                 {x.value, model.uniform(name + ".weight", shape, 0.9 * scale, 1.1 * scale),
                  model.normal(name + ".bias", shape, 0, 0.1 * scale),
                  model.normal(name + ".running_mean", shape, 0, 0.1),
                  model.uniform(name + ".running_var", shape, 0.8, 1.25)},
                 {{"epsilon", 1e-5f}, {"momentum", 0.9f}});
  return {value, x.channels, x.size};
}

Feature activate(ModelBuilder& model, const std::string& name, const Feature& x, Activation activation) {
  Feature y = x;
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kRelu:
      y.value = model.node("Relu", name, {x.value});
      break;
    case Activation::kRelu6:
      y.value =
          model.node("Clip", name, {x.value, model.scalar(name + ".min", 0), model.scalar(name + ".max", 6)});
      break;
    case Activation::kSilu:
      y.value = model.node("Mul", name, {x.value, model.node("Sigmoid", name + ".sigmoid", {x.value})});
      break;
    case Activation::kSigmoid:
      y.value = model.node("Sigmoid", name, {x.value});
      break;
    case Activation::kHardSwish:
      y.value = model.node("HardSwish", name, {x.value});
      break;
    case Activation::kHardSigmoid:
      y.value = model.node("HardSigmoid", name, {x.value}, {{"alpha", 1.0f / 6.0f}, {"beta", 0.5f}});
      break;
  }
  return y;
}

Feature conv_norm_act(ModelBuilder& model, const std::string& name, const Feature& x, int64_t channels,
                      const Convolution& options, Activation activation, double scale) {
  Feature y = conv(model, name + ".conv", x, channels, options);
  y = batch_norm(model, name + ".bn", y, scale);
  return activate(model, name + ".act", y, activation);
}

Feature max_pool(ModelBuilder& model, const std::string& name, const Feature& x, int64_t kernel,
                 int64_t stride, int64_t padding, bool ceil_mode) {
  const std::string value = model.node("MaxPool", name, {x.value},
                                       {{"ceil_mode", int64_t{ceil_mode}},
                                        {"kernel_shape", std::vector<int64_t>{kernel, kernel}},
                                        {"pads", std::vector<int64_t>(4, padding)},
                                        {"strides", std::vector<int64_t>{stride, stride}}});
  return {value, x.channels, pooled_size(x.size, kernel, stride, padding, ceil_mode)};
}

Feature add(ModelBuilder& model, const std::string& name, const Feature& a, const Feature& b) {
  internal_check(a.channels == b.channels && a.size == b.size, "zoo: {} adds unlike features", name);
  return {model.node("Add", name, {a.value, b.value}), a.channels, a.size};
}

Feature concat_channels(ModelBuilder& model, const std::string& name, const std::vector<Feature>& features) {
  std::vector<std::string> values;
  int64_t channels = 0;
  for (const Feature& feature : features) {
    values.push_back(feature.value);
    channels += feature.channels;
  }
  return {model.node("Concat", name, values, {{"axis", int64_t{1}}}), channels, features[0].size};
}

Feature squeeze_excite(ModelBuilder& model, const std::string& name, const Feature& x, int64_t squeezed,
                       Activation inner, Activation gate) {
  Feature s = {model.node("GlobalAveragePool", name + ".avgpool", {x.value}), x.channels, 1};
  s = conv(model, name + ".fc1", s, squeezed, {.bias = true});
  s = activate(model, name + ".act", s, inner);
  s = conv(model, name + ".fc2", s, x.channels, {.bias = true});
  s = activate(model, name + ".gate", s, gate);
  return {model.node("Mul", name + ".scale", {x.value, s.value}), x.channels, x.size};
}

std::string pooled_features(ModelBuilder& model, const Feature& x) {
  const std::string mean = model.node("GlobalAveragePool", "avgpool", {x.value});
  return model.node("Flatten", "flatten", {mean}, {{"axis", int64_t{1}}});
}

std::string linear(ModelBuilder& model, const std::string& name, const std::string& x, int64_t inputs,
                   int64_t outputs, double gain) {
  const double deviation = std::sqrt(gain / static_cast<double>(inputs));
  return model.node("Gemm", name,
                    {x, model.normal(name + ".weight", {outputs, inputs}, 0, deviation),
                     model.normal(name + ".bias", {outputs}, 0, 0.05)},
                    {{"alpha", 1.0f}, {"beta", 1.0f}, {"transB", int64_t{1}}});
}

void logits_output(ModelBuilder& model, int64_t classes) {
  model.float_output("logits", {model.batch(), classes});
}

int64_t round_channels(double channels) {
  const auto rounded = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + 8 : rounded;
}

}  // namespace gantry::zoo
