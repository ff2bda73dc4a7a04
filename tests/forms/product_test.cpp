// The rows of the table of products, and the errors that they state.
#include "host/forms/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gantry::forms {
namespace {

TEST(ProductTypes, AreEachNamedOnceAndSaidByOneDecision) {
  std::set<std::string_view> names;
  std::set<std::pair<std::string_view, int64_t>> knobs;
  for (const ProductType& type : product_types()) {
    EXPECT_TRUE(names.insert(type.name).second) << type.name;
    EXPECT_EQ(&product_type(type.name), &type);
    if (type.knob.empty()) continue;
    EXPECT_TRUE(says_product(type.knob) && is_product(type.knob, type.value)) << type.name;
    if (type.on_tiles) continue;
    EXPECT_TRUE(knobs.insert({type.knob, type.value}).second) << type.name;
    Decision decision{"some", {{"block", 16}}};
    set_product(decision, type);
    EXPECT_EQ(&decided_product(decision), &type);
  }
  EXPECT_EQ(decided_product({"some", {{"block", 16}}}).name, "f32");
  EXPECT_EQ(decided_product({"some", {{"parts", 1}}}).name, "f32") << "what tile units multiply, they say";
  EXPECT_FALSE(is_product("bits", 22));
  EXPECT_FALSE(says_product("block"));
  EXPECT_FALSE(says_product(""));
}

TEST(ProductTypes, OfTileUnitsAreOfTheirElements) {
  std::set<const ProductType*> rows;
  for (const TileGeometry& tile : tile_units()) {
    for (int64_t parts = 1; parts <= (tile.element == DType::kBF16 ? 3 : 1); ++parts) {
      const ProductType& type = tile_unit_product(tile.unit, parts);
      EXPECT_TRUE(type.on_tiles) << type.name;
      EXPECT_EQ(type.weight, tile.element) << tile.name;
      EXPECT_EQ(type.parts, parts) << tile.name;
      rows.insert(&type);
    }
  }
  EXPECT_GE(rows.size(), 3u) << "bf16 in one to three parts";
}

/// Rounded to the nearest with so many bits behind the first.
double rounded(double value, int bits) {
  if (value == 0) return 0;
  const int exponent = std::ilogb(value);
  return std::ldexp(std::nearbyint(std::ldexp(value, bits - exponent)), exponent - bits);
}

int bits_behind_the_first(DType dtype) {
  return dtype == DType::kF16 ? 10 : dtype == DType::kBF16 ? 7 : 23;
}

/// Sums of operands that are rounded, in partial sums as the row has them.
double rounded_sum(const ProductType& type, const std::vector<double>& x, const std::vector<double>& w) {
  const int bits = bits_behind_the_first(type.data), sum_bits = bits_behind_the_first(type.sum);
  const auto chain = static_cast<size_t>(std::max<int64_t>(type.chain, 1)),
             chains = chain * static_cast<size_t>(type.chains);
  double sum = 0, of_chains = 0, of_terms = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    of_terms = rounded(of_terms + rounded(x[k], bits) * rounded(w[k], bits), sum_bits);
    if (type.chain == 0) continue;
    if ((k + 1) % chain == 0) of_chains = rounded(of_chains + std::exchange(of_terms, 0), sum_bits);
    if ((k + 1) % chains == 0) sum += std::exchange(of_chains, 0);
  }
  return sum + of_chains + of_terms;
}

/// Largest difference by largest result of many sums of `depth` products of normally distributed operands.
double seen_error(const ProductType& type, size_t depth) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  double largest = 0, difference = 0;
  for (int result = 0; result < 2000; ++result) {
    std::vector<double> x(depth), w(depth);
    double exact = 0;
    for (size_t k = 0; k < depth; ++k) {
      x[k] = normal(random);
      w[k] = normal(random);
      exact += x[k] * w[k];
    }
    largest = std::max(largest, std::abs(exact));
    difference = std::max(difference, std::abs(rounded_sum(type, x, w) - exact));
  }
  return difference / largest;
}

TEST(ProductTypes, StateTheErrorOfSumsOfTheirProducts) {
  for (const char* name :
       {"f16", "bf16", "f16 on tile units", "bf16 on tensor cores", "f16 on tensor cores"}) {
    const ProductType& type = product_type(name);
    for (const int64_t depth : {8, 64, 1024}) {
      const double seen = seen_error(type, static_cast<size_t>(depth)), stated = error_of(type, depth);
      EXPECT_LE(seen, 1.5 * stated) << name << " over " << depth;
      EXPECT_GE(seen, stated / 6) << name << " over " << depth;
    }
  }
}

TEST(ProductTypes, OfIntegersLoseNothing) {
  const ProductType& type = product_type("u8 by i8");
  EXPECT_EQ(type.sum, DType::kI32);
  for (const int64_t depth : {8, 1024}) EXPECT_EQ(error_of(type, depth), 0);
}

TEST(ProductTypes, OfMorePartsOrBitsAreMoreExact) {
  const auto error = [](std::string_view name, int64_t depth) { return error_of(product_type(name), depth); };
  EXPECT_GT(error("bf16", 256), error("two bf16 parts", 256));
  EXPECT_GT(error("two bf16 parts", 256), error("three bf16 parts", 256));
  EXPECT_GT(error("fixed20", 256), error("fixed24", 256));
  EXPECT_EQ(error("f32", 4096), 0) << "beyond what sums in f32 are off by";
  EXPECT_GT(error("f16", 32), error("f16", 4)) << "chains of partial sums in f16";
  EXPECT_GT(error("f16", 256), error("f16", 32)) << "and chains of those";
  EXPECT_EQ(error("f16", 4096), error("f16", 512)) << "which have an end";
}

TEST(ProductTypes, OfGpusAreOfThePrecision) {
  EXPECT_EQ(gpu_product(Precision::kFp32).element_error, 0);
  EXPECT_EQ(gpu_product(Precision::kTf32).element_error, gpu_product(Precision::kFp16).element_error);
  EXPECT_GT(gpu_product(Precision::kBf16).element_error, gpu_product(Precision::kFp16).element_error);
}

}  // namespace
}  // namespace gantry::forms
