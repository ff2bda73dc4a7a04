// What forms say that schedule rules refuse, against what the rules refuse: over all knobs of some nodes and
// CPUs.
#include <gtest/gtest.h>

#include <vector>

#include "host/codegen/find_target.h"
#include "host/driver/ask_rule.h"
#include "host/forms/choose.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "tests/forms/given_forms.h"
#include "tests/support/square_window.h"

namespace gantry {
namespace {

using testing::square_window;

constexpr const char* kCpus[] = {"x86-64-v3", "x86-64-v4", "cortex-a72"};

struct Counts {
  int taken = 0, refused = 0;
};

/// Compares both for a decision; one that the forms refuse themselves is left out.
void compare(const FormQuestion& question, const Decision& decision, const forms::FormContext& context,
             Counts& counts) {
  if (forms::make_forms(context)->misfit(question, decision)) return;
  SCOPED_TRACE(context.target.name + " " + to_string(decision));
  const Misfit said = refused_by_rule(question, decision, context);
  const Misfit ruled = ask_rule({question, decision, context});
  ++(ruled ? counts.refused : counts.taken);
  ASSERT_EQ(said.has_value(), ruled.has_value()) << said.value_or("") << ruled.value_or("");
  if (said) {
    EXPECT_NE(ruled->find(*said), std::string::npos) << *ruled << "\n" << *said;
  }
}

forms::FormContext context_of(const char* cpu) {
  return {with_precision(find_target(cpu), Precision::kFp32), false, {}};
}

/// Blocks of whole vectors.
std::vector<int64_t> blocks_of(const forms::FormContext& context, std::initializer_list<int64_t> vectors) {
  std::vector<int64_t> blocks;
  for (const int64_t count : vectors) blocks.push_back(count * context.target.machine.vector_bytes / 4);
  return blocks;
}

LoneNode<ConvAttrs> convolution(const ConvAttrs& attrs, const Shape& data) {
  return {nn::conv, attrs, TensorType{DType::kF32, data},
          TensorType{DType::kF32,
                     {attrs.channels, data[1].value() / attrs.groups, attrs.kernel[0], attrs.kernel[1]}}};
}

TEST(Refused, RowsOfDirectConvolutions) {
  const std::pair<ConvAttrs, Shape> cases[] = {{square_window(16, 3), {1, 16, 12, 12}},
                                               {square_window(24, 3, 2), {1, 3, 20, 20}},
                                               {square_window(48, 1), {2, 32, 7, 7}},
                                               {square_window(40, 3), {1, 24, 5, 33}},
                                               {square_window(48, 3, 1, 2), {1, 48, 9, 9}}};
  Counts counts;
  for (const char* cpu : kCpus) {
    const forms::FormContext context = context_of(cpu);
    for (const auto& [attrs, data] : cases) {
      const LoneNode node = convolution(attrs, data);
      for (const int64_t block : blocks_of(context, {1, 2, 3, 4, 6, 8, 12})) {
        for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 20, 28, 30})
          compare(node.question(true), {"direct", {{"block", block}, {"rows", rows}}}, context, counts);
      }
    }
  }
  EXPECT_GT(counts.taken, 100);
  EXPECT_GT(counts.refused, 100);
}

TEST(Refused, PlansOfWinogradsAlgorithms) {
  const std::pair<ConvAttrs, Shape> cases[] = {{square_window(32, 3), {1, 16, 12, 12}},
                                               {square_window(64, 3), {1, 64, 7, 7}},
                                               {square_window(32, 3, 1, 2), {1, 32, 14, 14}}};
  Counts counts;
  for (const char* cpu : {"x86-64-v3", "cortex-a72"}) {
    const forms::FormContext context = context_of(cpu);
    for (const auto& [attrs, data] : cases) {
      const LoneNode node = convolution(attrs, data);
      for (const char* form : {"winograd2", "winograd4"}) {
        for (const int64_t block : blocks_of(context, {1, 2})) {
          for (const int64_t chunk : {0, 4, 9, 37}) {
            for (const int64_t rows : {0, 1, 4, 12}) {
              for (const int64_t first : {-1, 0, 1}) {
                Decision decision{form, {{"block", block}}};
                decision.set("rows", rows);
                decision.set("chunk", chunk);
                decision.set("input_first", first, -1);
                compare(node.question(), decision, context, counts);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(counts.taken, 100);
  EXPECT_GT(counts.refused, 100);
}

TEST(Refused, RowsOfProducts) {
  Counts counts;
  for (const char* cpu : kCpus) {
    const forms::FormContext context = context_of(cpu);
    for (const auto& [rows, depth, units] : {std::tuple{1, 64, 96}, {5, 300, 50}, {40, 64, 96}}) {
      DenseAttrs attrs;
      attrs.units = units;
      const LoneNode node(nn::dense, attrs, {DType::kF32, {rows, depth}}, {DType::kF32, {depth, units}});
      for (const int64_t block : blocks_of(context, {1, 2, 3, 4, 8})) {
        for (const int64_t given : {1, 2, 3, 4, 5, 6, 8, 9, 13, 14, 28, 30}) {
          compare(node.question(), {"packed", {{"block", block}, {"rows", given}}}, context, counts);
          if (block % (4 * blocks_of(context, {1})[0]) == 0)
            compare(node.question(), {"packed", {{"bits", 24}, {"block", block}, {"rows", given}}}, context,
                    counts);
        }
      }
    }
  }
  EXPECT_GT(counts.taken, 50);
  EXPECT_GT(counts.refused, 50);
}

TEST(Refused, NothingWhereTheRuleChooses) {
  const forms::FormContext context = context_of("x86-64-v3");
  const LoneNode node = convolution(square_window(16, 3), {1, 16, 12, 12});
  const FormQuestion question = node.question();
  EXPECT_EQ(refused_by_rule(question, {"direct", {{"block", 256}}}, context), std::nullopt);
  EXPECT_EQ(refused_by_rule(question, {"plain", {}}, context), std::nullopt);
  EXPECT_NE(refused_by_rule(question, {"direct", {{"block", 16}, {"rows", 13}}}, context), std::nullopt);
}

}  // namespace
}  // namespace gantry
