#include "benchmarks/gpu/peak_kernels.h"

#include <fmt/format.h>

namespace gantry::gpu_bundle {
namespace {

/// Enough sums side by side that none waits for the one before it.
constexpr int kSums = 8;
/// Of each sum, an iteration.
constexpr int kUnrolled = 8;

/// Comments name the kernels for the tests' stand-in of the driver, which takes lines "entry NAME".
std::string head(const std::string& name, int capability) {
  return fmt::format(".version {}\n.target sm_{}\n.address_size 64\n\n// entry {}\n",
                     capability >= 80 ? "7.0" : "6.3", capability, name);
}

/// The number of the thread over all blocks, in %rd9.
constexpr const char* kThreadNumber = R"(  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %rd8, %r3;
  mad.wide.u32 %rd9, %r1, %r2, %rd8;
)";

/// One instruction that adds to sum `s`.
std::string instruction(const Chain& chain, int s) {
  const std::string peak = chain.peak;
  if (peak == "fp32") return fmt::format("  fma.rn.f32 %s{0}, %one, %one, %s{0};\n", s);
  const std::string sum = fmt::format("{{%s{}, %s{}, %s{}, %s{}}}", 4 * s, 4 * s + 1, 4 * s + 2, 4 * s + 3);
  const char* shape = peak == "tf32"   ? "m16n8k8.row.col.f32.tf32.tf32.f32"
                      : peak == "fp16" ? "m16n8k16.row.col.f32.f16.f16.f32"
                                       : "m16n8k16.row.col.f32.bf16.bf16.f32";
  return fmt::format("  mma.sync.aligned.{} {}, {{%a, %a, %a, %a}}, {{%a, %a}}, {};\n", shape, sum, sum);
}

}  // namespace

const std::vector<Chain>& chains() {
  // A thread of a warp has a 32nd of the operations of an instruction: 2 * 16 * 8 * depth.
  static const std::vector<Chain> all = {
      {"chain_fp32", "fp32", 75, 0x3f800000, kUnrolled, 2.0 * kSums * kUnrolled},
      {"chain_tf32", "tf32", 80, 0x3f800000, 8.0 * kUnrolled, 2.0 * 16 * 8 * 8 / 32 * kSums * kUnrolled},
      {"chain_fp16", "fp16", 80, 0x3c003c00, 16.0 * kUnrolled, 2.0 * 16 * 8 * 16 / 32 * kSums * kUnrolled},
      {"chain_bf16", "bf16", 80, 0x3f803f80, 16.0 * kUnrolled, 2.0 * 16 * 8 * 16 / 32 * kSums * kUnrolled},
  };
  return all;
}

std::string copy_ptx() {
  return head("copy", 75) +
         R"(.visible .entry copy(.param .u64 copy_from, .param .u64 copy_to, .param .u64 copy_count,
  .param .u64 copy_threads)
{
  .reg .pred %p<2>;
  .reg .f32 %f<5>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [copy_from];
  ld.param.u64 %rd2, [copy_to];
  ld.param.u64 %rd3, [copy_count];
  ld.param.u64 %rd4, [copy_threads];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
)" + kThreadNumber +
         R"(NEXT:
  setp.ge.u64 %p1, %rd9, %rd3;
  @%p1 bra DONE;
  shl.b64 %rd10, %rd9, 4;
  add.s64 %rd11, %rd1, %rd10;
  add.s64 %rd12, %rd2, %rd10;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd11];
  st.global.v4.f32 [%rd12], {%f1, %f2, %f3, %f4};
  add.s64 %rd9, %rd9, %rd4;
  bra NEXT;
DONE:
  ret;
}
)";
}

std::string chain_ptx(const Chain& chain) {
  const std::string name = chain.name;
  const int registers = kSums * (std::string(chain.peak) == "fp32" ? 1 : 4);
  std::string text = head(name, chain.needs);
  text += fmt::format(
      ".visible .entry {0}(.param .u64 {0}_out, .param .u64 {0}_iterations, .param .u64 {0}_one)\n{{\n",
      name);
  text += fmt::format(
      "  .reg .pred %p<2>;\n  .reg .f32 %s<{}>;\n  .reg .f32 %one;\n  .reg .b32 %a;\n"
      "  .reg .b32 %r<4>;\n  .reg .b64 %rd<16>;\n",
      registers);
  text += fmt::format(
      "  ld.param.u64 %rd1, [{0}_out];\n  ld.param.u64 %rd2, [{0}_iterations];\n"
      "  ld.param.u64 %rd3, [{0}_one];\n  cvta.to.global.u64 %rd1, %rd1;\n"
      "  cvt.u32.u64 %a, %rd3;\n  mov.b32 %one, %a;\n",
      name);
  text += kThreadNumber;
  for (int i = 0; i < registers; ++i) text += fmt::format("  mov.f32 %s{}, 0f00000000;\n", i);
  text += "NEXT:\n";
  for (int i = 0; i < kUnrolled; ++i) {
    for (int s = 0; s < kSums; ++s) text += instruction(chain, s);
  }
  text += "  add.s64 %rd2, %rd2, -1;\n  setp.gt.s64 %p1, %rd2, 0;\n  @%p1 bra NEXT;\n";
  // The mean of all sums, which are equal: none may be left out by the driver's compiler.
  for (int i = 1; i < registers; ++i) text += fmt::format("  add.f32 %s0, %s0, %s{};\n", i);
  text += fmt::format("  mul.f32 %s0, %s0, 0f{:08X};\n",
                      0x3f800000u - (static_cast<unsigned>(registers == 8 ? 3 : 5) << 23));
  text +=
      "  shl.b64 %rd10, %rd9, 2;\n  add.s64 %rd11, %rd1, %rd10;\n  st.global.f32 [%rd11], %s0;\n  ret;\n}\n";
  return text;
}

}  // namespace gantry::gpu_bundle
