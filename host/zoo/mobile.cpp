// Sandler et al., "MobileNetV2", 2018; Howard et al., "Searching for MobileNetV3", 2019 (large); Tan and Le,
// "EfficientNet", 2019 (B0); Ma et al., "ShuffleNet V2", 2018 (1x).
#include <algorithm>

#include "host/zoo/layers.h"
#include "host/zoo/networks.h"

namespace gantry::zoo {
namespace {

constexpr double kBranchScale = 0.5;

/// The gain that makes up for what an activation takes from a unit normal's second moment.
double gain_after(Activation activation) {
  return activation == Activation::kSilu || activation == Activation::kHardSwish ? 2.8 : 2;
}

/// What an inverted bottleneck is made of: expand, depthwise convolution, attention, project.
struct InvertedBottleneck {
  int64_t kernel, stride, expanded, channels;
  Activation activation;
  int64_t squeezed = 0;  ///< 0: no attention
  Activation squeeze_activation = Activation::kRelu;
  Activation gate = Activation::kSigmoid;
};

Feature inverted_bottleneck(ModelBuilder& model, const std::string& name, const Feature& x,
                            const InvertedBottleneck& block) {
  Feature y = x;
  if (block.expanded != x.channels) {
    y = conv_norm_act(model, name + ".expand", y, block.expanded, {.kernel = 1, .gain = 1}, block.activation);
  }
  y = conv_norm_act(model, name + ".depthwise", y, block.expanded,
                    {.kernel = block.kernel,
                     .stride = block.stride,
                     .groups = block.expanded,
                     .gain = gain_after(block.activation)},
                    block.activation);
  // A gate lets a part of the signal through.
  const double gain = gain_after(block.activation) * (block.squeezed > 0 ? 2.5 : 1);
  if (block.squeezed > 0) {
    y = squeeze_excite(model, name + ".se", y, block.squeezed, block.squeeze_activation, block.gate);
  }
  const bool residual = block.stride == 1 && block.channels == x.channels;
  y = conv_norm_act(model, name + ".project", y, block.channels, {.kernel = 1, .gain = gain},
                    Activation::kNone, residual ? kBranchScale : 1);
  return residual ? add(model, name + ".add", x, y) : y;
}

}  // namespace

void mobilenet_v2(ModelBuilder& model, int64_t size) {
  struct Stage {
    int64_t expansion, channels;
    int repeats;
    int64_t stride;
  };
  const std::vector<Stage> stages = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                     {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Feature x = image_input(model, size);
  x = conv_norm_act(model, "stem", x, 32, {.kernel = 3, .stride = 2}, Activation::kRelu6);
  int index = 1;
  for (const Stage& stage : stages) {
    for (int i = 0; i < stage.repeats; ++i) {
      x = inverted_bottleneck(model, "block" + std::to_string(index++), x,
                              {.kernel = 3,
                               .stride = i == 0 ? stage.stride : 1,
                               .expanded = x.channels * stage.expansion,
                               .channels = stage.channels,
                               .activation = Activation::kRelu6});
    }
  }
  x = conv_norm_act(model, "head", x, 1280, {.kernel = 1, .gain = 1}, Activation::kRelu6);
  linear(model, "classifier", pooled_features(model, x), 1280, 1000);
  logits_output(model);
}

void mobilenet_v3(ModelBuilder& model, int64_t size) {
  struct Block {
    int64_t kernel, expanded, channels;
    bool attention, hard_swish;
    int64_t stride;
  };
  const std::vector<Block> blocks = {
      {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
      {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
      {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
      {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
      {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
  Feature x = image_input(model, size);
  x = conv_norm_act(model, "stem", x, 16, {.kernel = 3, .stride = 2}, Activation::kHardSwish);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    const int64_t squeezed = block.attention ? round_channels(static_cast<double>(block.expanded) / 4) : 0;
    x = inverted_bottleneck(model, "block" + std::to_string(i + 1), x,
                            {block.kernel, block.stride, block.expanded, block.channels,
                             block.hard_swish ? Activation::kHardSwish : Activation::kRelu, squeezed,
                             Activation::kRelu, Activation::kHardSigmoid});
  }
  x = conv_norm_act(model, "head", x, 960, {.kernel = 1, .gain = 1}, Activation::kHardSwish);
  Feature y = {linear(model, "classifier.0", pooled_features(model, x), 960, 1280, 2), 1280, 1};
  y = activate(model, "classifier.act", y, Activation::kHardSwish);
  linear(model, "classifier.1", y.value, 1280, 1000);
  logits_output(model);
}

void efficientnet_b0(ModelBuilder& model, int64_t size) {
  struct Stage {
    int64_t expansion, kernel, stride, channels;
    int repeats;
  };
  const std::vector<Stage> stages = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                                     {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  Feature x = image_input(model, size);
  x = conv_norm_act(model, "stem", x, 32, {.kernel = 3, .stride = 2}, Activation::kSilu);
  int index = 1;
  for (const Stage& stage : stages) {
    for (int i = 0; i < stage.repeats; ++i) {
      x = inverted_bottleneck(
          model, "block" + std::to_string(index++), x,
          {stage.kernel, i == 0 ? stage.stride : 1, x.channels * stage.expansion, stage.channels,
           Activation::kSilu, std::max<int64_t>(1, x.channels / 4), Activation::kSilu, Activation::kSigmoid});
    }
  }
  x = conv_norm_act(model, "head", x, 1280, {.kernel = 1, .gain = 1}, Activation::kSilu);
  linear(model, "classifier", pooled_features(model, x), 1280, 1000);
  logits_output(model);
}

namespace {

/// Interleaves the two halves of the channels: (N, 2, C/2, H, W) -> (N, C/2, 2, H, W).
Feature shuffle_channels(ModelBuilder& model, const std::string& name, const Feature& x) {
  const std::string split_shape =
      model.int64_constant(name + ".split_shape", {0, 2, x.channels / 2, x.size, x.size});
  const std::string joined_shape =
      model.int64_constant(name + ".joined_shape", {0, x.channels, x.size, x.size});
  std::string y = model.node("Reshape", name + ".split", {x.value, split_shape});
  y = model.node("Transpose", name + ".transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}});
  return {model.node("Reshape", name + ".join", {y, joined_shape}), x.channels, x.size};
}

Feature shuffle_branch(ModelBuilder& model, const std::string& name, const Feature& x, int64_t channels,
                       int64_t stride) {
  Feature y = conv_norm_act(model, name + ".1", x, channels, {.kernel = 1}, Activation::kRelu);
  y = conv_norm_act(model, name + ".2", y, channels, {.kernel = 3, .stride = stride, .groups = channels},
                    Activation::kNone);
  return conv_norm_act(model, name + ".3", y, channels, {.kernel = 1, .gain = 1}, Activation::kRelu);
}

Feature shuffle_unit(ModelBuilder& model, const std::string& name, const Feature& x, int64_t channels,
                     int64_t stride) {
  const int64_t half = channels / 2;
  Feature left = x, right = x;
  if (stride == 1) {
    const auto parts = model.node_with_outputs(
        "Split", name + ".halves", {x.value, model.int64_constant(name + ".halves.sizes", {half, half})}, 2,
        {{"axis", int64_t{1}}});
    left = {parts[0], half, x.size};
    right = {parts[1], half, x.size};
  } else {
    left = conv_norm_act(model, name + ".left.1", x, x.channels,
                         {.kernel = 3, .stride = stride, .groups = x.channels}, Activation::kNone);
    left = conv_norm_act(model, name + ".left.2", left, half, {.kernel = 1, .gain = 1}, Activation::kRelu);
  }
  right = shuffle_branch(model, name + ".right", right, half, stride);
  return shuffle_channels(model, name + ".shuffle", concat_channels(model, name + ".concat", {left, right}));
}

}  // namespace

void shufflenet_v2(ModelBuilder& model, int64_t size) {
  Feature x = image_input(model, size);
  x = conv_norm_act(model, "stem", x, 24, {.kernel = 3, .stride = 2}, Activation::kRelu);
  x = max_pool(model, "maxpool", x, 3, 2, 1);
  const std::vector<std::pair<int64_t, int>> stages = {{116, 4}, {232, 8}, {464, 4}};
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (int unit = 0; unit < stages[stage].second; ++unit) {
      const std::string name = "stage" + std::to_string(stage + 2) + "." + std::to_string(unit);
      x = shuffle_unit(model, name, x, stages[stage].first, unit == 0 ? 2 : 1);
    }
  }
  x = conv_norm_act(model, "head", x, 1024, {.kernel = 1}, Activation::kRelu);
  linear(model, "fc", pooled_features(model, x), 1024, 1000);
  logits_output(model);
}

}  // namespace gantry::zoo
