// Random numbers: they follow from the node's seed, or from its name where it has none, and from the turns of
// the loops around it, and are the same in every run.
#include <bit>
#include <numbers>

#include "host/onnx/converters.h"
#include "host/onnx/importer.h"
#include "host/onnx/random.h"
#include "host/ops/elementwise.h"
#include "host/ops/random.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

/// FNV-1a.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

uint64_t seed_of(const NodeImport& n) {
  if (!n.has_attribute("seed")) return hash_of(n.name());
  return std::bit_cast<uint32_t>(static_cast<float>(n.number("seed", 0)));
}

/// Bits of a stream of the node's own, others in every turn of the loops around it.
Term stream(NodeImport& n, const Shape& shape, uint64_t index) {
  std::string origin = fmt::format("{} {}", seed_of(n), index);
  std::vector<Value*> turns;  // whose numbers only the running model knows
  for (const Turn& turn : n.turns()) {
    if (turn.number != nullptr)
      turns.push_back(turn.number);
    else
      origin += fmt::format(" {}", turn.known);
  }
  auto attrs = std::make_shared<RandomBitsAttrs>();
  attrs->shape = shape;
  attrs->seed = static_cast<int64_t>(hash_of(origin));
  return {n, n.add(op::random_bits, std::move(turns), attrs)};
}

/// 24 of the bits, as many as an f32 has.
Term fractions(const Term& bits) {
  const Term shift = Term::number(bits.node(), DType::kU64, 40);
  return bits.apply(op::shift_right, shift).cast(DType::kF32) * 0x1p-24;
}

Term uniform(NodeImport& n, const Shape& shape) {
  return fractions(stream(n, shape, 0)) * (n.number("high", 1) - n.number("low", 0)) + n.number("low", 0);
}

/// Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
Term normal(NodeImport& n, const Shape& shape) {
  const Term radius = sqrt(log(1.0 - fractions(stream(n, shape, 0))) * -2);  // of (0, 1]
  const Term angle = fractions(stream(n, shape, 1)) * (2 * std::numbers::pi);
  return radius * cos(angle) * n.number("scale", 1) + n.number("mean", 0);
}

Shape listed_shape(NodeImport& n) {
  const std::vector<int64_t> shape = n.integer_list("shape");
  return {shape.begin(), shape.end()};
}

DType result_type(NodeImport& n, DType otherwise) {
  return n.has_attribute("dtype") ? n.element_type("dtype") : otherwise;
}

using Draw = Term (*)(NodeImport&, const Shape&);

void convert_random(NodeImport& n, Draw draw) {
  n.set(0, draw(n, listed_shape(n)).cast(result_type(n, DType::kF32)));
}
void convert_random_like(NodeImport& n, Draw draw) {
  const TensorType like = n.type(0);
  n.set(0, draw(n, like.shape).cast(result_type(n, like.dtype)));
}

/// 1 with the probability that the input has there.
void convert_bernoulli(NodeImport& n) {
  const Term p = Term::input(n, 0);
  n.set(0, less(random_fractions(n, p.shape()), p.cast(DType::kF32)).cast(result_type(n, p.dtype())));
}

/// Classes drawn with the probabilities that their logarithms (B, classes), up to a constant, say.
void convert_multinomial(NodeImport& n) {
  const Term weights = softmax(Term::input(n, 0).cast(DType::kF32), -1);
  const int64_t count = n.integer("sample_size", 1);
  if (weights.rank() != 2 || count < 1) n.fail("does not draw {} samples of {}", count, n.type(0).str());
  auto attrs = std::make_shared<CumsumAttrs>();
  attrs->axis = 1;
  const Term sums(n, n.add(op::cumsum, {weights}, attrs));
  // A class is passed by where the sum up to it does not reach the number drawn; the last one never is.
  const Term drawn = random_fractions(n, {weights.dim(0), count});
  const Term bounds = sums.sliced(1, 0, weights.dim(1) - 1).unsqueezed(1);
  const Term passed = less_equal(bounds, drawn.unsqueezed(2)).cast(DType::kI32);
  n.set(0, sum(passed, {2}).cast(result_type(n, DType::kI32)));
}

}  // namespace

Term random_fractions(NodeImport& n, const Shape& shape) {
  return fractions(stream(n, shape, 0));
}

Term seeded_fractions(NodeImport& n, const Shape& shape) {
  auto attrs = std::make_shared<RandomBitsAttrs>();
  attrs->shape = shape;
  attrs->seed = n.integer("seed", 0);
  if (attrs->seed < 0 || attrs->seed > 0xFFFFFFFF) n.fail("its seed {} is none of 32 bits", attrs->seed);
  return {n, n.add(op::mersenne_fractions, {}, attrs)};
}

void add_random_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"RandomUniform", 1, [](NodeImport& n) { convert_random(n, uniform); }},
      {"RandomNormal", 1, [](NodeImport& n) { convert_random(n, normal); }},
      {"RandomUniformLike", 1, [](NodeImport& n) { convert_random_like(n, uniform); }},
      {"RandomNormalLike", 1, [](NodeImport& n) { convert_random_like(n, normal); }},
      {"Bernoulli", 15, convert_bernoulli},
      {"Multinomial", 7, convert_multinomial},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
