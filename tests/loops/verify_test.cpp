// Programs that break one rule each, and those that look as if they did.

#include "host/loops/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/loops/lower.h"
#include "host/support/error.h"
#include "host/targets/x86/tile_units.h"

namespace gantry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Buffer buffer(const std::string& name, const Expr& count, BufferScope scope = BufferScope::kLocal,
              DType dtype = DType::kF32) {
  return std::make_shared<BufferNode>(BufferNode{name, dtype, count, scope, 64});
}

Expr f32(double value) { return float_imm(DType::kF32, value); }

Expr ramp(const Expr& base, int lanes) { return std::make_shared<RampNode>(base, Expr(1), lanes); }
Expr copies(const Expr& value, int lanes) { return std::make_shared<BroadcastNode>(value, lanes); }

/// y[16] of x[16] (and w[16] of bf16).
class VerifyTest : public testing::Test {
 protected:
  LoopKernel kernel(Stmt body) const {
    LoopKernel made;
    made.name = "k";
    made.arguments = {x, w, y};
    made.input_count = 2;
    made.body = block({std::move(body), fill});
    return made;
  }
  void expect_fine(const Stmt& body) const { EXPECT_NO_THROW(verify(kernel(body), "a step")) << to_string(body); }
  void expect_refused(const LoopKernel& broken, const std::string& reason, const std::string& statement) const {
    try {
      verify(broken, "a step");
      ADD_FAILURE() << "not refused: " << to_string(broken);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("kernel k: after a step: "), HasSubstr(reason), HasSubstr(statement)));
    }
  }
  void expect_refused(const Stmt& body, const std::string& reason, const std::string& statement) const {
    expect_refused(kernel(body), reason, statement);
  }
  Stmt serial(const Expr& var, const Expr& extent, const Stmt& body) const {
    return for_loop(var, 0, extent, LoopKind::kSerial, body);
  }
  Stmt copy(const Expr& at) const { return store(y, at, load(x, at)); }
  Stmt gpu(int64_t threads, const Stmt& body) const {
    return launch({make_var("bx"), make_var("by"), make_var("bz")}, {2, 1, 1}, thread, threads, body);
  }

  Buffer x = buffer("x", 16, BufferScope::kArgument), y = buffer("y", 16, BufferScope::kArgument),
         w = buffer("w", 1024, BufferScope::kArgument, DType::kBF16);
  Expr i = make_var("i"), j = make_var("j"), thread = make_var("thread");
  Stmt fill = for_loop(make_var("fill"), 0, 16, LoopKind::kSerial, store(y, 0, float_imm(DType::kF32, 0)));
};

// --- scope

TEST_F(VerifyTest, AProgramWithinTheRulesPasses) {
  const Buffer sum = buffer("sum", 4);
  expect_fine(for_loop(i, 0, 4, LoopKind::kParallel,
                       allocate(sum, block({for_loop(j, 0, 4, LoopKind::kVectorized, store(sum, j, f32(0))),
                                            serial(j, 4, store(y, i * 4 + j, load(sum, j) + load(x, i * 4 + j)))}))));
}

TEST_F(VerifyTest, AVariableIsUsedInItsScope) {
  expect_refused(block({serial(i, 4, copy(i)), copy(i)}), "i is used outside of its scope", "y[i] = x[i]");
}

TEST_F(VerifyTest, AVariableIsBoundOnceOnTheWay) {
  expect_refused(serial(i, 4, serial(i, 4, copy(i))), "i is bound within its own scope", "for i in [0, +4)");
  expect_refused(serial(i, 4, let(i, Expr(2), copy(i))), "i is bound within its own scope", "let i = 2");
}

TEST_F(VerifyTest, SiblingsMayBindTheSameVariable) { expect_fine(block({serial(i, 4, copy(i)), serial(i, 8, copy(i))})); }

TEST_F(VerifyTest, TwoVariablesInScopeHaveTwoNames) {
  const Expr other = make_var("i");
  expect_refused(serial(i, 4, serial(other, 4, copy(i * 4 + other))), "two variables named i are in scope",
                 "for i in [0, +4)");
}

TEST_F(VerifyTest, SymbolsAreTheKernels) {
  LoopKernel made = kernel(serial(i, min(symbol_var("N"), Expr(4)), copy(i)));
  expect_refused(made, "the symbol N is not among the kernel's", "for i in");
  made.symbols = {"N"};
  EXPECT_NO_THROW(verify(made, "a step"));
}

