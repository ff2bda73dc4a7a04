// Attributes of elementwise and broadcasting ops; those that are not listed have none.
#pragma once

#include <limits>

#include "host/graph/attrs.h"

namespace gantry {

/// Of activations with one to three numbers: what they mean, an activation's formula says (host/ops/activation.h).
struct ActivationAttrs : AttrsOf<ActivationAttrs> {
  double alpha = 1, beta = 0, gamma = 1;
  void fields(AttrVisitor& visit) override {
    visit("alpha", alpha);
    visit("beta", beta);
    visit("gamma", gamma);
  }
};

/// nn.gelu: with erf, or with the tanh approximation.
struct GeluAttrs : AttrsOf<GeluAttrs> {
  bool approximate = false;
  void fields(AttrVisitor& visit) override { visit("approximate", approximate); }
};

/// clip: min(max(x, min), max); infinities for no bound.
struct ClipAttrs : AttrsOf<ClipAttrs> {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  void fields(AttrVisitor& visit) override {
    visit("min", min);
    visit("max", max);
  }
};

struct CastAttrs : AttrsOf<CastAttrs> {
  DType to = DType::kF32;
  void fields(AttrVisitor& visit) override { visit.always("to", to); }
};

/// mod: fmod has the sign of the dividend, else that of the divisor.
struct ModAttrs : AttrsOf<ModAttrs> {
  bool fmod = false;
  void fields(AttrVisitor& visit) override { visit("fmod", fmod); }
};

struct IsInfAttrs : AttrsOf<IsInfAttrs> {
  bool detect_negative = true, detect_positive = true;
  void fields(AttrVisitor& visit) override {
    visit("detect_negative", detect_negative);
    visit("detect_positive", detect_positive);
  }
};

/// shift_left / shift_right have none.

}  // namespace gantry
