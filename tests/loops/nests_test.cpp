// Loop nests written by hand: every pass keeps what they compute.
#include <algorithm>
#include <variant>

#include "tests/loops/run_schedule.h"

namespace gantry::test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

Expr number(double value) {
  return float_imm(DType::kF32, value);
}

/// The first `count` elements of what the nest makes of x, after every pass alike.
Floats run_nest(const Floats& x, int64_t count, const std::function<void(LoopBuilder&)>& nest) {
  const Tensor input = placeholder({static_cast<int64_t>(x.size())}, DType::kF32, "x");
  const std::vector<Tensor> results = extern_kernel({input}, {{Expr(count)}}, {DType::kF32}, nest, "y");
  return run_schedule(Schedule(results), {input}, {x}, static_cast<size_t>(count));
}

// --- variables that copies of a loop's body share

TEST(CopiesOfALoop, AVariableThatIsNoughtInTheFirstIterationIsItselfInTheOthers) {
  const Floats x = random_floats(32);
  const Floats y = run_nest(x, 8, [](LoopBuilder& nest) {
    const Buffer from = nest.input(0), to = nest.result(0), total = nest.local("total", DType::kF32, 1);
    nest.loop("i", 8, [&](const Expr& i) {
      nest.let("at", i * 4, [&](const Expr& at) {
        nest.emit(store(total, 0, load(from, at)));
        nest.when(gt(i, 0), [&] { nest.emit(store(total, 0, load(total, 0) + load(from, at - 4))); });
        nest.emit(store(to, i, load(total, 0)));
      });
    });
  });
  Floats expected;
  for (size_t i = 0; i < 8; ++i) expected.push_back(x[4 * i] + (i > 0 ? x[4 * i - 4] : 0.0f));
  EXPECT_THAT(y, ElementsAreArray(expected));
}

TEST(CopiesOfALoop, AProductWithTheIterationIsAnotherOneInEach) {
  const Floats x = random_floats(22);
  const Floats y = run_nest(x, 32, [](LoopBuilder& nest) {
    nest.loop("r", 8, [&](const Expr& r) {
      const auto one = [&](const Expr& i) {
        nest.let("at", r * i, [&](const Expr& at) {
          nest.emit(store(nest.result(0), r * 4 + i, load(nest.input(0), at)));
        });
      };
      nest.loop("i", 4, one, LoopKind::kUnrolled);
    });
  });
  for (size_t r = 0; r < 8; ++r)
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(y[r * 4 + i], x[r * i]) << r << ", " << i;
}

TEST(CopiesOfALoop, ALoopOfOneIterationInTheFirstHasMoreInTheOthers) {
  const Floats x = random_floats(16);
  const Floats y = run_nest(x, 16, [](LoopBuilder& nest) {
    const Expr untouched = number(100);
    nest.loop("z", 16, [&](const Expr& z) { nest.emit(store(nest.result(0), z, untouched)); });
    const auto row = [&](const Expr& i) {
      nest.loop("j", i + 1, [&](const Expr& j) {
        nest.emit(store(nest.result(0), i * 4 + j, load(nest.input(0), i * 4 + j)));
      });
    };
    nest.loop("i", 4, row, LoopKind::kUnrolled);
  });
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 4; ++j) EXPECT_EQ(y[i * 4 + j], j <= i ? x[i * 4 + j] : 100.0f) << i << ", " << j;
}

TEST(CopiesOfALoop, AVectorInTheFirstIterationsIsOneValueInTheLast) {
  const Floats x = random_floats(26);
  const Floats y = run_nest(x, 96, [](LoopBuilder& nest) {
    nest.loop("r", 3, [&](const Expr& r) {
      const auto lane = [&](const Expr& v) {
        nest.loop("i", 8, [&](const Expr& i) {
          nest.let("at", (Expr(7) - i) * v + r * 2, [&](const Expr& at) {
            const Expr element = load(nest.input(0), at);
            const Expr once_more = if_then_else(lt(i, 7), element, number(0));
            nest.emit(store(nest.result(0), (r * 8 + i) * 4 + v, element + once_more));
          });
        });
      };
      nest.loop("v", 4, lane, LoopKind::kVectorized);
    });
  });
  for (size_t r = 0; r < 3; ++r) {
    for (size_t i = 0; i < 8; ++i) {
      for (size_t v = 0; v < 4; ++v) {
        const float element = x[(7 - i) * v + r * 2];
        EXPECT_EQ(y[(r * 8 + i) * 4 + v], i < 7 ? 2 * element : element) << r << ", " << i << ", " << v;
      }
    }
  }
}

