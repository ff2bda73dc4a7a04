#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "host/codegen/codegen.h"
#include "host/codegen/find_target.h"
#include "host/codegen/index_range.h"
#include "host/support/error.h"
#include "host/support/temporary.h"
#include "host/targets/cuda/ptxas.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr DType kF32 = DType::kF32;

Buffer shared_buffer(std::string name, DType dtype, Expr count) {
  auto node = std::make_shared<BufferNode>();
  node->name = std::move(name);
  node->dtype = dtype;
  node->element_count = std::move(count);
  node->scope = BufferScope::kShared;
  return node;
}

struct Indices {
  Expr bx = make_var("bx"), by = make_var("by"), bz = make_var("bz"), t = make_var("t");
  Stmt launch_of(Expr grid, int64_t threads, Stmt body) {
    return launch({bx, by, bz}, {std::move(grid), 1, 1}, t, threads, std::move(body));
  }
};

std::string ptx_of(const LoopKernel& kernel, const std::string& target = "cuda:sm_80") {
  return emit_assembly(kernel, find_target(target));
}

/// out[i] = in[i] + in[i], four elements a thread.
LoopKernel vector_add() {
  Indices i;
  Buffer in = argument("in", kF32, 65536), out = argument("out", kF32, 65536);
  Expr index = ramp((i.bx * 128 + i.t) * 4, 1, 4);
  Expr value = Expr(std::make_shared<LoadNode>(in, ExprType{kF32, 4}, index, Expr()));
  return make_kernel("twice", {in, out}, i.launch_of(128, 128, store(out, index, value + value)));
}

/// Sums 1024 elements a block: through shared memory, then by shuffles of one warp.
LoopKernel block_sum(DType dtype = kF32) {
  Indices i;
  Expr n = symbol_var("N");
  Buffer in = argument("in", dtype, n * 1024), out = argument("out", dtype, n);
  Buffer tile = shared_buffer("tile", dtype, 256), sum = local_buffer("sum", dtype, 2);
  Expr k = make_var("k");
  std::vector<Stmt> body = {
      store(tile, i.t, load(in, i.bx * 1024 + i.t)), barrier(), store(sum, 0, const_of(dtype, 0)),
      for_loop(k, 0, 8, LoopKind::kSerial, store(sum, 0, load(sum, 0) + load(tile, k * 32 + mod(i.t, 32))))};
  for (int mask = 16; mask > 0; mask /= 2) {
    body.push_back(shuffle(sum, 1, load(sum, 0), mask));
    body.push_back(store(sum, 0, load(sum, 0) + load(sum, 1)));
  }
  body.push_back(if_stmt(eq(i.t, 0), store(out, i.bx, load(sum, 0))));
  Stmt whole = allocate(tile, allocate(sum, block(body)));
  return make_kernel("block_sum", {in, out}, i.launch_of(n, 256, whole), {"N"});
}

/// One warp: d += a * b in fragments.
LoopKernel matrix_instruction(MmaShape shape) {
  const bool half = shape != MmaShape::kM16N8K8Tf32;
  const DType dtype = !half ? kF32 : shape == MmaShape::kM16N8K16Bf16 ? DType::kBF16 : DType::kF16;
  const int a_count = shape == MmaShape::kM16N8K8Tf32 || shape == MmaShape::kM16N8K8F16 ? 4 : 8;
  Indices i;
  Buffer x = argument("x", kF32, 4096), out = argument("out", kF32, 4096);
  Buffer a = local_buffer("a", dtype, a_count), b = local_buffer("b", dtype, a_count / 2),
         d = local_buffer("d", kF32, 4);
  Expr j = make_var("j"), k = make_var("k"), m = make_var("m"), n = make_var("n");
  auto operand = [&](Expr at) {
    Expr value = load(x, std::move(at));
    return half ? cast(dtype, value) : call(MathFn::kRoundTf32, {value});
  };
  Stmt body = block({for_loop(j, 0, a_count, LoopKind::kSerial, store(a, j, operand(i.t * 8 + j))),
                     for_loop(k, 0, a_count / 2, LoopKind::kSerial, store(b, k, operand(i.t * 4 + k))),
                     for_loop(m, 0, 4, LoopKind::kSerial, store(d, m, float_imm(kF32, 0))),
                     mma(shape, d, 0, a, 0, b, 0),
                     for_loop(n, 0, 4, LoopKind::kSerial, store(out, i.t * 4 + n, load(d, n)))});
  Stmt whole = allocate(a, allocate(b, allocate(d, body)));
  return make_kernel("product", {x, out}, i.launch_of(1, 32, whole));
}

