// The layers that image networks are made of, as ONNX nodes with seeded weights.
#pragma once

#include <string>

#include "host/zoo/builder.h"

namespace gantry::zoo {

/// A feature map (batch, channels, size, size).
struct Feature {
  std::string value;
  int64_t channels = 0;
  int64_t size = 0;
};

enum class Activation { kNone, kRelu, kRelu6, kSilu, kSigmoid, kHardSwish, kHardSigmoid };

struct Convolution {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t groups = 1;
  int64_t padding = -1;  ///< -1: kernel / 2
  bool bias = false;
  /// Weights have variance gain / fan-in: 2 keeps the scale behind a ReLU (He et al., 2015), 1 behind no
  /// activation.
  double gain = 2;
};

/// The image input "input": (batch, 3, size, size).
Feature image_input(ModelBuilder& model, int64_t size);
Feature conv(ModelBuilder& model, const std::string& name, const Feature& x, int64_t channels,
             const Convolution& options);
/// Inference-form BatchNormalization. `scale`: about what the layer multiplies by; residual branches end with
/// a small one, so that deep networks keep their activations in range.
Feature batch_norm(ModelBuilder& model, const std::string& name, const Feature& x, double scale = 1);
Feature activate(ModelBuilder& model, const std::string& name, const Feature& x, Activation activation);
/// Convolution "NAME.conv", "NAME.bn" and activation "NAME.act".
Feature conv_norm_act(ModelBuilder& model, const std::string& name, const Feature& x, int64_t channels,
                      const Convolution& options, Activation activation, double scale = 1);
Feature max_pool(ModelBuilder& model, const std::string& name, const Feature& x, int64_t kernel,
                 int64_t stride, int64_t padding, bool ceil_mode = false);
Feature add(ModelBuilder& model, const std::string& name, const Feature& a, const Feature& b);
Feature concat_channels(ModelBuilder& model, const std::string& name, const std::vector<Feature>& features);
/// Channel attention (Hu et al., "Squeeze-and-Excitation Networks", 2018): x *
/// gate(fc2(inner(fc1(mean(x))))).
Feature squeeze_excite(ModelBuilder& model, const std::string& name, const Feature& x, int64_t squeezed,
                       Activation inner, Activation gate);
/// Global average and flatten: (batch, channels).
std::string pooled_features(ModelBuilder& model, const Feature& x);
/// y = x W^T + b, W stored (outputs, inputs).
std::string linear(ModelBuilder& model, const std::string& name, const std::string& x, int64_t inputs,
                   int64_t outputs, double gain = 1);
/// Declares the output "logits": (batch, classes) of the node added last.
void logits_output(ModelBuilder& model, int64_t classes = 1000);
/// The number of channels rounded to a multiple of 8, never by more than a tenth down (MobileNet's rule).
int64_t round_channels(double channels);

}  // namespace gantry::zoo