TEST(CopiesOfALoop, EachHasALocalOfItsOwnForTileRegistersToo) {
  constexpr int kSide = 16;
  constexpr int64_t kTile = kSide * kSide;
  const Floats x = random_floats(3 * kTile);
  const Floats y = run_nest(x, 3, [](LoopBuilder& nest) {
    nest.loop("i", 3, [&](const Expr& i) {
      const Buffer tile = std::make_shared<BufferNode>(
          BufferNode{nest.unique_name("tile"), DType::kF32, Expr(kTile), BufferScope::kLocal, 64});
      const Expr element = load(tile, i);
      const Expr value = if_then_else(lt(i, 1), element, element + element);
      nest.emit(allocate(
          tile, block({tile_configure(tile_unit_named("amx"), kSide, 2),
                       tile_load(0, nest.input(0), i * kTile, kSide), prefetch(tile, 0),
                       tile_store(0, tile, 0, kSide), tile_release(), store(nest.result(0), i, value)})));
    });
  });
  EXPECT_THAT(y, ElementsAre(x[0], 2 * x[kTile + 1], 2 * x[2 * kTile + 2]));
}

// --- conditions on what they guard

TEST(AConditionOfLanes, HoldsToItsEndWhereAStoreChangesWhatItReads) {
  const Floats x = random_floats(16);
  const Floats y = run_nest(x, 32, [](LoopBuilder& nest) {
    const Buffer to = nest.result(0);
    const auto one = [&](const Expr& i) {
      nest.emit(store(to, i, load(nest.input(0), i)));
      nest.emit(store(to, i + 16, number(0)));
      nest.when(lt(load(to, i), number(0)), [&] {
        nest.emit(store(to, i, number(0)));
        nest.emit(store(to, i + 16, number(1)));
      });
    };
    nest.loop("i", 16, one, LoopKind::kVectorized);
  });
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(y[i], std::max(x[i], 0.0f)) << i;
    EXPECT_EQ(y[i + 16], x[i] < 0 ? 1.0f : 0.0f) << i;
  }
}

TEST(AConditionOfLanes, HasOneCaseOnlyWhereThatChangesWhatItReads) {
  const Floats x = random_floats(16);
  const Floats y = run_nest(x, 16, [](LoopBuilder& nest) {
    const Buffer to = nest.result(0);
    const auto one = [&](const Expr& i) {
      nest.emit(store(to, i, load(nest.input(0), i)));
      const Stmt small = if_stmt(lt(load(to, i), number(-4)), store(to, i, number(100)),
                                 store(to, i, load(to, i) - number(1)));
      nest.emit(if_stmt(lt(load(to, i), number(0)), small, store(to, i, load(to, i) - number(20))));
    };
    nest.loop("i", 16, one, LoopKind::kVectorized);
  });
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(y[i], x[i] < -4 ? 100 : x[i] < 0 ? x[i] - 1 : x[i] - 20) << i;
}

TEST(ACondition, IsNotTakenForTrueBehindAStoreToWhatItReads) {
  const Floats y = run_nest({0}, 4, [](LoopBuilder& nest) {
    const Buffer to = nest.result(0), count = nest.scratch("count", DType::kI64, 1);
    nest.emit(store(count, 0, 0));
    nest.loop("i", 4, [&](const Expr& i) {
      nest.emit(store(to, i, number(0)));
      nest.when(lt(load(count, 0), 3), [&] {
        nest.emit(store(count, 0, load(count, 0) + 2));
        nest.emit(store(to, i, number(1)));
        nest.when(lt(load(count, 0), 3), [&] { nest.emit(store(to, i, number(2))); });
      });
    });
  });
  EXPECT_THAT(y, ElementsAre(2, 1, 0, 0));
}

// --- divisors that may be negative

/// The remainder with the sign of the divisor.
int64_t floored(int64_t a, int64_t b) {
  return (a % b + b) % b;
}

TEST(ADivisor, OfDataIsNotTakenForASizeInAnIndexThatALoopLeavesAsItIs) {
  for (const int64_t divisor : {-3, -1, 3}) {
    Floats x = random_floats(9);
    x[0] = static_cast<float>(divisor);
    const Floats y = run_nest(x, 15, [](LoopBuilder& nest) {
      const Buffer from = nest.input(0);
      nest.let("v", cast(DType::kI64, load(from, 0)), [&](const Expr& v) {
        nest.loop("p", 5, [&](const Expr& p) {
          nest.loop("k", 3, [&](const Expr& k) {
            nest.emit(store(nest.result(0), p * 3 + k, load(from, mod(p * 7, v) + 3 + k)));
          });
        });
      });
    });
    for (int64_t p = 0; p < 5; ++p)
      for (int64_t k = 0; k < 3; ++k)
        EXPECT_EQ(y[size_t(p * 3 + k)], x[size_t(floored(p * 7, divisor) + 3 + k)]) << divisor << ": " << p;
  }
}