TEST(Ptx, AnEntryHasAPointerForEachBufferAndItsThreadsDeclared) {
  const std::string ptx = ptx_of(vector_add());
  EXPECT_THAT(ptx, HasSubstr(".visible .entry twice_0("));
  EXPECT_THAT(ptx, HasSubstr(".reqntid 128, 1, 1"));
  EXPECT_THAT(ptx, HasSubstr(".param .u64 twice_0_param_1"));
  EXPECT_THAT(ptx, HasSubstr(".target sm_80"));
}

TEST(Ptx, AlignedVectorsAreOneAccessAndReadOnlyDataGoesThroughItsCache) {
  const std::string ptx = ptx_of(vector_add());
  EXPECT_THAT(ptx, HasSubstr("ld.global.nc.v4.f32"));
  EXPECT_THAT(ptx, HasSubstr("st.global.v4.f32"));
  EXPECT_THAT(ptx, Not(HasSubstr("st.global.f32")));
}

TEST(Ptx, AVectorWhoseAlignmentIsUnknownIsTakenApart) {
  Indices i;
  Buffer in = argument("in", kF32, 1000), out = argument("out", kF32, 1000);
  Expr from = ramp(i.t * 4 + 2, 1, 4), to = ramp(i.t * 5, 1, 4);
  Stmt body = store(out, to, Expr(std::make_shared<LoadNode>(in, ExprType{kF32, 4}, from, Expr())));
  const std::string ptx = ptx_of(make_kernel("shifted", {in, out}, i.launch_of(1, 128, body)));
  EXPECT_THAT(ptx, HasSubstr("ld.global.nc.v2.f32"));
  EXPECT_THAT(ptx, Not(HasSubstr("ld.global.nc.v4.f32")));
  EXPECT_THAT(ptx, Not(HasSubstr("st.global.v")));
}

TEST(Ptx, AVectorUnderOneConditionStaysOneAccess) {
  Indices i;
  Buffer in = argument("in", kF32, 1000), out = argument("out", kF32, 1024);
  Expr inside = lt(i.bx * 512 + i.t * 4, 1000);
  Expr index = ramp(i.bx * 512 + i.t * 4, 1, 4);
  Expr value = Expr(std::make_shared<LoadNode>(in, ExprType{kF32, 4}, index, broadcast(inside, 4)));
  const std::string ptx = ptx_of(make_kernel(
      "guarded", {in, out}, i.launch_of(2, 128, store(out, index, value + value, broadcast(inside, 4)))));
  EXPECT_THAT(ptx, HasSubstr("ld.global.nc.v4.f32"));
  EXPECT_THAT(ptx, HasSubstr("st.global.v4.f32"));
}

TEST(Ptx, IndicesOfConstantBuffersAreComputedIn32Bits) {
  Indices i;
  Buffer in = argument("in", kF32, 1 << 20), out = argument("out", kF32, 1 << 20);
  Expr flat = i.bx * 128 + i.t;
  Expr index = floordiv(flat, 147) * 300 + mod(flat, 147) * 2;
  const std::string ptx =
      ptx_of(make_kernel("strided", {in, out}, i.launch_of(512, 128, store(out, flat, load(in, index)))));
  EXPECT_THAT(ptx, Not(ContainsRegex("(mul|div|rem)[.a-z]*[.][su]64")));
  EXPECT_THAT(ptx, Not(ContainsRegex("mul[.]lo[.]s64")));
}

