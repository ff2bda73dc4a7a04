// Simonyan and Zisserman, "Very Deep Convolutional Networks", 2015; Iandola et al., "SqueezeNet", 2016 (its
// release 1.1); Huang et al., "Densely Connected Convolutional Networks", 2017.
#include "host/zoo/layers.h"
#include "host/zoo/networks.h"

namespace gantry::zoo {

void vgg16(ModelBuilder& model, int64_t size) {
  Feature x = image_input(model, size);
  const std::vector<std::vector<int64_t>> stages = {
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (size_t i = 0; i < stages[stage].size(); ++i) {
      const std::string name = "conv" + std::to_string(stage + 1) + "_" + std::to_string(i + 1);
      x = conv(model, name, x, stages[stage][i], {.kernel = 3, .bias = true});
      x = activate(model, name + ".relu", x, Activation::kRelu);
    }
    x = max_pool(model, "pool" + std::to_string(stage + 1), x, 2, 2, 0);
  }
  Feature y = {model.node("Flatten", "flatten", {x.value}, {{"axis", int64_t{1}}}), 4096, 1};
  y.value = linear(model, "fc6", y.value, x.channels * x.size * x.size, 4096, 2);
  y = activate(model, "fc6.relu", y, Activation::kRelu);
  y.value = linear(model, "fc7", y.value, 4096, 4096, 2);
  y = activate(model, "fc7.relu", y, Activation::kRelu);
  linear(model, "fc8", y.value, 4096, 1000);
  logits_output(model);
}

namespace {

Feature fire(ModelBuilder& model, const std::string& name, const Feature& x, int64_t squeezed,
             int64_t expanded) {
  auto layer = [&](const std::string& part, const Feature& in, int64_t channels, int64_t kernel) {
    Feature y = conv(model, name + "." + part, in, channels, {.kernel = kernel, .bias = true});
    return activate(model, name + "." + part + ".relu", y, Activation::kRelu);
  };
  const Feature s = layer("squeeze", x, squeezed, 1);
  return concat_channels(model, name + ".concat",
                         {layer("expand1x1", s, expanded, 1), layer("expand3x3", s, expanded, 3)});
}

}  // namespace

void squeezenet1_1(ModelBuilder& model, int64_t size) {
  Feature x = image_input(model, size);
  x = conv(model, "conv1", x, 64, {.kernel = 3, .stride = 2, .padding = 0, .bias = true});
  x = activate(model, "conv1.relu", x, Activation::kRelu);
  x = max_pool(model, "pool1", x, 3, 2, 0, true);
  x = fire(model, "fire2", x, 16, 64);
  x = fire(model, "fire3", x, 16, 64);
  x = max_pool(model, "pool3", x, 3, 2, 0, true);
  x = fire(model, "fire4", x, 32, 128);
  x = fire(model, "fire5", x, 32, 128);
  x = max_pool(model, "pool5", x, 3, 2, 0, true);
  x = fire(model, "fire6", x, 48, 192);
  x = fire(model, "fire7", x, 48, 192);
  x = fire(model, "fire8", x, 64, 256);
  x = fire(model, "fire9", x, 64, 256);
  x = conv(model, "conv10", x, 1000, {.kernel = 1, .bias = true});
  x = activate(model, "conv10.relu", x, Activation::kRelu);
  pooled_features(model, x);
  logits_output(model);
}

namespace {

constexpr int64_t kGrowth = 32;

/// Normalise, activate, convolve: the order of densely connected layers.
Feature norm_act_conv(ModelBuilder& model, const std::string& name, const Feature& x, int64_t channels,
                      int64_t kernel) {
  Feature y = batch_norm(model, name + ".bn", x);
  y = activate(model, name + ".relu", y, Activation::kRelu);
  return conv(model, name + ".conv", y, channels, {.kernel = kernel});
}

}  // namespace

void densenet121(ModelBuilder& model, int64_t size) {
  Feature x = image_input(model, size);
  x = conv_norm_act(model, "stem", x, 64, {.kernel = 7, .stride = 2}, Activation::kRelu);
  x = max_pool(model, "maxpool", x, 3, 2, 1);
  const std::vector<int> blocks = {6, 12, 24, 16};
  for (size_t block = 0; block < blocks.size(); ++block) {
    const std::string block_name = "dense" + std::to_string(block + 1);
    for (int layer = 0; layer < blocks[block]; ++layer) {
      const std::string name = block_name + "." + std::to_string(layer);
      Feature y = norm_act_conv(model, name + ".1", x, 4 * kGrowth, 1);
      y = norm_act_conv(model, name + ".2", y, kGrowth, 3);
      x = concat_channels(model, name + ".concat", {x, y});
    }
    if (block + 1 == blocks.size()) break;
    const std::string name = "transition" + std::to_string(block + 1);
    x = norm_act_conv(model, name, x, x.channels / 2, 1);
    x = {model.node("AveragePool", name + ".pool", {x.value},
                    {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}}),
         x.channels, x.size / 2};
  }
  x = activate(model, "final.relu", batch_norm(model, "final.bn", x), Activation::kRelu);
  linear(model, "classifier", pooled_features(model, x), x.channels, 1000);
  logits_output(model);
}

}  // namespace gantry::zoo
