// Broadcasting of dimensions, against what NumPy makes of sizes.
#include "host/graph/dim_broadcast.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>

namespace gantry {
namespace {

const Dim A = Dim::symbol("A"), B = Dim::symbol("B"), C = Dim::symbol("C");

/// numpy.broadcast_shapes of one axis; nothing where it raises.
std::optional<int64_t> numpy_extent(std::initializer_list<int64_t> extents) {
  int64_t result = 1;
  for (const int64_t extent : extents) {
    if (extent == 1) continue;
    if (result != 1 && result != extent) return std::nullopt;
    result = extent;
  }
  return result;
}

/// The value as a module computes it.
int64_t postfix_value(const Dim& dim, const std::map<std::string, int64_t>& sizes) {
  std::vector<int64_t> stack;
  dim.visit_postfix([&](Dim::Opcode opcode, int64_t constant, const std::string& symbol) {
    if (opcode == Dim::Opcode::kConstant) return stack.push_back(constant), void();
    if (opcode == Dim::Opcode::kSymbol) return stack.push_back(sizes.at(symbol)), void();
    const int64_t b = stack.back();
    stack.pop_back();
    int64_t& a = stack.back();
    if (opcode == Dim::Opcode::kAdd) a += b;
    if (opcode == Dim::Opcode::kMul) a *= b;
    if (opcode == Dim::Opcode::kMax) a = std::max(a, b);
    if (opcode == Dim::Opcode::kMin) a = std::min(a, b);
  });
  EXPECT_EQ(stack.size(), 1u);
  return stack.at(0);
}

TEST(DimBroadcast, IsTheExtentThatNumPyGives) {
  const Dim pair = broadcast(A, B), triple = broadcast(pair, C);
  for (int64_t a = 0; a < 5; ++a) {
    for (int64_t b = 0; b < 5; ++b) {
      for (int64_t c = 0; c < 5; ++c) {
        const std::map<std::string, int64_t> sizes{{"A", a}, {"B", b}, {"C", c}};
        SCOPED_TRACE(::testing::Message() << a << " " << b << " " << c);
        if (const auto expected = numpy_extent({a, b})) {
          EXPECT_EQ(pair.evaluate(sizes), *expected);
          EXPECT_EQ(postfix_value(pair, sizes), *expected);
        }
        if (const auto expected = numpy_extent({a, b, c})) {
          EXPECT_EQ(triple.evaluate(sizes), *expected);
          EXPECT_EQ(postfix_value(triple * 3 + A, sizes), *expected * 3 + a);
        }
      }
    }
  }
}

TEST(DimBroadcast, SaysNoMoreThanItHasTo) {
  EXPECT_EQ(broadcast(A, A), A);
  EXPECT_EQ(broadcast(A, 1), A);
  EXPECT_EQ(broadcast(1, A), A);
  EXPECT_EQ(broadcast(A, 7), Dim(7));
  EXPECT_EQ(broadcast(0, A), Dim(0));
  EXPECT_EQ(broadcast(A + 2, B), A + 2) << "never 1";
  EXPECT_EQ(broadcast(B, Dim::symbol("N", {2, 8})), Dim::symbol("N")) << "never 1";
  EXPECT_EQ(broadcast(B, A), broadcast(A, B));
  EXPECT_EQ(broadcast(broadcast(A, B), A), broadcast(A, B));
  EXPECT_EQ(broadcast(C, broadcast(A, B)), broadcast(broadcast(C, B), A));
}

TEST(DimBroadcast, PrintsAndParses) {
  const Dim triple = broadcast(broadcast(C, A), 2 * B);
  EXPECT_EQ(triple.str(), "broadcast(broadcast(2*B, A), C)");
  EXPECT_EQ(Dim::parse(triple.str()), triple);
  EXPECT_THAT(broadcast_operands(triple), ::testing::ElementsAre(2 * B, A, C));
  EXPECT_TRUE(broadcast_operands(triple + 1).empty());
  EXPECT_THAT(operands_or_itself(triple + 1), ::testing::ElementsAre(triple + 1));
}

TEST(DimBroadcast, OfSizesThatAreFilledInIsWhatTheySay) {
  const Dim pair = broadcast(A, B);
  EXPECT_EQ(pair.substitute({{"B", A}}), A);
  EXPECT_EQ(pair.substitute({{"B", 1}}), A);
  EXPECT_EQ(pair.substitute({{"A", 1}, {"B", 1}}), Dim(1));
  EXPECT_EQ(pair.substitute({{"A", 6}}), Dim(6));
}

TEST(DimBroadcast, HasNoMoreElementsThanItsLargestOperand) {
  EXPECT_EQ(broadcast(A, B).lower_bound(), 0);
  EXPECT_EQ(broadcast(A + 1, B + 1).lower_bound(), 1);
  EXPECT_EQ((9 - broadcast(Dim::symbol("M", {0, 8}), Dim::symbol("N", {0, 4}))).lower_bound(), 1);
}

TEST(MayBeRepeated, AsksSizesWhereNamesDiffer) {
  EXPECT_TRUE(may_be_repeated(A, broadcast(A, B)));
  EXPECT_TRUE(may_be_repeated(A, B));
  EXPECT_TRUE(may_be_repeated(A, 4));
  EXPECT_TRUE(may_be_repeated(broadcast(A, B), 4));
  EXPECT_TRUE(may_be_repeated(A * B, broadcast(A * B, B))) << "of the same symbols";
  EXPECT_FALSE(may_be_repeated(A, A));
  EXPECT_FALSE(may_be_repeated(1, A)) << "that is certain";
  EXPECT_FALSE(may_be_repeated(4, A)) << "4 is not 1";
  EXPECT_FALSE(may_be_repeated(A + 2, B));
  EXPECT_FALSE(may_be_repeated(A, 1));
}

TEST(MayBeRepeated, TakesSizesOfOneNameForEqual) {
  const Dim rounded = 2 * floordiv(A, 2);
  EXPECT_FALSE(may_broadcast(A, rounded)) << "a network of images of even heights";
  EXPECT_FALSE(may_broadcast(floordiv(A, 32), 7));
}

}  // namespace
}  // namespace gantry
