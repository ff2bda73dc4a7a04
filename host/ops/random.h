// Numbers that look random and follow from a seed. Those of random_bits follow from it and their place alone,
// so that they are the same in every order of computation.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// random_bits(turns...): u64 whose bits are independent and uniform; element i is the (i + 1)th number of
/// SplitMix64 that begins with the seed (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014). Numbers of turns, i64 scalars of any count, make other seeds of it: those of the loops
/// around the node, the outermost first.
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
/// mersenne_fractions (no inputs): f64 in [0, 1), of which element i is the (i + 1)th that
/// numpy.random.RandomState(seed) draws: 53 bits of two words of MT19937 (Matsumoto and Nishimura, "Mersenne
/// Twister", 1998). One thread draws them all.
inline constexpr Op<RandomBitsAttrs> mersenne_fractions{"mersenne_fractions"};
}  // namespace op

}  // namespace gantry
