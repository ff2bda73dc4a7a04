// He et al., "Deep Residual Learning for Image Recognition", 2016; with the stride in the 3x3 convolution of
// bottlenecks, as the common implementations have it.
#include "host/zoo/layers.h"
#include "host/zoo/networks.h"

namespace gantry::zoo {
namespace {

constexpr double kBranchScale = 0.3;

Feature residual_block(ModelBuilder& model, const std::string& name, const Feature& x, int64_t planes,
                       int64_t stride, bool bottleneck) {
  const int64_t channels = bottleneck ? 4 * planes : planes;
  Feature y;
  if (bottleneck) {
    y = conv_norm_act(model, name + ".1", x, planes, {.kernel = 1}, Activation::kRelu);
    y = conv_norm_act(model, name + ".2", y, planes, {.kernel = 3, .stride = stride}, Activation::kRelu);
    y = conv_norm_act(model, name + ".3", y, channels, {.kernel = 1}, Activation::kNone, kBranchScale);
  } else {
    y = conv_norm_act(model, name + ".1", x, planes, {.kernel = 3, .stride = stride}, Activation::kRelu);
    y = conv_norm_act(model, name + ".2", y, planes, {.kernel = 3}, Activation::kNone, kBranchScale);
  }
  Feature shortcut = x;
  if (stride != 1 || x.channels != channels) {
    shortcut = conv_norm_act(model, name + ".downsample", x, channels,
                             {.kernel = 1, .stride = stride, .gain = 1}, Activation::kNone);
  }
  return activate(model, name + ".relu", add(model, name + ".add", y, shortcut), Activation::kRelu);
}

}  // namespace

void resnet(ModelBuilder& model, int64_t size, bool bottleneck, const std::vector<int>& blocks) {
  Feature x = image_input(model, size);
  x = conv_norm_act(model, "stem", x, 64, {.kernel = 7, .stride = 2}, Activation::kRelu);
  x = max_pool(model, "maxpool", x, 3, 2, 1);
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = residual_block(model, name, x, int64_t{64} << stage, stride, bottleneck);
    }
  }
  linear(model, "fc", pooled_features(model, x), x.channels, 1000);
  logits_output(model);
}

}  // namespace gantry::zoo
