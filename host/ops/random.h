// random_bits: numbers that look random and follow from a seed and their place alone, so that they are the
// same on every target and in every order of computation.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// random_bits (no inputs): u64 whose bits are independent and uniform; element i is the (i + 1)th number of
/// SplitMix64 that begins with the seed (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
struct RandomBitsAttrs : AttrsOf<RandomBitsAttrs> {
  Shape shape;
  int64_t seed = 0;
  void fields(AttrVisitor& visit) override {
    visit.always("shape", shape);
    visit("seed", seed);
  }
};

namespace op {
inline constexpr Op<RandomBitsAttrs> random_bits{"random_bits"};
}  // namespace op

}  // namespace gantry
