// How a model is compiled that a machine is to run: for which target, and what ends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "host/cli/model_source.h"
#include "host/codegen/find_target.h"
#include "host/machine/cpu_family.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using ::testing::HasSubstr;

/// What a machine reports that can run exactly that target's code.
rpc::BoardInfo machine_like(const char* target) {
  const Target like = find_target(target);
  rpc::BoardInfo machine;
  machine.architecture = like.family->name;
  machine.llvm_cpu = like.cpu;
  machine.features = like.features;
  return machine;
}

std::string target_on(const char* machine, const char* asked) {
  ModuleRequest request;
  request.target = asked;
  request.device = runtime::parse_device("cpu").value();
  return target_of_device(request, machine_like(machine)).name;
}

std::string refusal_on(const char* machine, const char* asked) {
  try {
    target_on(machine, asked);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

TEST(TargetOfModel, IsTheMachinesOwnUnlessItIsNamed) {
  EXPECT_EQ(target_on("znver4", ""), "znver4");
  EXPECT_EQ(target_on("znver4", "x86-64-v3"), "x86-64-v3");
  EXPECT_EQ(target_on("znver4", "znver4"), "znver4");
  EXPECT_EQ(target_on("cortex-a76", "aarch64+dotprod"), "aarch64+dotprod");
}

TEST(TargetOfModel, OfOtherCodeThanTheMachinesIsRefused) {
  EXPECT_THAT(refusal_on("x86-64-v3", "x86-64-v4"),
              HasSubstr("--target x86-64-v4: the machine has no avx512"));
  EXPECT_THAT(refusal_on("cortex-a76", "x86-64-v2"),
              HasSubstr("--target x86-64-v2: it is of x86_64, the machine of aarch64"));
  EXPECT_THAT(refusal_on("znver4", "cuda:sm_80"), HasSubstr("--target cuda:sm_80: it is of a GPU"));
  EXPECT_THAT(refusal_on("znver4", "x86-46-v3"), HasSubstr("x86-64-v3"));
}

/// On a machine with that CPU and a GPU of compute capability 8.6; "refused: …" where that is not done.
std::string gpu_target_on(const char* machine, const char* device, const char* asked,
                          const char* gpu_arch = "", bool gpu_checks = false) {
  ModuleRequest request;
  request.target = asked;
  request.device = runtime::parse_device(device).value();
  request.gpu_arch = gpu_arch;
  request.gpu_checks = gpu_checks;
  rpc::BoardInfo info = machine_like(machine);
  info.gpus.emplace_back().compute_capability = 86;
  try {
    return target_of_device(request, info).name;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return std::string("refused: ") + error.what();
  }
}

TEST(TargetOfModel, OfAGpuIsTakenWhereTheDeviceIsOne) {
  EXPECT_EQ(gpu_target_on("znver4", "cuda", ""), "cuda:sm_86/znver4");
  EXPECT_EQ(gpu_target_on("znver4", "cuda", "cuda:sm_80/x86-64-v3"), "cuda:sm_80/x86-64-v3");
  EXPECT_EQ(gpu_target_on("znver4", "cuda:0", "cuda:sm_86"), "cuda:sm_86");
  EXPECT_EQ(gpu_target_on("znver4", "cuda-emulated", "cuda-emulated:sm_90/x86-64-v3"),
            "cuda-emulated:sm_90/x86-64-v3");
  EXPECT_EQ(gpu_target_on("znver4", "cuda-emulated", "cuda-emulated:sm_90/x86-64-v3", "sm_90"),
            "cuda-emulated:sm_90/x86-64-v3");
}

TEST(TargetOfModel, ThatContradictsTheDeviceIsRefused) {
  EXPECT_THAT(gpu_target_on("znver4", "cuda", "x86-64-v3"),
              HasSubstr("--target x86-64-v3 is for --device cpu, not cuda; leave one of them out"));
  EXPECT_THAT(gpu_target_on("znver4", "cuda-emulated", "cuda:sm_80"),
              HasSubstr("cuda:sm_80 is for --device cuda, not cuda-emulated; leave one of them out"));
  EXPECT_THAT(gpu_target_on("znver4", "cpu", "cuda:sm_80"), HasSubstr("give --device cuda, too"));
  EXPECT_THAT(gpu_target_on("znver4", "cuda-emulated", "cuda-emulated:sm_90", "sm_80"),
              HasSubstr("is for sm_90, not --gpu-arch sm_80"));
  EXPECT_THAT(gpu_target_on("znver4", "cuda-emulated", "cuda-emulated:sm_90", "", true),
              HasSubstr("without --gpu-checks"));
  EXPECT_THAT(gpu_target_on("x86-64-v3", "cuda", "cuda:sm_80/x86-64-v4"),
              HasSubstr("--target cuda:sm_80/x86-64-v4: its CPU: the machine has no avx512"));
  EXPECT_THAT(gpu_target_on("znver4", "cuda", "cuda:sm_89"),
              HasSubstr("8.9 and newer, the machine's GPU has 8.6"));
  EXPECT_THAT(gpu_target_on("znver4", "cuda:1", "cuda:sm_80"), HasSubstr("no GPU for --device cuda:1"));
}

TEST(CompilationOfModel, EndsWhereItIsInterrupted) {
  const std::string text =
      "fn @main(%x: Tensor[(4), f32]) -> Tensor[(4), f32] {\n  %y = nn.relu(%x)\n  return %y\n}\n";
  ModuleRequest request;
  request.file = "relu.gir";
  request.contents = aligned_copy(std::as_bytes(std::span(text)));
  request.device = runtime::parse_device("cpu").value();
  request.use_cache = false;
  struct Interrupt {};
  int asked = 0;
  Invocation invocation;
  invocation.check_interrupt = [&] {
    if (++asked == 2) throw Interrupt();
  };
  EXPECT_THROW(module_for(request, machine_like("x86-64-v3"), invocation), Interrupt);
  EXPECT_EQ(asked, 2);
  invocation.check_interrupt = nullptr;
  EXPECT_EQ(module_for(request, machine_like("x86-64-v3"), invocation).opt_level, request.opt_level);
}

}  // namespace
}  // namespace gantry::cli