TEST_F(VerifyTest, ABufferIsUsedWhereItLives) {
  const Buffer sum = buffer("sum", 1);
  expect_refused(block({allocate(sum, store(sum, 0, f32(1))), store(y, 0, load(sum, 0))}),
                 "sum is used where it does not live", "y[0] = sum[0]");
}

TEST_F(VerifyTest, ANameIsOfOneBufferAtATime) {
  const Buffer sum = buffer("sum", 4), other = buffer("sum", 4);
  const Stmt nest = allocate(other, block({store(sum, 0, f32(0)), store(other, 0, f32(0))}));
  expect_refused(allocate(sum, nest), "two buffers named sum are in scope at once", "local sum");
}

TEST_F(VerifyTest, ANameStandsForBuffersThatAreAlike) {
  const Buffer sum = buffer("sum", 4), copy_of_sum = buffer("sum", 4), other = buffer("sum", 1);
  const auto use = [](const Buffer& b) { return allocate(b, store(b, 0, f32(0))); };
  expect_fine(block({use(sum), use(copy_of_sum)}));
  expect_refused(block({use(sum), use(other)}), "sum is declared twice, for different buffers", "local sum: f32[1]");
}

TEST_F(VerifyTest, ScopesAreThoseOfDeclarations) {
  const Buffer argument = buffer("a", 4, BufferScope::kArgument);
  expect_refused(allocate(argument, store(argument, 0, f32(0))), "a is allocated, but an argument or scratch", "a: f32[4]");
  LoopKernel made = kernel({});
  made.scratch = {buffer("s", 4)};
  expect_refused(made, "s is scratch, but not declared as such", "");
}

TEST_F(VerifyTest, InputsAreNotStoredToAndOutputsAre) {
  expect_refused(store(x, 0, f32(0)), "the input x is stored to", "x[0] = 0");
  LoopKernel made = kernel({});
  made.body = {};
  expect_refused(made, "nothing is stored to the output y", "");
}

TEST_F(VerifyTest, LocalsHaveAConstantSize) {
  const Buffer local = buffer("local", symbol_var("N"));
  LoopKernel made = kernel(allocate(local, store(local, 0, f32(0))));
  made.symbols = {"N"};
  expect_refused(made, "the size of local is not constant: N", "local local: f32[N]");
}

// --- types

TEST_F(VerifyTest, OperandsAgree) {
  const Expr sum = std::make_shared<BinaryNode>(BinaryOp::kAdd, ExprType{DType::kF32, 1}, load(x, 0), Expr(1));
  expect_refused(std::make_shared<StoreNode>(y, 0, sum, Expr()), "operands are f32 and i64", "y[0] = ");
  const Expr lanes = std::make_shared<BinaryNode>(BinaryOp::kAdd, ExprType{DType::kF32, 4}, load(x, ramp(0, 4)), load(x, 0));
  expect_refused(std::make_shared<StoreNode>(y, ramp(0, 4), lanes, Expr()), "operands are f32 x 4 and f32", "y[ramp(0");
}

TEST_F(VerifyTest, StoresAgreeWithTheirBuffer) {
  expect_refused(std::make_shared<StoreNode>(y, 0, Expr(1), Expr()), "y, of f32, is given a value of i64", "y[0] = 1");
  expect_refused(std::make_shared<StoreNode>(y, ramp(0, 4), load(x, ramp(0, 8)), Expr()),
                 "8 lanes are stored to 4 places", "y[ramp(0, 1, 4)]");
  const Expr narrow = lt(ramp(0, 2), copies(Expr(1), 2));
  expect_refused(std::make_shared<StoreNode>(y, ramp(0, 4), load(x, ramp(0, 4)), narrow),
                 "the predicate of 4 lanes has 2", "y[ramp(0, 1, 4)]");
}

TEST_F(VerifyTest, LoadsAgreeWithTheirBuffer) {
  const Expr wrong = std::make_shared<LoadNode>(x, ExprType{DType::kF32, 4}, Expr(0), Expr());
  expect_refused(std::make_shared<StoreNode>(y, ramp(0, 4), wrong, Expr()), "f32 elements of x are loaded as f32 x 4",
                 "y[ramp(0, 1, 4)]");
}

TEST_F(VerifyTest, ConditionsAreBools) {
  expect_refused(std::make_shared<IfNode>(Expr(1), copy(0), Stmt()), "a condition is i64 x 1, not bool", "if 1 {");
  const Expr chosen = std::make_shared<SelectNode>(lt(ramp(0, 4), copies(Expr(2), 4)), load(x, 0), f32(0));
  expect_refused(std::make_shared<StoreNode>(y, 0, chosen, Expr()), "the condition is bool x 4", "y[0] = ");
}