TEST(Ptx, IndicesThatMayNotFitAreComputedIn64Bits) {
  Indices i;
  Expr n = symbol_var("N");
  Buffer in = argument("in", kF32, n * n), out = argument("out", kF32, n * n);
  Expr index = i.bx * n + i.t;
  const std::string ptx =
      ptx_of(make_kernel("rows", {in, out}, i.launch_of(n, 128, store(out, index, load(in, index))), {"N"}));
  EXPECT_THAT(ptx, ContainsRegex("(mul|mad)[.]lo[.][su]64"));
}

TEST(Ptx, SharedMemoryBarriersAndShufflesAreInstructions) {
  const std::string ptx = ptx_of(block_sum());
  EXPECT_THAT(ptx, HasSubstr(".shared .align 16 .b8 block_sum_0_tile[1024]"));
  EXPECT_THAT(ptx, HasSubstr("st.shared.f32"));
  EXPECT_THAT(ptx, HasSubstr("ld.shared.f32"));
  EXPECT_THAT(ptx, HasSubstr("bar.sync"));
  EXPECT_THAT(ptx, HasSubstr("shfl.sync.bfly.b32"));
  EXPECT_THAT(ptx, Not(HasSubstr(".local"))) << "sums belong in registers";
  EXPECT_LT(ptx.find("st.shared"), ptx.find("bar.sync"));
  EXPECT_LT(ptx.find("bar.sync"), ptx.find("ld.shared"));
}

TEST(Ptx, ABarrierSeparatesLoadsOfWhatOtherThreadsStore) {
  Indices i;
  Buffer out = argument("out", kF32, 256), tile = shared_buffer("tile", kF32, 128);
  Expr neighbour = mod(i.t + 1, 128);
  Stmt body = block({store(tile, i.t, cast(kF32, i.t)), barrier(), store(out, i.t, load(tile, neighbour)),
                     barrier(), store(tile, i.t, load(tile, i.t) * float_imm(kF32, 3)), barrier(),
                     store(out, i.t + 128, load(tile, neighbour))});
  const std::string ptx = ptx_of(make_kernel("exchange", {out}, i.launch_of(1, 128, allocate(tile, body))));
  const size_t last = ptx.rfind("bar.sync");
  EXPECT_NE(ptx.find("ld.shared", last), std::string::npos) << "the second look may differ from the first";
}

TEST(Ptx, WideValuesAreShuffledByHalves) {
  const std::string ptx = ptx_of(block_sum(DType::kF64));
  size_t count = 0;
  for (size_t at = ptx.find("shfl.sync"); at != std::string::npos; at = ptx.find("shfl.sync", at + 1))
    ++count;
  EXPECT_EQ(count, 10u);
}

TEST(Ptx, MatrixInstructionsOfEveryShape) {
  EXPECT_THAT(ptx_of(matrix_instruction(MmaShape::kM16N8K8Tf32)),
              HasSubstr("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"));
  EXPECT_THAT(ptx_of(matrix_instruction(MmaShape::kM16N8K16Bf16)),
              HasSubstr("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"));
  EXPECT_THAT(ptx_of(matrix_instruction(MmaShape::kM16N8K16F16)),
              HasSubstr("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"));
  EXPECT_THAT(ptx_of(matrix_instruction(MmaShape::kM16N8K8F16), "cuda:sm_75"),
              HasSubstr("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"));
  EXPECT_THAT(ptx_of(matrix_instruction(MmaShape::kM16N8K8Tf32)), Not(HasSubstr(".local")));
}

