#include "host/cli/made_up_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/support/error.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::cli {
namespace {

using module_format::DimOpcode;
using module_format::SizeMeaning;
using runtime::testing::ModuleBuilder;
using Shapes = std::vector<std::vector<int64_t>>;

/// An image of three colours.
ModuleBuilder image_module() {
  ModuleBuilder builder;
  const uint32_t n = builder.symbol("N"), three = builder.constant(3), h = builder.symbol("H"),
                 w = builder.symbol("W");
  builder.add_input("x", {n, three, h, w});
  builder.add_output("y", {n});
  builder.manifest.symbol_meanings = {SizeMeaning::Batch, SizeMeaning::Height, SizeMeaning::Width};
  return builder;
}

void constrain(ModuleBuilder& builder, uint32_t left, uint32_t right) {
  auto constraint = std::make_unique<module_format::ConstraintT>();
  constraint->left = left;
  constraint->right = right;
  builder.manifest.constraints.push_back(std::move(constraint));
}

std::vector<ChosenShape> choose(ModuleBuilder& builder, const Shapes& shapes,
                                const std::map<std::string, int64_t>& sizes = {}) {
  const std::vector<std::byte> bytes = builder.write_manifest();
  return choose_sizes(*module_format::GetManifest(bytes.data()), sizes, shapes);
}

Shapes shapes_of(const std::vector<ChosenShape>& chosen) {
  Shapes shapes;
  for (const ChosenShape& shape : chosen) shapes.push_back(shape.shape);
  return shapes;
}

TEST(MadeUpSizes, AreUsualForWhatTheyMeasure) {
  ModuleBuilder builder = image_module();
  const auto chosen = choose(builder, {{-1, 3, -1, -1}});
  EXPECT_EQ(chosen.at(0).shape, (std::vector<int64_t>{1, 3, 224, 224}));
  EXPECT_EQ(chosen_text(chosen[0].sizes), "batch 1, height 224, width 224");
  EXPECT_EQ(chosen[0].sizes.at(1).symbol, "H");
  EXPECT_EQ(chosen[0].sizes.at(1).axis, 2u);
  EXPECT_EQ(chosen[0].sizes.at(1).reason, "usual for the height of an image");
}

TEST(MadeUpSizes, LeaveAloneWhatIsGiven) {
  ModuleBuilder builder = image_module();
  const auto chosen = choose(builder, {{-1, 3, 100, -1}});
  EXPECT_EQ(chosen.at(0).shape, (std::vector<int64_t>{1, 3, 100, 224}));
  EXPECT_EQ(chosen_text(chosen[0].sizes), "batch 1, width 224");
  EXPECT_EQ(choose(builder, {{-1, 3, -1, -1}}, {{"N", 4}, {"W", 7}}).at(0).shape,
            (std::vector<int64_t>{4, 3, 224, 7}));
}

std::unique_ptr<module_format::ConstraintT> equal(uint32_t left, uint32_t right) {
  auto constraint = std::make_unique<module_format::ConstraintT>();
  constraint->left = left;
  constraint->right = right;
  return constraint;
}

/// A state whose second dimension a branch takes for the batch.
ModuleBuilder module_with_a_branch() {
  ModuleBuilder builder;
  const uint32_t batch = builder.symbol("batch"), state = builder.symbol("state_d1"),
                 two = builder.constant(2);
  builder.add_input("x", {batch});
  builder.add_input("state", {two, state});
  builder.add_output("y", {batch});
  builder.manifest.symbol_meanings = {SizeMeaning::Batch, SizeMeaning::Length};
  auto branch = std::make_unique<module_format::PlanT>();
  branch->constraints.push_back(equal(state, batch));
  builder.variant().plans.push_back(std::move(branch));
  return builder;
}

TEST(MadeUpSizes, FitBranchesToo) {
  ModuleBuilder builder = module_with_a_branch();
  EXPECT_EQ(shapes_of(choose(builder, {{-1}, {2, -1}})), (Shapes{{1}, {2, 1}}));
  EXPECT_EQ(shapes_of(choose(builder, {{3}, {2, -1}})), (Shapes{{3}, {2, 3}}));
}

TEST(MadeUpSizes, FitTheModelAloneWhereBranchesContradictEachOther) {
  ModuleBuilder builder = module_with_a_branch();
  builder.variant().plans[0]->constraints.push_back(equal(builder.symbol("batch"), builder.constant(5)));
  builder.variant().plans[0]->constraints.push_back(equal(builder.symbol("batch"), builder.constant(6)));
  EXPECT_EQ(shapes_of(choose(builder, {{-1}, {2, -1}})), (Shapes{{1}, {2, 128}}));
}

TEST(MadeUpSizes, AreEqualWhereTheModuleHasAProgramForThat) {
  ModuleBuilder builder = module_with_a_branch();
  builder.variant().plans.clear();
  EXPECT_EQ(shapes_of(choose(builder, {{-1}, {2, -1}})), (Shapes{{1}, {2, 128}}));
  builder.variant().equal.push_back(equal(builder.symbol("state_d1"), builder.symbol("batch")));
  EXPECT_EQ(shapes_of(choose(builder, {{-1}, {2, -1}})), (Shapes{{1}, {2, 1}}));
}

TEST(MadeUpSizes, HoldTheModelsConstraints) {
  // 33 <= H <= 80 as of a line of text: floordiv(H+15, 48) == 1.
  ModuleBuilder builder = image_module();
  const uint32_t h = builder.symbol("H");
  constrain(builder,
            builder.combine(DimOpcode::FloorDiv, builder.combine(DimOpcode::Add, h, builder.constant(15)),
                            builder.constant(48)),
            builder.constant(1));
  const auto chosen = choose(builder, {{-1, 3, -1, -1}});
  EXPECT_EQ(chosen.at(0).shape, (std::vector<int64_t>{1, 3, 48, 224})) << "the height alone is bound";
  EXPECT_THAT(chosen[0].sizes.at(1).reason, testing::HasSubstr("constraints allow"));
}

TEST(MadeUpSizes, AreEqualWhereTheModelAddsThem) {
  ModuleBuilder builder = image_module();
  constrain(builder, builder.symbol("H"),
            builder.combine(DimOpcode::Mul, builder.symbol("W"), builder.constant(2)));
  const Shapes shapes = shapes_of(choose(builder, {{-1, 3, -1, -1}}));
  EXPECT_EQ(shapes.at(0).at(2), 2 * shapes[0].at(3));
}

TEST(MadeUpSizes, BeyondTheUsualOnesAreTheSmallestThatFit) {
  ModuleBuilder builder = image_module();
  constrain(builder, builder.combine(DimOpcode::Mod, builder.symbol("H"), builder.constant(97)),
            builder.constant(3));
  const auto chosen = choose(builder, {{-1, 3, -1, -1}});
  EXPECT_EQ(chosen.at(0).shape.at(2), 3);
  EXPECT_THAT(chosen[0].sizes.at(1).reason, testing::HasSubstr("smallest"));
}

/// Images of which all sizes are open and channels, rows and columns are `elements` together.
ModuleBuilder flattened_module(int64_t elements) {
  ModuleBuilder builder;
  const uint32_t n = builder.symbol("N"), c = builder.symbol("C"), h = builder.symbol("H"),
                 w = builder.symbol("W");
  builder.add_input("x", {n, c, h, w});
  builder.add_output("y", {n});
  builder.manifest.symbol_meanings = {SizeMeaning::Batch, SizeMeaning::Channels, SizeMeaning::Height,
                                      SizeMeaning::Width};
  const uint32_t rows = builder.combine(DimOpcode::Mul, c, h);
  constrain(builder, builder.combine(DimOpcode::Mul, rows, w), builder.constant(elements));
  return builder;
}

TEST(MadeUpSizes, BeyondTheUsualOnesAreOfOneSymbolIfThatIsEnough) {
  ModuleBuilder builder = flattened_module(784);
  const auto chosen = choose(builder, {{-1, -1, -1, -1}});
  EXPECT_EQ(chosen.at(0).shape, (std::vector<int64_t>{1, 1, 16, 49}));
  EXPECT_THAT(chosen[0].sizes.at(2).reason, testing::HasSubstr("usual"));
  EXPECT_THAT(chosen[0].sizes.at(3).reason, testing::HasSubstr("smallest"));
}

TEST(MadeUpSizes, OfManySymbolsAreSearchedForOnlySoLong) {
  ModuleBuilder builder = flattened_module(2053);  // a prime number above all that are tried
  const auto chosen = choose(builder, {{-1, -1, -1, -1}});
  EXPECT_EQ(chosen.at(0).shape, (std::vector<int64_t>{1, 1, 1, 1}));
  for (const ChosenSize& size : chosen[0].sizes)
    EXPECT_THAT(size.reason, testing::HasSubstr("no size was found")) << size.symbol;
}

TEST(MadeUpSizes, OfAProductOfManySymbolsFollowFromUsualOnes) {
  // Both have a factor beyond all that are tried one by one; the second is a prime number.
  for (const int64_t elements : {510510, 1000003}) {
    ModuleBuilder builder;
    const uint32_t a = builder.symbol("A"), b = builder.symbol("B"), c = builder.symbol("C"),
                   d = builder.symbol("D");
    builder.add_input("x", {a, b, c, d});
    builder.add_output("y", {a});
    builder.manifest.symbol_meanings.assign(4, SizeMeaning::Unknown);
    const uint32_t rows = builder.combine(DimOpcode::Mul, a, b);
    const uint32_t columns = builder.combine(DimOpcode::Mul, c, d);
    constrain(builder, builder.combine(DimOpcode::Mul, rows, columns), builder.constant(elements));
    const auto chosen = choose(builder, {{-1, -1, -1, -1}});
    const std::vector<int64_t>& shape = chosen.at(0).shape;
    EXPECT_EQ(shape.at(0) * shape.at(1) * shape.at(2) * shape.at(3), elements);
    EXPECT_THAT(chosen[0].sizes.at(3).reason, testing::HasSubstr("constraints"));
  }
}

TEST(MadeUpSizes, LeaveNoTensorEmpty) {
  ModuleBuilder builder = image_module();
  // An intermediate of W - 500 rows.
  builder.workspace_buffer(builder.constant(0),
                           builder.combine(DimOpcode::Add, builder.symbol("W"), builder.constant(-500)));
  EXPECT_EQ(choose(builder, {{-1, 3, -1, -1}}).at(0).shape.at(3), 512);
}

TEST(MadeUpSizes, NeedNoMoreMemoryThanAGigabyte) {
  ModuleBuilder builder = image_module();
  builder.variant().workspace_bytes =
      builder.combine(DimOpcode::Mul, builder.symbol("H"), builder.constant(int64_t{1} << 24));
  EXPECT_EQ(choose(builder, {{-1, 3, -1, -1}}).at(0).shape.at(2), 48);
}

TEST(MadeUpSizes, ThatCannotBeFoundAreOnes) {
  ModuleBuilder builder = image_module();
  constrain(builder, builder.combine(DimOpcode::Mul, builder.symbol("H"), builder.constant(0)),
            builder.constant(1));
  const auto chosen = choose(builder, {{-1, 3, -1, -1}});
  EXPECT_EQ(chosen.at(0).shape, (std::vector<int64_t>{1, 3, 1, 1}));
  EXPECT_THAT(chosen[0].sizes.at(0).reason, testing::HasSubstr("no size was found"));
}

TEST(MadeUpSizes, OfModulesThatDoNotSayWhatTheyMeasureFollowThePlace) {
  ModuleBuilder builder = image_module();
  builder.manifest.symbol_meanings.clear();
  EXPECT_EQ(choose(builder, {{-1, 3, -1, -1}}).at(0).shape, (std::vector<int64_t>{1, 3, 224, 224}));
}

TEST(MadeUpSizes, OfOneNameAreOneInAllInputs) {
  ModuleBuilder builder;
  const uint32_t n = builder.symbol("N"), t = builder.symbol("T");
  builder.add_input("ids", {n, t});
  builder.add_input("mask", {n, t});
  builder.add_output("y", {n});
  builder.manifest.symbol_meanings = {SizeMeaning::Batch, SizeMeaning::Length};
  EXPECT_EQ(shapes_of(choose(builder, {{2, 40}, {-1, -1}})), (Shapes{{2, 40}, {2, 40}}));
  EXPECT_EQ(shapes_of(choose(builder, {{-1, -1}, {-1, -1}})), (Shapes{{1, 128}, {1, 128}}));
}

TEST(MadeUpSizes, OfNamesThatThereAreNotAreErrors) {
  ModuleBuilder builder = image_module();
  try {
    choose(builder, {{-1, 3, -1, -1}}, {{"M", 4}});
    FAIL() << "M was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'M'"), testing::HasSubstr("N, H, W")));
  }
}

}  // namespace
}  // namespace gantry::cli