TEST_F(VerifyTest, LetsAgreeWithTheirValues) {
  expect_refused(let(make_var("v", DType::kF32), Expr(1), copy(0)), "v is bound to a value of another type", "let v = 1");
}

TEST_F(VerifyTest, NothingOfTensorExpressionsIsLeft) {
  const Tensor a = placeholder({4}, DType::kF32, "a");
  expect_refused(std::make_shared<StoreNode>(y, 0, a({0}), Expr()), "a tensor's element is read", "y[0] = ");
}

// --- accesses

TEST_F(VerifyTest, AnAccessBeyondTheEndIsShown) {
  expect_refused(serial(i, 5, serial(j, 4, copy(i * 4 + j))), "a load outside of the buffer: x[16], of 16 elements, at i = 4, j = 0",
                 "y[i * 4 + j]");
  expect_refused(serial(i, 4, store(y, i - 1, f32(0))), "a store outside of the buffer: y[-1], of 16 elements, at i = 0",
                 "y[i - 1] = 0");
}

TEST_F(VerifyTest, GuardsKeepAnAccessInside) {
  expect_fine(serial(i, 5, serial(j, 4, if_stmt(lt(i * 4 + j, Expr(16)), copy(i * 4 + j)))));
  expect_refused(serial(i, 5, serial(j, 4, if_stmt(lt(i * 4 + j, Expr(18)), copy(i * 4 + j)))),
                 "x[16], of 16 elements, at i = 4, j = 0", "y[i * 4 + j]");
  expect_fine(serial(i, 20, store(y, 0, if_then_else(lt(i, Expr(16)), load(x, i), f32(0)))));
  expect_refused(serial(i, 20, if_stmt(lt(i, Expr(10)), copy(i), copy(i))), "x[19], of 16 elements, at i = 19", "y[i]");
}

TEST_F(VerifyTest, SelectGuardsNothing) {
  expect_refused(serial(i, 20, store(y, 0, select(lt(i, Expr(16)), load(x, i), f32(0)))), "x[19], of 16 elements", "y[0]");
}

TEST_F(VerifyTest, AMaskKeepsLanesInside) {
  const auto masked = [&](int64_t end) {
    const Expr index = ramp(i * 8, 8), mask = lt(index, copies(Expr(end), 8));
    return serial(i, 3, store(y, index, load(x, index, mask), mask));
  };
  expect_fine(masked(16));
  expect_refused(masked(17), "x[16], of 16 elements, at i = 2", "y[ramp(i * 8, 1, 8)]");
}

TEST_F(VerifyTest, AnAccessIsFollowedThroughLets) {
  const Expr b = make_var("b"), start = make_var("start"), count = make_var("count");
  // Blocks of 16 and 4 elements, in tiles of 6, the last of which overlaps the one before it.
  const auto tiles = [&](const Expr& first) {
    const Stmt tile = let(start, first, serial(j, 6, copy(start + j)));
    return serial(b, 2, let(count, min(Expr(16), Expr(20) - b * 16),
                            if_stmt(ge(count, Expr(6)), serial(i, floordiv(count + 5, 6), tile))));
  };
  expect_fine(tiles(min(i * 6, count - 6)));
  expect_refused(tiles(i * 6), "x[17], of 16 elements, at b = 0, i = 2, j = 5", "y[start + j]");
  expect_refused(tiles(min(i * 6, count - 5)), "x[16], of 16 elements, at b = 0, i = 2, j = 5", "y[start + j]");
}

TEST_F(VerifyTest, SymbolicSizesAreTried) {
  const Expr n = symbol_var("N");
  const Buffer scratch = buffer("s", n * 2, BufferScope::kScratch);
  const auto with = [&](const Expr& extent) {
    LoopKernel made = kernel(serial(i, extent, store(scratch, i, f32(0))));
    made.scratch = {scratch};
    made.symbols = {"M", "N"};
    return made;
  };
  EXPECT_NO_THROW(verify(with(n * 2), "a step"));
  expect_refused(with(n * 2 + 1), "s[200], of 200 elements, at N = 100, i = 200", "s[i]");
  EXPECT_NO_THROW(verify(with(symbol_var("M")), "a step")) << "another symbol may be as large as it likes";
}

