// Which form a matrix product with constant weights gets.
#include <gtest/gtest.h>

#include "host/ops/dense.h"
#include "tests/forms/given_forms.h"

namespace gantry {
namespace {

Decision chosen(const TensorType& data, int64_t units, const Target& target) {
  DenseAttrs attrs;
  attrs.units = units;
  const LoneNode dense(nn::dense, attrs, data, {data.dtype, {data.shape.back(), units}});
  return forms::make_forms(target)->choose(dense.question());
}

TEST(DenseForms, AreIntegersForFewRowsOfManyWeights) {
  for (const char* name : {"x86-64-v3", "x86-64-v4", "cortex-a76", "cortex-a72"}) {
    const Target target = with_precision(find_target(name), Precision::kFp32);
    const Decision few = chosen({DType::kF32, {1, 4096}}, 4096, target);
    EXPECT_EQ(few.form, "integers") << name;
    EXPECT_EQ(few.knob("bits"), 24) << name;
    EXPECT_EQ(few.knob("block") % target.machine.vector_bytes, 0) << name << ": four integers share words";
    EXPECT_EQ(chosen({DType::kF32, {1, 64}}, 64, target).form, "packed") << name;
    EXPECT_EQ(chosen({DType::kF32, {1024, 4096}}, 4096, target).form, "packed") << name;
    EXPECT_EQ(chosen({DType::kF32, {Dim::symbol("N"), 4096}}, 4096, target).form, "packed") << name;
  }
}

TEST(DenseForms, PrecisionsOfFewerBitsKeepTheirWeights) {
  const auto with = [](Precision precision) {
    return chosen({DType::kF32, {1, 4096}}, 4096, with_precision(find_target("sapphirerapids"), precision));
  };
  EXPECT_EQ(with(Precision::kFp32Split).knob("bits"), 20);
  EXPECT_EQ(with(Precision::kFp32Split3).knob("bits"), 24);
  EXPECT_EQ(with(Precision::kFp32).knob("bits"), 24);
  EXPECT_NE(with(Precision::kBf16).form, "integers");
  EXPECT_NE(with(Precision::kFp16).form, "integers");
}

TEST(DenseForms, OfGpusAreTiledProducts) {
  EXPECT_EQ(chosen({DType::kF32, {8, 64}}, 32, find_target("cuda:sm_80")), (Decision{"gemm", {}}));
}

TEST(DenseForms, DecisionsThatDoNotFitSayWhy) {
  DenseAttrs attrs;
  attrs.units = 64;
  const LoneNode dense(nn::dense, attrs, {DType::kF32, {4, 64}}, {DType::kF32, {64, 64}});
  const auto all = forms::make_forms(with_precision(find_target("x86-64-v3"), Precision::kFp32));
  const auto why = [&](const char* decision) {
    return all->misfit(dense.question(), parse_decision(decision)).value_or("");
  };
  EXPECT_EQ(why("{form=packed, block=16}"), "");
  EXPECT_EQ(why("{form=integers, bits=24, block=32}"), "");
  EXPECT_TRUE(why("{form=direct, block=16}").starts_with("there is no form 'direct' for it here, only plain, packed, "));
  EXPECT_EQ(why("{form=packed, block=16, depth=2}").substr(0, 33), "form packed has no knob 'depth', ");
  EXPECT_EQ(why("{form=packed, block=6}"), "block of form packed is a multiple of 4 up to 256, not 6");
  EXPECT_EQ(why("{form=packed, block=16, half=2}"), "half is for f32 on targets that compute in f16, with --precision fp16");
  EXPECT_EQ(why("{form=integers, bits=22, block=32}"), "bits of form integers is 20 or 24, not 22");
  EXPECT_EQ(why("{form=tiles, parts=3}"),
            "tile registers are for targets that have them, with a precision that uses them");
  EXPECT_EQ(why("{form=gemm}"), "form gemm is for GPUs");
}

}  // namespace
}  // namespace gantry
