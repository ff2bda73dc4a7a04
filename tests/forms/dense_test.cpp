// Which form a matrix product with constant weights gets.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "tests/forms/given_forms.h"

namespace gantry {
namespace {

Decision chosen(const TensorType& data, int64_t units, const Target& target) {
  DenseAttrs attrs;
  attrs.units = units;
  const LoneNode dense(nn::dense, attrs, data, {data.dtype, {data.shape.back(), units}});
  return forms::make_forms(target)->choose(dense.question());
}

/// nn.dense of bytes less a zero point that become f32 for it, as the states of DynamicQuantizeLSTM do.
class ProductOfBytes {
 public:
  /// `shape`: of the data, with K = `depth`; a view of one row where it has other axes.
  ProductOfBytes(const Shape& shape, int64_t depth, int64_t units) {
    const Builder build(function_);
    Value* bytes = function_.add_parameter("x", {DType::kU8, {1, depth}});
    Value* zero_point = function_.add_parameter("z", {DType::kI32, {}});
    Value* differences = build(op::subtract, {cast(bytes, DType::kI32), zero_point});
    Value* data = build.reshape(cast(differences, DType::kF32), shape);
    const std::vector<float> ones(static_cast<size_t>(depth * units), 1.0F);
    Value* weight = function_.add_constant("w", make_constant({DType::kF32, {depth, units}}, ones.data()));
    DenseAttrs attrs;
    attrs.units = units;
    node_ = build.node(nn::dense, {data, weight}, attrs);
  }
  FormQuestion question() const { return {.node = *node_, .weight = node_->inputs[1], .plain_data = false}; }

 private:
  Value* cast(Value* x, DType to) {
    CastAttrs attrs;
    attrs.to = to;
    return Builder(function_)(op::cast, {x}, attrs);
  }