TEST_F(VerifyTest, LoopsOverAnEmptyBufferMayMakeNoTurn) {
  const Buffer none = buffer("none", 0, BufferScope::kArgument);
  const auto with = [&](const Expr& extent) {
    LoopKernel made = kernel(serial(i, extent, store(y, 0, load(none, -1))));
    made.arguments.insert(made.arguments.begin(), none);
    made.input_count = 3;
    made.symbols = {"N"};
    return made;
  };
  EXPECT_NO_THROW(verify(with(symbol_var("N")), "a step"));
  expect_refused(with(2), "a load outside of the buffer: none[-1], of 0 elements", "y[0]");
}

TEST_F(VerifyTest, WhatDependsOnLoadedValuesIsNotJudged) {
  const Buffer at = buffer("at", 4, BufferScope::kArgument, DType::kI64);
  LoopKernel made = kernel(serial(i, 4, store(y, 0, load(x, load(at, i)))));
  made.arguments.insert(made.arguments.begin(), at);
  made.input_count = 3;
  EXPECT_NO_THROW(verify(made, "a step"));
}

// --- loops

TEST_F(VerifyTest, VectorsAndUnrolledLoopsHaveConstantExtents) {
  for (const auto& [kind, word] : {std::pair(LoopKind::kVectorized, "the vectorized loop j has"),
                                   std::pair(LoopKind::kUnrolled, "the unrolled loop j has")}) {
    const Stmt inner = for_loop(j, 0, i + 1, kind, copy(j));
    expect_refused(serial(i, 4, inner), word, "for j in [0, +i + 1)");
  }
}

TEST_F(VerifyTest, VectorsFitRegisters) {
  const Buffer wide = buffer("wide", 2049);
  const auto clear = [&](int64_t lanes) {
    return allocate(wide, for_loop(j, 0, lanes, LoopKind::kVectorized, store(wide, j, f32(0))));
  };
  expect_fine(clear(2048));
  expect_refused(clear(2049), "the vectorized loop j has 2049 lanes, at most 2048 are possible",
                 "for j in [0, +2049)");
}

TEST_F(VerifyTest, AParallelLoopInsideAnotherIsRunByOneThread) {
  const Buffer kept = buffer("kept", 4, BufferScope::kThread);
  const auto nest = [&](const Expr& value) {
    const Stmt inner = for_loop(j, 0, 4, LoopKind::kParallel, block({once(store(kept, 0, value)), copy(j)}));
    return for_loop(i, 0, 4, LoopKind::kParallel, allocate(kept, inner));
  };
  expect_fine(nest(load(x, 0)));
  expect_refused(nest(load(x, i)), "what is done once a thread depends on i", "kept[0] = x[i]");
}

TEST_F(VerifyTest, WhatIsMadeOnceAThreadDoesNotDependOnTheIteration) {
  const Buffer kept = buffer("kept", 4, BufferScope::kThread);
  const auto nest = [&](const Expr& value) {
    return for_loop(i, 0, 4, LoopKind::kParallel,
                    allocate(kept, block({once(serial(j, 4, store(kept, j, value))), store(y, i, load(kept, i))})));
  };
  expect_fine(nest(load(x, j)));
  expect_refused(nest(load(x, i)), "what is done once a thread depends on i", "kept[j] = x[i]");
  expect_fine(once(copy(0)));  // by the one thread that there is
}

// --- GPUs

TEST_F(VerifyTest, ThreadsOfABlockAreChosenOnce) {
  const Expr other = make_var("u");
  const Stmt inner = for_loop(other, 0, 8, LoopKind::kThread, copy(other));
  const Stmt twice = for_loop(i, 0, 2, LoopKind::kBlock, for_loop(thread, 0, 8, LoopKind::kThread, inner));
  expect_refused(twice, "the thread loop u is inside a launch or another thread loop", "thread for u");
  expect_refused(for_loop(thread, 0, 8, LoopKind::kThread, for_loop(i, 0, 2, LoopKind::kBlock, copy(i))),
                 "the block loop i is inside a launch or a thread loop", "block for i");
  expect_refused(gpu(32, gpu(32, copy(thread))), "a launch inside another one", "launch bx < 2");
  expect_refused(for_loop(thread, 0, 2048, LoopKind::kThread, copy(0)), "2048 threads, at most 1024", "thread for");
  expect_refused(gpu(2048, copy(0)), "2048 threads, at most 1024", "launch");
}

TEST_F(VerifyTest, AllThreadsReachABarrier) {
  expect_fine(gpu(32, block({copy(mod(thread, Expr(16))), barrier()})));
  expect_refused(gpu(32, if_stmt(lt(thread, Expr(8)), barrier())),
                 "a barrier that not all threads of the block may reach, by the condition thread < 8", "barrier");
  expect_refused(gpu(32, serial(i, thread, barrier())), "by the bounds of i", "barrier");
  const Expr half = make_var("half");
  expect_refused(gpu(32, let(half, floordiv(thread, Expr(16)), if_stmt(eq(half, Expr(0)), barrier()))),
                 "by the condition half == 0", "barrier");
  expect_refused(barrier(), "a barrier outside of a launch", "barrier");
}