TEST(ADivisor, ThatADifferenceOfIndicesIsMayBeNegative) {
  const Floats x = random_floats(9);
  const Floats y = run_nest(x, 60, [](LoopBuilder& nest) {
    nest.loop("r", 4, [&](const Expr& r) {
      nest.let("v", r * 2 - 3, [&](const Expr& v) {
        nest.loop("p", 5, [&](const Expr& p) {
          nest.loop("k", 3, [&](const Expr& k) {
            nest.emit(store(nest.result(0), (r * 5 + p) * 3 + k, load(nest.input(0), mod(p * 7, v) + 3 + k)));
          });
        });
      });
    });
  });
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t p = 0; p < 5; ++p)
      for (int64_t k = 0; k < 3; ++k)
        EXPECT_EQ(y[size_t((r * 5 + p) * 3 + k)], x[size_t(floored(p * 7, r * 2 - 3) + 3 + k)]) << r;
}

TEST(ADivisor, OfDataIsNotTakenForASizeWherePerhapsNoLaneIsOn) {
  for (const int64_t divisor : {-3, -1, 3}) {
    Floats x = random_floats(16);
    x[0] = static_cast<float>(divisor);
    const Floats y = run_nest(x, 8, [](LoopBuilder& nest) {
      const Buffer from = nest.input(0), to = nest.result(0);
      nest.let("v", cast(DType::kI64, load(from, 0)), [&](const Expr& v) {
        const auto one = [&](const Expr& i) {
          nest.emit(store(to, i, number(0)));
          nest.when(gt(load(from, i + 8), number(0)),
                    [&] { nest.emit(store(to, i, load(from, mod(i * 7, v) + 3))); });
        };
        nest.loop("i", 8, one, LoopKind::kVectorized);
      });
    });
    for (int64_t i = 0; i < 8; ++i) {
      const float there = x[size_t(floored(i * 7, divisor) + 3)];
      EXPECT_EQ(y[size_t(i)], x[size_t(i + 8)] > 0 ? there : 0.0f) << divisor << ": " << i;
    }
  }
}

TEST(ADivisor, OfMinusOneWrapsTheSmallestInteger) {
  const Floats x{-0x1p31f, -0x1p31f, 7, -7, -1, 2, -1, 2};
  const Floats y = run_nest(x, 16, [](LoopBuilder& nest) {
    nest.loop("i", 4, [&](const Expr& i) {
      const Expr a = cast(DType::kI32, load(nest.input(0), i));
      const Expr b = cast(DType::kI32, load(nest.input(0), i + 4));
      const Expr results[] = {a / b, binary(BinaryOp::kRem, a, b), floordiv(a, b), mod(a, b)};
      for (int64_t k = 0; k < 4; ++k)
        nest.emit(store(nest.result(0), i + k * 4, cast(DType::kF32, results[k])));
    });
  });
  EXPECT_THAT(y,
              ElementsAre(-0x1p31f, -0x1p30f, -7, -3, 0, 0, 0, -1, -0x1p31f, -0x1p30f, -7, -4, 0, 0, 0, 1));
}

// --- the stack

/// Why a nest does not fit that has so many numbers on the stack, and so many more in each turn of a loop.
std::string misfit_of(int64_t around, int64_t inside, LoopKind kind) {
  const auto write = [&](LoopBuilder& nest) {
    const Buffer factor = nest.local("factor", DType::kF32, Expr(around));
    nest.emit(store(factor, 0, number(2)));
    const auto one = [&](const Expr& i) {
      const Buffer kept = nest.local("kept", DType::kF32, Expr(inside));
      nest.emit(store(kept, i, load(nest.input(0), i)));
      nest.emit(store(nest.result(0), i, load(kept, i) * load(factor, 0)));
    };
    nest.loop("i", 8, one, kind);
  };
  const Tensor input = placeholder({8}, DType::kF32, "x");
  const Schedule schedule(extern_kernel({input}, {{Expr(8)}}, {DType::kF32}, write, "y"));
  const auto lowered = lower_kernel(schedule, {input}, "k");
  const auto* misfit = std::get_if<ScheduleMisfit>(&lowered);
  return misfit ? misfit->reason : "it fits";
}

TEST(LocalBuffers, FitTheStackOfTheFunctionThatTheyAreIn) {
  EXPECT_EQ(misfit_of(16376, 8, LoopKind::kSerial), "it fits");
  EXPECT_EQ(misfit_of(16377, 8, LoopKind::kSerial),
            "local buffers take 65540 bytes of a thread's stack, at most 65536 are possible: larger ones are "
            "scratch");
  EXPECT_EQ(misfit_of(16384, 16384, LoopKind::kParallel), "it fits");
  EXPECT_NE(misfit_of(8, 16385, LoopKind::kParallel), "it fits");
  EXPECT_NE(misfit_of(16385, 8, LoopKind::kParallel), "it fits");
}

}  // namespace
}  // namespace gantry::test
