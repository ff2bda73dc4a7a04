#include "device_runtime/src/dim_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using module_format::DimOpcode;
using module_format::DimStep;
using ::testing::HasSubstr;

/// A manifest with one expression, as the reader sees it.
class DimProgramTest : public ::testing::Test {
 protected:
  const module_format::DimExpr& program(std::vector<DimStep> steps) {
    module_format::ManifestT manifest;
    manifest.symbols = {"N", "M"};
    auto expression = std::make_unique<module_format::DimExprT>();
    expression->steps = std::move(steps);
    manifest.dim_exprs.push_back(std::move(expression));
    builder_.Clear();
    builder_.Finish(module_format::Manifest::Pack(builder_, &manifest), module_format::ManifestIdentifier());
    return *this->manifest().dim_exprs()->Get(0);
  }
  const module_format::Manifest& manifest() const {
    return *module_format::GetManifest(builder_.GetBufferPointer());
  }
  Result<int64_t> binary(DimOpcode opcode, int64_t a, int64_t b) {
    return evaluate_dim(program({{a, DimOpcode::Constant}, {b, DimOpcode::Constant}, {0, opcode}}), {});
  }
  flatbuffers::FlatBufferBuilder builder_;
};

TEST_F(DimProgramTest, DivisionRoundsDownAndModuloHasTheDivisorsSign) {
  for (int64_t a = -7; a <= 7; ++a) {
    for (int64_t b : {-3, -1, 1, 2, 5}) {
      const auto quotient = static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
      EXPECT_EQ(*binary(DimOpcode::FloorDiv, a, b), quotient) << a << " " << b;
      EXPECT_EQ(*binary(DimOpcode::Mod, a, b), a - quotient * b) << a << " " << b;
    }
  }
}

TEST_F(DimProgramTest, OverflowAndDivisionByZeroAreErrors) {
  EXPECT_FALSE(binary(DimOpcode::Add, INT64_MAX, 1).ok());
  EXPECT_FALSE(binary(DimOpcode::Mul, INT64_MAX, 2).ok());
  EXPECT_FALSE(binary(DimOpcode::FloorDiv, 1, 0).ok());
  EXPECT_FALSE(binary(DimOpcode::FloorDiv, INT64_MIN, -1).ok());
  EXPECT_FALSE(binary(DimOpcode::Mod, 1, 0).ok());
  EXPECT_EQ(*binary(DimOpcode::Mod, INT64_MIN, -1), 0);
}

TEST_F(DimProgramTest, EvaluatesWithSymbols) {
  const auto& twice_n_plus_m = program({{0, DimOpcode::Symbol},
                                        {2, DimOpcode::Constant},
                                        {0, DimOpcode::Mul},
                                        {1, DimOpcode::Symbol},
                                        {0, DimOpcode::Add}});
  const int64_t symbols[] = {5, 3};
  EXPECT_TRUE(check_dim_program(twice_n_plus_m, 2).ok());
  EXPECT_EQ(*evaluate_dim(twice_n_plus_m, symbols), 13);
  EXPECT_EQ(dim_text(twice_n_plus_m, manifest()), "N*2+M");
}

TEST_F(DimProgramTest, RefusesBrokenPrograms) {
  const auto message = [&](std::vector<DimStep> steps) {
    return check_dim_program(program(steps), 2).message();
  };
  EXPECT_THAT(message({}), HasSubstr("leaves 0 values"));
  EXPECT_THAT(message({{0, DimOpcode::Add}}), HasSubstr("without its operands"));
  EXPECT_THAT(message({{2, DimOpcode::Symbol}}), HasSubstr("symbol 2 of 2"));
  EXPECT_THAT(message({{-1, DimOpcode::Symbol}}), HasSubstr("symbol -1"));
  EXPECT_THAT(message({{1, DimOpcode::Constant}, {1, DimOpcode::Constant}}), HasSubstr("leaves 2 values"));
  EXPECT_THAT(message({{1, static_cast<DimOpcode>(99)}}), HasSubstr("unknown opcode 99"));
  EXPECT_THAT(message(std::vector<DimStep>(65, {1, DimOpcode::Constant})), HasSubstr("nests too deeply"));
  EXPECT_THAT(message(std::vector<DimStep>(5000, {1, DimOpcode::Constant})), HasSubstr("too long"));
}

}  // namespace
}  // namespace gantry::runtime