  Function function_{"main"};
  Node* node_ = nullptr;
};

TEST(DenseForms, AreIntegersForFewRowsOfManyWeights) {
  for (const char* name : {"x86-64-v3", "x86-64-v4", "cortex-a76", "cortex-a72"}) {
    const Target target = with_precision(find_target(name), Precision::kFp32);
    const Decision few = chosen({DType::kF32, {1, 4096}}, 4096, target);
    EXPECT_EQ(few.form, "packed") << name;
    EXPECT_EQ(few.knob("bits"), 24) << name;
    EXPECT_EQ(few.knob("block") % target.machine.vector_bytes, 0) << name << ": four integers share words";
    for (const auto& [data, units] : {std::pair(TensorType{DType::kF32, {1, 64}}, 64),
                                      {TensorType{DType::kF32, {1024, 4096}}, 4096},
                                      {TensorType{DType::kF32, {Dim::symbol("N"), 4096}}, 4096}}) {
      const Decision floats = chosen(data, units, target);
      EXPECT_EQ(floats.form, "packed") << name;
      EXPECT_EQ(floats.knob("bits"), 0) << name;
    }
  }
}

TEST(DenseForms, PrecisionsOfFewerBitsKeepTheirWeights) {
  const auto with = [](Precision precision) {
    return chosen({DType::kF32, {1, 4096}}, 4096, with_precision(find_target("sapphirerapids"), precision));
  };
  EXPECT_EQ(with(Precision::kFp32Split).knob("bits"), 20);
  EXPECT_EQ(with(Precision::kFp32Split3).knob("bits"), 24);
  EXPECT_EQ(with(Precision::kFp32).knob("bits"), 24);
  EXPECT_EQ(with(Precision::kBf16).knob("bits"), 0);
  EXPECT_EQ(with(Precision::kFp16).knob("bits"), 0);
}

// 3 products of 255 and 128 are beyond 65,504.
TEST(DenseForms, OfIntegersThatBecameFloatsAreNotSummedInHalf) {
  constexpr int64_t kDepth = 256, kUnits = 1024;
  const Target target = with_precision(find_target("cortex-a76"), Precision::kFp16);
  EXPECT_EQ(chosen({DType::kF32, {1, kDepth}}, kUnits, target).knob("half"), 1);
  const auto all = forms::make_forms(target);
  for (const Shape& shape : {Shape{1, kDepth}, Shape{1, 1, kDepth}}) {
    const ProductOfBytes product(shape, kDepth, kUnits);
    const FormQuestion question = product.question();
    const Decision decision = all->choose(question);
    EXPECT_EQ(decision.form, "packed") << to_string(shape);
    EXPECT_EQ(decision.knob("half"), 0) << to_string(shape);
    EXPECT_EQ(all->misfit(question, parse_decision("{form=packed, block=32, half=1}")).value_or(""),
              "half is not for integers that became f32, whose sums it may not hold");
    EXPECT_EQ(all->misfit(question, parse_decision("{form=packed, block=32}")).value_or(""), "");
  }
}

// Floats and integers are candidates of one form.
TEST(DenseForms, ADecisionOfTheScheduleTooIsComparedAsTheCandidateOfItsProduct) {
  DenseAttrs attrs;
  attrs.units = 4096;
  const LoneNode dense(nn::dense, attrs, {DType::kF32, {1, 4096}}, {DType::kF32, {4096, 4096}});
  const auto all = forms::make_forms(with_precision(find_target("x86-64-v3"), Precision::kFp32));
  const auto as_taken = [&](const char* decision) {
    const Decision taken = parse_decision(decision);
    for (const Candidate& one :
         compared(all->candidates(dense.question()), taken, [](const Decision&) { return 0.0; })) {
      if (one.why.empty()) return one;
    }
    return Candidate{};
  };
  const Candidate floats = as_taken("{form=packed, block=24, rows=1}"),
                  integers = as_taken("{form=packed, block=24, bits=24, rows=1}");
  EXPECT_EQ(floats.decision, parse_decision("{form=packed, block=24, rows=1}"));
  EXPECT_EQ(floats.error, 0);
  EXPECT_EQ(integers.decision, parse_decision("{form=packed, block=24, bits=24, rows=1}"));
  EXPECT_EQ(integers.error, 0x1p-20);
}

TEST(DenseForms, CandidatesOfFewerCyclesSayWhyTheyWereNotTaken) {
  const auto why = [](double error) {
    const Decision taken = parse_decision("{form=tiles, parts=2}");
    std::vector<Candidate> all(2);
    all[0].decision = parse_decision("{form=packed, block=16}");
    all[1].decision = taken;
    all[0].cycles = 100;
    all[1].cycles = 200;
    all[0].error = error;
    all[1].error = 1e-6;
    return compared(all, taken, [](const Decision&) { return 0.0; })[0].why;
  };
  EXPECT_EQ(why(1e-3), "0.50 times as long, but predicted less well or less exact");
  EXPECT_EQ(
      why(0),
      "0.50 times as long, but more than cycles was weighed: the weights' way from memory, or the precision");
}

TEST(DenseForms, OfGpusAreTiledProducts) {
  EXPECT_EQ(chosen({DType::kF32, {8, 64}}, 32, find_target("cuda:sm_80")), (Decision{"gemm", {}}));
}

// One form for both ops, which have the precision's operands.
TEST(DenseForms, OfGpusAreAsExactAsThePrecision) {
  DenseAttrs units;
  units.units = 32;
  const LoneNode dense(nn::dense, units, {DType::kF32, {8, 64}}, {DType::kF32, {64, 32}});
  MatmulAttrs transposed;
  transposed.transpose_a = true;
  const LoneNode matmul(op::matmul, transposed, {DType::kF32, {64, 8}}, {DType::kF32, {64, 32}});
  const auto error = [](const auto& node, Precision precision) {
    const auto forms = forms::make_forms(with_precision(find_target("cuda:sm_80"), precision));
    const auto candidates = forms->candidates(node.question());
    EXPECT_EQ(candidates.size(), 1u);
    return candidates.empty() ? -1 : candidates[0].error;
  };
  for (const auto& [precision, expected] : {std::pair(Precision::kFp32, 0.0), {Precision::kTf32, 0x1p-11},
                                            {Precision::kFp16, 0x1p-11}, {Precision::kBf16, 0x1p-8}}) {
    EXPECT_EQ(error(dense, precision), expected) << name_of(precision);
    EXPECT_EQ(error(matmul, precision), expected) << name_of(precision);
  }
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
  EXPECT_EQ(why("{form=packed, block=32, bits=24}"), "");
  EXPECT_EQ(why("{form=packed, block=12}"), "");
  EXPECT_EQ(why("{form=packed, block=12, bits=24}"), "block of form packed is a multiple of 8 up to 256, not 12");
  EXPECT_TRUE(why("{form=direct, block=16}").starts_with("there is no form 'direct' for it here, only plain, packed, "));
  EXPECT_EQ(why("{form=packed, block=16, depth=2}").substr(0, 33), "form packed has no knob 'depth', ");
  EXPECT_TRUE(
      why("{form=paked, block=16}")
          .starts_with(
              "there is no form 'paked' for it here; did you mean 'packed'? there are plain, packed, "));
  EXPECT_EQ(why("{form=packed, blok=16}"),
            "form packed has no knob 'blok'; did you mean 'block'? there are block, half, bits, rows");
  EXPECT_EQ(why("{form=plain, block=16}"), "form plain has no knob 'block'");
  EXPECT_EQ(why("{form=packed}"), "block of form packed is a multiple of 4 up to 256; it is not given");
  EXPECT_EQ(why("{form=packed, block=6}"), "block of form packed is a multiple of 4 up to 256, not 6");
  EXPECT_EQ(why("{form=packed, block=16, half=2}"), "half is for f32 on targets that compute in f16, with --precision fp16");
  EXPECT_EQ(why("{form=packed, block=32, bits=22}"), "bits of form packed is 20 or 24, not 22");
  EXPECT_EQ(why("{form=packed, block=32, half=1, bits=24}"), "half is for weights that are floats, without bits");
  EXPECT_EQ(why("{form=tiles, parts=3}"),
            "tile registers are for targets that have them, with a precision that uses them");
  EXPECT_EQ(why("{form=gemm}"), "form gemm is for GPUs");
}

}  // namespace
}  // namespace gantry