TEST(Ptx, ALoopAroundLaunchesPassesItsIteration) {
  Indices i;
  Buffer state = argument("state", kF32, 1024);
  Expr step = make_var("step");
  Stmt body = i.launch_of(8, 128, store(state, i.bx * 128 + i.t, cast(kF32, step)));
  const LoopKernel kernel = make_kernel("steps", {state}, for_loop(step, 0, 10, LoopKind::kSerial, body));
  EXPECT_THAT(ptx_of(kernel), HasSubstr(".param .u64 steps_0_param_1"));
}

TEST(Ptx, RootsAndQuotientsAreRoundedCorrectly) {
  Indices i;
  Buffer in = argument("in", kF32, 128), out = argument("out", kF32, 128);
  Expr x = load(in, i.t);
  Expr value = call(MathFn::kSqrt, {x}) + call(MathFn::kRsqrt, {x}) + x / (x + float_imm(kF32, 3));
  const std::string ptx =
      ptx_of(make_kernel("roots", {in, out}, i.launch_of(1, 128, store(out, i.t, value))));
  EXPECT_THAT(ptx, HasSubstr("sqrt.rn.f32"));
  EXPECT_THAT(ptx, HasSubstr("div.rn.f32"));
  EXPECT_THAT(ptx, Not(HasSubstr("approx")));
}

TEST(Ptx, EveryArchitectureGetsAVersionThatKnowsIt) {
  for (const char* arch : {"70", "72", "75", "80", "86", "87", "89", "90", "90a"}) {
    const GpuImage image = [&] {
      const LoopKernel kernel = vector_add();
      return build_gpu_image({&kernel, 1}, find_target(std::string("cuda:sm_") + arch), 1);
    }();
    EXPECT_THAT(image.ptx, HasSubstr(std::string(".target sm_") + arch));
    ASSERT_EQ(image.entries.size(), 1u);
    EXPECT_EQ(image.entries[0].symbol, "twice_0");
    EXPECT_NE(image.cubin.empty(), image.note.empty());
  }
}

class Ptxas : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!cuda::find_ptxas()) GTEST_SKIP() << "ptxas is not installed";
  }
};
INSTANTIATE_TEST_SUITE_P(Architectures, Ptxas, ::testing::Values("sm_75", "sm_80", "sm_90", "sm_90a"));

TEST_P(Ptxas, AcceptsAWholeProgramAndTellsItsRegisters) {
  const Target target = find_target(std::string("cuda:") + GetParam());
  std::vector<LoopKernel> kernels = {vector_add(), block_sum()};
  LoopKernel wide = block_sum(DType::kF64), whole = block_sum(DType::kI64), half = block_sum(DType::kF16);
  wide.name = "wide_sum";
  whole.name = "integer_sum";
  half.name = "half_sum";
  kernels.insert(kernels.end(), {wide, whole, half});
  std::vector<MmaShape> shapes = {MmaShape::kM16N8K8F16};
  if (target.gpu.compute_capability >= 80) {
    shapes.insert(shapes.end(), {MmaShape::kM16N8K8Tf32, MmaShape::kM16N8K16Bf16, MmaShape::kM16N8K16F16});
  }
  for (MmaShape shape : shapes) {
    kernels.push_back(matrix_instruction(shape));
    kernels.back().name += std::to_string(static_cast<int>(shape));
  }
  const GpuImage image = build_gpu_image(kernels, target, 2);
  ASSERT_THAT(image.note, IsEmpty());
  EXPECT_GT(image.cubin.size(), 1000u);
  ASSERT_EQ(image.entries.size(), kernels.size());
  for (const GpuEntry& entry : image.entries) {
    EXPECT_GT(entry.registers, 4) << entry.symbol;
    EXPECT_EQ(entry.spill_bytes, 0) << entry.symbol;
  }
}

