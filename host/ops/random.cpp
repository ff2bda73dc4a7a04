#include "host/ops/random.h"

#include <optional>

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

Expr bits(uint64_t value) {
  return int_imm(DType::kU64, static_cast<int64_t>(value));
}

Expr mixed(const Expr& state) {
  const auto folded = [](const Expr& z, uint64_t shift) {
    return binary(BinaryOp::kXor, z, binary(BinaryOp::kShr, z, bits(shift)));
  };
  const Expr first = folded(state, 30) * bits(0xBF58476D1CE4E5B9u);
  return folded(folded(first, 27) * bits(0x94D049BB133111EBu), 31);
}

/// The seed in those turns. Their factor is another than that of places, so that the seeds of turns are far
/// from each other in SplitMix64's sequence.
Expr seed_in(const std::vector<Tensor>& turns, int64_t seed) {
  std::optional<Expr> apart;
  for (const Tensor& turn : turns) {
    const Expr number = cast(DType::kU64, turn(std::vector<Expr>{}) + 1);
    apart = (apart ? binary(BinaryOp::kXor, *apart, number) : number) * bits(0xD1342543DE82EF95u);
  }
  const Expr own = bits(static_cast<uint64_t>(seed));
  return apart ? binary(BinaryOp::kXor, own, *apart) : own;
}

std::vector<Tensor> compute_bits(const Node& node, const std::vector<Tensor>& turns) {
  const auto& attrs = node.attrs_as<RandomBitsAttrs>();
  const std::vector<Expr> shape = to_exprs(attrs.shape);
  const auto body = [&](const std::vector<Expr>& i) {
    Expr place = 0;
    for (size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + i[d];
    return mixed(seed_in(turns, attrs.seed) + cast(DType::kU64, place + 1) * bits(0x9E3779B97F4A7C15u));
  };
  return {compute(shape, body, "random_bits")};
}

// --- MT19937

Expr word(uint32_t value) {
  return int_imm(DType::kU32, int64_t{value});
}
Expr bitwise(BinaryOp op, const Expr& a, uint32_t b) {
  return binary(op, a, word(b));
}
Expr exclusive(const Expr& a, const Expr& b) {
  return binary(BinaryOp::kXor, a, b);
}
Expr shifted(const Expr& a, uint32_t bits) {
  return bitwise(BinaryOp::kShr, a, bits);
}

constexpr int64_t kWords = 624, kDistance = 397;

/// The word that the state's word gives out.
Expr tempered(Expr y) {
  const auto mixed_left = [](const Expr& x, uint32_t bits, uint32_t mask) {
    return exclusive(x, bitwise(BinaryOp::kAnd, bitwise(BinaryOp::kShl, x, bits), mask));
  };
  y = exclusive(y, shifted(y, 11));
  y = mixed_left(mixed_left(y, 7, 0x9D2C5680u), 15, 0xEFC60000u);
  return exclusive(y, shifted(y, 18));
}

/// Draws word number `index` into place `half` of `drawn`; words are drawn in order.
void draw_word(LoopBuilder& b, const Buffer& state, const Buffer& drawn, const Expr& index,
               const Expr& half) {
  b.let("place", mod(index, kWords), [&](const Expr& place) {
    const Expr upper = bitwise(BinaryOp::kAnd, load(state, place), 0x80000000u);
    const Expr lower = bitwise(BinaryOp::kAnd, load(state, mod(place + 1, kWords)), 0x7FFFFFFFu);
    b.let("twisted", binary(BinaryOp::kOr, upper, lower), [&](const Expr& y) {
      const Expr odd = ne(bitwise(BinaryOp::kAnd, y, 1), word(0));
      const Expr far = load(state, mod(place + kDistance, kWords));
      b.let("next", exclusive(exclusive(far, shifted(y, 1)), select(odd, word(0x9908B0DFu), word(0))),
            [&](const Expr& next) {
              b.emit(store(state, place, next));
              b.emit(store(drawn, half, tempered(next)));
            });
    });
  });
}

void build_mersenne(LoopBuilder& b, uint32_t seed, const Expr& count) {
  const Buffer state = b.local("state", DType::kU32, kWords), drawn = b.local("drawn", DType::kU32, 2);
  b.emit(store(state, 0, word(seed)));
  b.loop("i", kWords - 1, [&](const Expr& i) {
    const Expr before = load(state, i);
    b.emit(store(state, i + 1,
                 word(1812433253u) * exclusive(before, shifted(before, 30)) + cast(DType::kU32, i + 1)));
  });
  const auto part = [&](const Expr& half, uint32_t dropped) {
    return cast(DType::kF64, shifted(load(drawn, half), dropped));
  };
  b.loop("i", count, [&](const Expr& i) {
    b.loop("half", 2, [&](const Expr& half) { draw_word(b, state, drawn, i * 2 + half, half); });
    const Expr bits = part(0, 5) * float_imm(DType::kF64, 0x1p26) + part(1, 6);
    b.emit(store(b.result(0), i, bits * float_imm(DType::kF64, 0x1p-53)));
  });
}

std::vector<Tensor> compute_mersenne(const Node& node, const std::vector<Tensor>&) {
  const auto& attrs = node.attrs_as<RandomBitsAttrs>();
  const auto body = [seed = static_cast<uint32_t>(attrs.seed), count = Expr(element_count(attrs.shape))](
                        LoopBuilder& b) { build_mersenne(b, seed, count); };
  return extern_kernel({}, {to_exprs(attrs.shape)}, {DType::kF64}, body, "mersenne_fractions");
}

OpDef define_random(const OpHandle& handle, FusionClass fusion, DType dtype) {
  OpDef op = ops::define(handle, fusion, LayoutBehaviour::kNone, {});
  op.infer = [dtype](const Node& node, Function&) {
    const TensorType number{DType::kI64, {}};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorType& turn = ops::input_type(node, i);
      ops::require(turn == number, "the number of a turn should be {}, not {}", number.str(), turn.str());
    }
    const Shape& shape = node.attrs_as<RandomBitsAttrs>().shape;
    for (const Dim& d : shape)
      ops::require(!d.is_constant() || d.value() >= 0, "the shape {} has a negative dimension",
                   to_string(shape));
    return std::vector<TensorType>{{dtype, shape}};
  };
  return op;
}

}  // namespace

void add_random_ops(OpSet& set) {
  OpDef bits = define_random(op::random_bits, FusionClass::kInjective, DType::kU64);
  bits.max_inputs = -1;
  bits.compute = compute_bits;
  set.add(std::move(bits));
  OpDef mersenne = define_random(op::mersenne_fractions, FusionClass::kOpaque, DType::kF64);
  mersenne.compute = compute_mersenne;
  set.add(std::move(mersenne));
}

}  // namespace gantry