TEST_F(VerifyTest, NarrowThreadLoopsHaveNoBarriers) {
  const auto threads = [&](const char* name, int64_t count, const Stmt& body) {
    return for_loop(make_var(name), 0, count, LoopKind::kThread, body);
  };
  expect_refused(for_loop(i, 0, 2, LoopKind::kBlock, block({threads("t", 128, copy(0)), threads("u", 32, barrier())})),
                 "by u, which only some threads run", "barrier");
  expect_fine(for_loop(i, 0, 2, LoopKind::kBlock, block({threads("t", 128, barrier()), threads("u", 32, copy(0))})));
}

TEST_F(VerifyTest, ShufflesAreOfAThreadsOwn) {
  const Buffer own = buffer("own", 1), shared = buffer("shared", 1, BufferScope::kShared);
  const auto exchange = [&](const Buffer& target, int mask) {
    return gpu(32, allocate(target, shuffle(target, 0, f32(1), mask)));
  };
  expect_fine(exchange(own, 16));
  expect_refused(exchange(own, 32), "a shuffle with the lane 32 away", "lane ^ 32");
  expect_refused(exchange(shared, 1), "a shuffle to shared, which is not the thread's own", "lane ^ 1");
}

TEST_F(VerifyTest, FragmentsHaveTheirElements) {
  const Buffer d = buffer("d", 4), a = buffer("a", 8, BufferScope::kLocal, DType::kBF16),
               b = buffer("b", 4, BufferScope::kLocal, DType::kBF16), wrong = buffer("b", 2, BufferScope::kLocal, DType::kBF16);
  const auto product = [&](const Buffer& right, const Expr& at) {
    return gpu(32, allocate(d, allocate(a, allocate(right, mma(MmaShape::kM16N8K16Bf16, d, at, a, 0, right, 0)))));
  };
  expect_fine(product(b, 0));
  expect_refused(product(wrong, 0), "b[3], of 2 elements", "mma.m16n8k16.bf16");
  expect_refused(product(b, 1), "d[4], of 4 elements", "mma.m16n8k16.bf16");
  expect_refused(gpu(32, allocate(d, mma(MmaShape::kM16N8K8Tf32, d, 0, d, 0, w, 0))), "w is no fragment of f32", "mma");
}

TEST_F(VerifyTest, EachDeviceHasItsOwnStatements) {
  const Buffer shared = buffer("shared", 4, BufferScope::kShared);
  expect_refused(allocate(shared, store(shared, 0, f32(0))), "shared is shared by the threads of no block", "shared shared");
  expect_refused(gpu(32, prefetch(x, 0)), "a prefetch on a GPU", "prefetch x[0]");
  expect_refused(gpu(32, for_loop(i, 0, 4, LoopKind::kParallel, copy(i))), "a parallel loop on a GPU", "parallel for i");
}

// --- CPUs

TEST_F(VerifyTest, TileRegistersAreConfiguredUsedAndReleased) {
  const Stmt configure = tile_configure(tile_unit_named("amx"), 16, 6);
  expect_fine(block({configure, tile_zero(0), tile_load(6, w, 0, 32), tile_dot(0, 4, 6), tile_release()}));
  expect_refused(tile_zero(0), "tile registers are used before they are configured", "tile0 = 0");
  expect_refused(block({configure, configure}), "tile registers are configured twice", "tiles.configure");
  expect_refused(block({configure, tile_zero(0)}), "tile registers are not released", "");
  expect_refused(block({configure, tile_zero(8), tile_release()}), "tile register 8 of 8", "tile8 = 0");
  expect_refused(block({configure, tile_load(6, w, 600, 32), tile_release()}), "of 1024 elements", "tile6 = w[600]");
}

TEST_F(VerifyTest, TransposedBlocksHaveRoom) {
  const Buffer rows = buffer("rows", 16), few = buffer("rows", 8);
  const auto turn = [&](const Buffer& to, const Expr& stride) { return allocate(to, transpose_block(to, x, 0, stride, 4)); };
  expect_fine(turn(rows, 4));
  expect_refused(turn(few, 4), "rows has no room for 4 x 4 elements of x", "rows = transpose");
  expect_refused(turn(rows, 5), "x[18], of 16 elements", "rows = transpose");
}

}  // namespace
}  // namespace gantry