TEST_P(Ptxas, AcceptsEveryFunctionOfFloats) {
  std::vector<LoopKernel> kernels;
  for (int fn = 0; fn <= static_cast<int>(MathFn::kAtanh); ++fn) {
    for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      Indices i;
      Buffer in = argument("in", dtype, 128), out = argument("out", dtype, 128);
      std::vector<Expr> arguments = {load(in, i.t)};
      if (static_cast<MathFn>(fn) == MathFn::kPow) arguments.push_back(load(in, i.t));
      Stmt body = store(out, i.t, call(static_cast<MathFn>(fn), arguments));
      kernels.push_back(make_kernel("f" + std::to_string(fn) + "_" + std::string(name_of(dtype)), {in, out},
                                    i.launch_of(1, 128, body)));
    }
  }
  const GpuImage image = build_gpu_image(kernels, find_target(std::string("cuda:") + GetParam()), 2);
  EXPECT_FALSE(image.cubin.empty());
}

TEST(FindPtxas, TakesTheProgramThatTheEnvironmentNames) {
  const char* before = std::getenv("GANTRY_PTXAS");
  const std::string kept = before ? before : "";
  setenv("GANTRY_PTXAS", "/no/such/ptxas", 1);
  EXPECT_THROW(cuda::find_ptxas(), Error);
  setenv("GANTRY_PTXAS", "none", 1);
  EXPECT_FALSE(cuda::find_ptxas().has_value());
  const LoopKernel kernel = vector_add();
  const GpuImage image = build_gpu_image({&kernel, 1}, find_target("cuda:sm_80"), 1);
  EXPECT_THAT(image.cubin, IsEmpty());
  EXPECT_THAT(image.note, HasSubstr("ptxas"));
  if (before) {
    setenv("GANTRY_PTXAS", kept.c_str(), 1);
  } else {
    unsetenv("GANTRY_PTXAS");
  }
}

/// The environment names a shell script of these lines as ptxas, while it lives.
class ScriptedPtxas {
 public:
  explicit ScriptedPtxas(const std::string& lines) {
    if (const char* before = std::getenv("GANTRY_PTXAS")) before_ = before;
    const std::filesystem::path program = folder_.path() / "ptxas";
    std::ofstream(program) << "#!/bin/sh\n" << lines << '\n';
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    setenv("GANTRY_PTXAS", program.c_str(), 1);
  }
  ~ScriptedPtxas() {
    if (before_) {
      setenv("GANTRY_PTXAS", before_->c_str(), 1);
    } else {
      unsetenv("GANTRY_PTXAS");
    }
  }
  ScriptedPtxas(const ScriptedPtxas&) = delete;

 private:
  TemporaryFolder folder_{"scripted"};
  std::optional<std::string> before_;
};

/// What assembling a kernel fails with where ptxas is that script.
Error failure_with(const std::string& lines) {
  const ScriptedPtxas ptxas(lines);
  const LoopKernel kernel = vector_add();
  try {
    build_gpu_image({&kernel, 1}, find_target("cuda:sm_80"), 1);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kBoard, "nothing failed");
}

TEST(FailingPtxas, EndedByASignalIsTheMachinesMatter) {
  const Error error = failure_with("kill -KILL $$");
  EXPECT_EQ(error.kind(), ErrorKind::kUser);
  EXPECT_THAT(error.what(), HasSubstr("ended by signal 9"));
  EXPECT_THAT(error.what(), HasSubstr("memory"));
}

TEST(FailingPtxas, WithoutAWordOfTheCodeIsTheFoldersMatter) {
  const Error error = failure_with("echo 'ptxas info    : 0 bytes gmem'; exit 3");
  EXPECT_EQ(error.kind(), ErrorKind::kUser);
  EXPECT_THAT(error.what(), HasSubstr("exit code 3"));
  EXPECT_THAT(error.what(), HasSubstr("is there room in /"));
  EXPECT_THAT(error.what(), HasSubstr("0 bytes gmem"));
  EXPECT_EQ(failure_with("exit 0").kind(), ErrorKind::kUser) << "it has written nothing";
}

