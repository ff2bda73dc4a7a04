#include "host/forms/product.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "host/costs/tile_model.h"
#include "host/forms/network_error.h"
#include "host/ops/fixed_point.h"
#include "host/support/divide.h"
#include "host/support/error.h"

namespace gantry::forms {
namespace {

/// Of an operand that is rounded to the nearest with 11 or 8 bits: f16 and TF32, bf16.
constexpr double kElevenBits = 0x1p-11, kEightBits = 0x1p-8;

const ProductType* find_product(std::string_view knob, int64_t value) {
  const auto types = product_types();
  const auto found = std::ranges::find_if(types, [&](const ProductType& type) {
    return !type.knob.empty() && type.knob == knob && type.value == value;
  });
  return found == types.end() ? nullptr : &*found;
}

}  // namespace

std::span<const ProductType> product_types() {
  static const ProductType types[] = {
      {.name = "f32"},
      {.name = "f16",
       .knob = "half",
       .value = 1,
       .data = DType::kF16,
       .weight = DType::kF16,
       .sum = DType::kF16,
       .element_error = kElevenBits,
       .sum_error = kElevenBits,
       .chain = costs::kHalfChunk,
       .chains = costs::kHalfChunks},
      // Integers of few bits by a range (host/ops/fixed_point.h), of which registers have f32.
      {.name = "fixed20",
       .knob = "bits",
       .value = 20,
       .weight = DType::kI32,
       .element_error = max_fixed_point_error(20)},
      {.name = "fixed24",
       .knob = "bits",
       .value = 24,
       .weight = DType::kI32,
       .element_error = max_fixed_point_error(24)},
      {.name = "bf16",
       .knob = "parts",
       .value = 1,
       .data = DType::kBF16,
       .weight = DType::kBF16,
       .on_tiles = true,
       .element_error = kEightBits},
      {.name = "two bf16 parts",
       .knob = "parts",
       .value = 2,
       .data = DType::kBF16,
       .weight = DType::kBF16,
       .parts = 2,
       .on_tiles = true,
       .element_error = 0x1p-17,
       .in_network = kTwoPartError},
      {.name = "three bf16 parts",
       .knob = "parts",
       .value = 3,
       .data = DType::kBF16,
       .weight = DType::kBF16,
       .parts = 3,
       .on_tiles = true,
       .element_error = 0x1p-22},
      {.name = "f16 on tile units",
       .knob = "parts",
       .value = 1,
       .data = DType::kF16,
       .weight = DType::kF16,
       .on_tiles = true,
       .element_error = kElevenBits},
      // Integers as they are, whose sums lose nothing.
      {.name = "u8 by i8",
       .knob = "parts",
       .value = 1,
       .data = DType::kU8,
       .weight = DType::kI8,
       .sum = DType::kI32,
       .on_tiles = true},
      // Of tensor cores, for the precision's sake; weights are rounded as they are read.
      {.name = "tf32 on tensor cores", .element_error = kElevenBits},
      {.name = "bf16 on tensor cores", .data = DType::kBF16, .element_error = kEightBits},
      {.name = "f16 on tensor cores", .data = DType::kF16, .element_error = kElevenBits},
  };
  return types;
}

const ProductType& product_type(std::string_view name) {
  const auto types = product_types();
  const auto found = std::ranges::find(types, name, &ProductType::name);
  internal_check(found != types.end(), "no product of {}", name);
  return *found;
}

const ProductType& decided_product(const Decision& decision) {
  for (const auto& [knob, value] : decision.knobs) {
    const ProductType* type = find_product(knob, value);
    if (type != nullptr && !type->on_tiles) return *type;
  }
  return product_types().front();
}

bool multiplies_as_they_are(DType data, DType weight) {
  return std::ranges::any_of(product_types(), [&](const ProductType& type) {
    return type.on_tiles && !is_float(type.data) && type.data == data && type.weight == weight;
  });
}

const ProductType& tile_unit_product(TileUnit unit, int64_t parts) {
  const TileGeometry& tile = geometry_of(unit);
  const auto types = product_types();
  const auto found = std::ranges::find_if(types, [&](const ProductType& type) {
    return type.on_tiles && type.data == tile.row_element && type.weight == tile.element &&
           type.parts == parts;
  });
  internal_check(found != types.end(), "no product of {} parts on {}", parts, name_of(unit));
  return *found;
}

const ProductType& gpu_product(Precision precision) {
  switch (precision) {
    case Precision::kTf32:
      return product_type("tf32 on tensor cores");
    case Precision::kBf16:
      return product_type("bf16 on tensor cores");
    case Precision::kFp16:
      return product_type("f16 on tensor cores");
    default:
      return product_types().front();
  }
}

bool says_product(std::string_view knob) {
  return !knob.empty() &&
         std::ranges::find(product_types(), knob, &ProductType::knob) != product_types().end();
}

bool is_product(std::string_view knob, int64_t value) {
  return find_product(knob, value) != nullptr;
}

void set_product(Decision& decision, const ProductType& type) {
  if (!type.knob.empty()) decision.set(std::string(type.knob), type.value);
}

Value* product_weight(const Decision& decision, Value* packed, WeightPacker& packer) {
  return decided_product(decision).weight == DType::kF16 ? packer.rounded_to_half(packed) : packed;
}

bool has_half_weights(const Node& node) {
  return node.inputs[1]->type.dtype == DType::kF16 && node.inputs[0]->type.dtype != DType::kF16;
}

double error_of(const ProductType& type, int64_t depth) {
  if (type.sum_error == 0) return type.element_error;
  const int64_t chains = ceil_div(depth, type.chain);
  const int64_t terms = std::min(depth, type.chain) + (chains > 1 ? std::min(chains, type.chains) : 0);
  return type.element_error + type.sum_error * std::sqrt(static_cast<double>(terms) / 2);
}

}  // namespace gantry::forms
