// Attributes of normalisations and softmax. All are kernels of several stages that elementwise ops may
// follow, except nn.batch_norm, which is elementwise itself.
#pragma once

#include "host/graph/op_handle.h"
#include "host/ops/image.h"

namespace gantry {

/// nn.softmax, nn.log_softmax, nn.hardmax. Stages: "softmax_max", "softmax_exp",
/// "softmax_sum", "softmax" (logarithms: no "softmax_exp").
struct SoftmaxAttrs : AttrsOf<SoftmaxAttrs> {
  int64_t axis = -1;  ///< normalised: 0 <= axis < rank
  void fields(AttrVisitor& visit) override { visit("axis", axis); }
};

/// nn.batch_norm(x, scale, bias, mean, var): (x - mean) / sqrt(var + epsilon) * scale + bias, along `axis`.
/// What is beside f16 or bf16 data is of their dtype or f32, each for itself.
struct BatchNormAttrs : AttrsOf<BatchNormAttrs> {
  double epsilon = 1e-5;
  int64_t axis = 1;
  void fields(AttrVisitor& visit) override {
    visit("epsilon", epsilon);
    visit("axis", axis);
  }
};

/// nn.instance_norm(x, scale, bias): normalised over the spatial axes of each sample and channel.
/// nn.group_norm(x, scale, bias): over groups of channels too. Stages: "norm_mean", "norm_variance", "norm".
struct GroupNormAttrs : ImageAttrsOf<GroupNormAttrs> {
  int64_t groups = 1;  ///< nn.group_norm only
  double epsilon = 1e-5;
  /// nn.instance_norm only: the first so many channels are normalised, scale and bias have as many elements,
  /// and the other channels pass through; 0: all.
  int64_t normalized = 0;
  void fields(AttrVisitor& visit) override;
};

/// nn.layer_norm(x, scale, optional bias): over axes >= axis; results y, and nothing more.
struct LayerNormAttrs : AttrsOf<LayerNormAttrs> {
  int64_t axis = -1;  ///< normalised: 0 <= axis < rank
  double epsilon = 1e-5;
  void fields(AttrVisitor& visit) override {
    visit("axis", axis);
    visit("epsilon", epsilon);
  }
};

/// nn.lrn: x / (bias + alpha/size * sum of squares over `size` neighbouring channels)^beta.
struct LrnAttrs : ImageAttrsOf<LrnAttrs> {
  int64_t size = 1;
  double alpha = 1e-4, beta = 0.75, bias = 1;
  void fields(AttrVisitor& visit) override;
};

/// nn.lp_normalize: x / (sum |x|^p)^(1/p) along an axis; p is 1 or 2.
struct LpNormAttrs : AttrsOf<LpNormAttrs> {
  int64_t axis = -1;  ///< normalised
  int64_t p = 2;
  void fields(AttrVisitor& visit) override {
    visit("axis", axis);
    visit("p", p);
  }
};

namespace nn {
inline constexpr Op<SoftmaxAttrs> softmax{"nn.softmax"};
inline constexpr Op<SoftmaxAttrs> log_softmax{"nn.log_softmax"};
inline constexpr Op<SoftmaxAttrs> hardmax{"nn.hardmax"};
inline constexpr Op<BatchNormAttrs> batch_norm{"nn.batch_norm"};
inline constexpr Op<GroupNormAttrs> instance_norm{"nn.instance_norm"};
inline constexpr Op<GroupNormAttrs> group_norm{"nn.group_norm"};
inline constexpr Op<LayerNormAttrs> layer_norm{"nn.layer_norm"};
inline constexpr Op<LrnAttrs> lrn{"nn.lrn"};
inline constexpr Op<LpNormAttrs> lp_normalize{"nn.lp_normalize"};
}  // namespace nn

}  // namespace gantry