TEST(FailingPtxas, WithAnErrorInTheCodeIsOurs) {
  const Error error =
      failure_with("echo \"ptxas kernels.ptx, line 1; error   : Unknown symbol 'x'\" >&2; exit 255");
  EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  EXPECT_THAT(error.what(), HasSubstr("ptxas refuses its code for sm_80"));
  EXPECT_THAT(error.what(), HasSubstr("Unknown symbol 'x'"));
}

TEST(FailingPtxas, ThatTellsOfAFullDiskIsNotRefusingTheCode) {
  const Error error = failure_with("echo 'ptxas fatal   : x.cubin: No space left on device' >&2; exit 255");
  EXPECT_EQ(error.kind(), ErrorKind::kUser);
  EXPECT_THAT(error.what(), HasSubstr("the disk of /"));
  EXPECT_THAT(error.what(), HasSubstr("TMPDIR"));
  EXPECT_THAT(error.what(), HasSubstr("x.cubin"));
}

/// Temporary files are on a disk of a quarter of a MiB; not where none can be mounted.
class SmallTemporaryDisk {
 public:
  SmallTemporaryDisk() {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=256k") == 0;
    setenv("TMPDIR", folder_.path().c_str(), 1);
  }
  ~SmallTemporaryDisk() {
    if (mounted_) ::umount(folder_.path().c_str());
    if (before_) {
      setenv("TMPDIR", before_->c_str(), 1);
    } else {
      unsetenv("TMPDIR");
    }
  }
  SmallTemporaryDisk(const SmallTemporaryDisk&) = delete;
  bool mounted() const { return mounted_; }
  std::string path() const { return folder_.path().string(); }

 private:
  TemporaryFolder folder_{"disk"};
  std::optional<std::string> before_;
  bool mounted_ = false;
};

TEST(FailingPtxas, OnAFullDiskIsTheDisksMatterWhateverItSays) {
  const SmallTemporaryDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "no disk can be mounted here";
  const Error error = failure_with("echo 'ptxas error   : Could not write the output' >&2; exit 255");
  EXPECT_EQ(error.kind(), ErrorKind::kUser);
  EXPECT_THAT(error.what(), HasSubstr("the disk of " + disk.path() + " is full"));
  EXPECT_THAT(error.what(), HasSubstr("Could not write the output"));
}

TEST(IndexRanges, BoundTreesOfIndexArithmetic) {
  IndexRanges ranges;
  Expr x = make_var("x"), n = symbol_var("N");
  ranges.bind(x.as<VarNode>(), {0, 99});
  auto expect = [&](const Expr& e, int64_t low, int64_t high) {
    const IndexRanges::Range r = ranges.range(e);
    EXPECT_EQ(r.low, low) << to_string(e);
    EXPECT_EQ(r.high, high) << to_string(e);
  };
  expect(x * 3 - 7, -7, 290);
  expect(floordiv(x - 5, 10), -1, 9);
  expect(mod(x - 5, 10), 0, 9);
  expect(mod(x, 1000), 0, 99);
  expect(min(x, 10) + max(x, 50), 50, 109);
  expect(x * n, 0, IndexRanges::kUnbounded);
  expect(x - n, -IndexRanges::kUnbounded, 99);
  EXPECT_FALSE(ranges.range(x * n).fits_int32());
  EXPECT_FALSE(ranges.range(x * (int64_t{1} << 40)).fits_int32());
}

TEST(IndexRanges, FindDivisors) {
  IndexRanges ranges;
  Expr x = make_var("x"), y = make_var("y");
  EXPECT_EQ(ranges.divisor(x * 12 + y * 8), 4);
  EXPECT_EQ(ranges.divisor(floordiv(x * 12, 4)), 3);
  EXPECT_EQ(ranges.divisor(mod(x * 8, 12)), 4);
  EXPECT_EQ(ranges.divisor(ramp(x * 4, 1, 4)), 4);
  EXPECT_EQ(ranges.divisor(x * 4 + 1), 1);
}

}  // namespace
}  // namespace gantry
