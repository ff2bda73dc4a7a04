// Sessions on a GPU, with the stand-in for its driver.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device_runtime/src/benchmark.h"
#include "device_runtime/src/gpu_info.h"
#include "device_runtime/src/session.h"
#include "gantry/runtime.h"
#include "tests/device_runtime/cuda_module.h"
#include "tests/device_runtime/fake_cuda/fake_cuda.h"

namespace gantry::runtime {
namespace {

using module_format::DimOpcode;
using testing::cuda_module;
using testing::CudaModuleBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModuleBuilder;
using testing::share;

FakeCudaCounters counters() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<FakeCudaCounters (*)()>(dlsym(library, "fake_cuda_counters"))();
}

Result<std::shared_ptr<const Module>> try_load(ModuleBuilder builder, const char* device = "cuda") {
  auto contents = ModuleContents::from_bytes(share(builder.write()));
  if (!contents.ok()) return contents.status();
  return Module::create(std::move(*contents), *parse_device(device));
}

std::shared_ptr<const Module> load(ModuleBuilder builder) {
  auto module = try_load(std::move(builder));
  EXPECT_TRUE(module.ok()) << module.status().message();
  return *module;
}

std::unique_ptr<Session> open(std::shared_ptr<const Module> module) {
  auto session = Session::create(std::move(module), {.threads = 1});
  EXPECT_TRUE(session.ok()) << session.status().message();
  return std::move(*session);
}

void set_ramp(Session& session, int64_t rows, float first = 0) {
  std::vector<float> values(static_cast<size_t>(rows * 4));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  int64_t shape[] = {rows, 4};
  const DLTensor tensor{values.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  const Status status = session.set_input(0, tensor, false);
  ASSERT_TRUE(status.ok()) << status.message();
}

std::vector<float> output_of(const Session& session) {
  auto view = session.output(0);
  EXPECT_TRUE(view.ok()) << view.status().message();
  const auto* data = reinterpret_cast<const float*>(view->data);
  return {data, data + view->bytes / sizeof(float)};
}

void expect_ramp_output(const Session& session, int64_t rows, float first = 0) {
  const auto out = output_of(session);
  ASSERT_EQ(out.size(), static_cast<size_t>(rows * 4));
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i], (first + static_cast<float>(i) + 1) * static_cast<float>(i % 4 + 1)) << i;
}

void run(Session& session) {
  const Status status = session.run();
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(Cuda, ReplaysAsAGraphWhatTheFirstRunDidStepByStep) {
  auto session = open(load(cuda_module()));
  set_ramp(*session, 3);
  const auto before = counters();
  run(*session);
  expect_ramp_output(*session, 3);
  EXPECT_EQ(counters().graph_launches, before.graph_launches);
  for (float first : {10.f, 20.f}) {
    set_ramp(*session, 3, first);
    run(*session);
    expect_ramp_output(*session, 3, first);
  }
  EXPECT_EQ(counters().graph_launches, before.graph_launches + 2);
  EXPECT_EQ(counters().kernels, before.kernels + 6);
}

TEST(Cuda, RebindsWhenShapesChange) {
  auto session = open(load(cuda_module()));
  for (int64_t rows : {2, 50, 1, 50}) {
    set_ramp(*session, rows);
    for (int i = 0; i < 3; ++i) {
      run(*session);
      expect_ramp_output(*session, rows);
    }
    EXPECT_EQ(session->memory().device_workspace_bytes, static_cast<uint64_t>(rows * 16));
  }
}

TEST(Cuda, RunsAnEmptyBatch) {
  auto session = open(load(cuda_module()));
  set_ramp(*session, 0);
  run(*session);
  run(*session);
  EXPECT_TRUE(output_of(*session).empty());
}

TEST(Cuda, UploadsWeightsOnceForAllSessions) {
  const auto before = counters();
  const auto module = load(cuda_module());
  EXPECT_EQ(counters().uploaded_bytes, before.uploaded_bytes + 4096 * 4);
  auto first = open(module), second = open(module);
  for (Session* session : {first.get(), second.get()}) {
    set_ramp(*session, 2);
    run(*session);
    expect_ramp_output(*session, 2);
  }
  EXPECT_EQ(counters().uploaded_bytes, before.uploaded_bytes + 4096 * 4 + 2 * 32);
  EXPECT_EQ(first->memory().device_weights_bytes, 4096u * 4);
}

/// cuda_module() with two variants more, for two rows and for three: they read the same weights, and some of
/// their own, which are one file's bytes for both.
CudaModuleBuilder specialized_cuda_module() {
  CudaModuleBuilder builder = cuda_module();
  const module_format::VariantT general = builder.variant();
  for (const int64_t rows : {2, 3}) {
    builder.manifest.variants.push_back(std::make_unique<module_format::VariantT>(general));
    builder.manifest.variants.back()->specialized.emplace_back(rows, 0);
  }
  const std::vector<float> ones(1024, 1);
  builder.on_gpu(builder.constant_buffer(ones));
  const module_format::ConstantRef own = builder.variant().constants.back();
  const module_format::BufferT buffer = *builder.variant().buffers.back();
  builder.variant().constants.pop_back();
  builder.variant().buffers.pop_back();
  for (const size_t i : {1, 2}) {
    module_format::VariantT& variant = *builder.manifest.variants[i];
    variant.constants.push_back(own);
    variant.buffers.push_back(std::make_unique<module_format::BufferT>(buffer));
  }
  return builder;
}

TEST(Cuda, UploadsWeightsOnceForAllVariants) {
  const auto before = counters();
  {
    const auto module = load(specialized_cuda_module());
    ASSERT_EQ(module->specialized().size(), 2u);
    constexpr uint64_t kWeights = 4096 * 4, kOwn = 1024 * 4;
    EXPECT_EQ(counters().uploaded_bytes, before.uploaded_bytes + kWeights + kOwn);
    EXPECT_EQ(counters().allocated_bytes, before.allocated_bytes + kWeights + kOwn);
    auto session = open(module);
    for (const int64_t rows : {2, 5, 3, 2}) {
      set_ramp(*session, rows);
      run(*session);
      expect_ramp_output(*session, rows);
    }
    EXPECT_EQ(session->memory().device_weights_bytes, kWeights + kOwn);
  }
  EXPECT_EQ(counters().allocated_bytes, before.allocated_bytes);
}

TEST(Cuda, GivesItsMemoryBack) {
  const auto before = counters();
  {
    auto session = open(load(cuda_module()));
    set_ramp(*session, 100);
    run(*session);
    EXPECT_GT(counters().allocated_bytes, before.allocated_bytes);
  }
  EXPECT_EQ(counters().allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(counters().modules, before.modules);
}

/// out = ((in + 1) on the GPU, squared on the CPU) + 1 on the GPU.
CudaModuleBuilder mixed_module() {
  CudaModuleBuilder builder;
  const uint32_t n = builder.symbol("N"), four = builder.constant(4);
  const uint32_t elements = builder.combine(DimOpcode::Mul, n, four);
  const uint32_t bytes = builder.combine(DimOpcode::Mul, elements, four);
  builder.add_input("in", {n, four});
  builder.add_output("out", {n, four});
  builder.variant().workspace_bytes = builder.constant(8192);
  builder.variant().gpu_workspace_bytes = builder.constant(8192);
  const uint32_t in = builder.on_gpu(builder.input_buffer(0, bytes));
  const uint32_t out = builder.on_gpu(builder.output_buffer(0, bytes));
  const uint32_t low = builder.constant(0), high = builder.constant(4096);
  const uint32_t gpu_a = builder.on_gpu(builder.workspace_buffer(low, bytes));
  const uint32_t gpu_b = builder.on_gpu(builder.workspace_buffer(high, bytes));
  const uint32_t cpu_a = builder.workspace_buffer(low, bytes), cpu_b = builder.workspace_buffer(high, bytes);
  builder.launch("add_one", {in, gpu_a}, {elements}, n, {"Add_0"});
  builder.copy(gpu_a, cpu_a);
  builder.call("parallel_square", {cpu_a, cpu_b}, {elements}, {"Mul_1"});
  builder.copy(cpu_b, gpu_b);
  builder.launch("add_one", {gpu_b, out}, {elements}, n, {"Add_2"});
  return builder;
}

TEST(Cuda, RunsStepsOfTheCpuBetweenThoseOfTheGpu) {
  auto session = open(load(mixed_module()));
  set_ramp(*session, 2);
  for (int i = 0; i < 3; ++i) {
    run(*session);
    const auto out = output_of(*session);
    for (size_t k = 0; k < out.size(); ++k) {
      const float sum = static_cast<float>(k) + 1;
      EXPECT_EQ(out[k], sum * sum + 1);
    }
  }
}

TEST(Cuda, RepeatsLaunchesOfALoopAndPassesTheIteration) {
  CudaModuleBuilder builder;
  const uint32_t n = builder.symbol("N"), four = builder.constant(4);
  const uint32_t elements = builder.combine(DimOpcode::Mul, n, four);
  const uint32_t bytes = builder.combine(DimOpcode::Mul, elements, four);
  builder.add_input("in", {n, four});
  builder.add_output("out", {n, four});
  const uint32_t in = builder.on_gpu(builder.input_buffer(0, bytes));
  const uint32_t out = builder.on_gpu(builder.output_buffer(0, bytes));
  builder.launch("zero", {out}, {elements}, n);
  auto& kernel = builder.launch("accumulate", {in, out}, {elements}, n, {"Scan_0"});
  kernel.launches[0]->loop = 0;
  builder.last_call().loops = {n};  // iterations 0 … N-1
  auto session = open(load(std::move(builder)));
  set_ramp(*session, 3);
  for (int i = 0; i < 2; ++i) {
    run(*session);
    for (size_t k = 0; k < 12; ++k) EXPECT_EQ(output_of(*session)[k], static_cast<float>(k) * (0 + 1 + 2));
  }
}

TEST(Cuda, TimesStepsAndRunsByEvents) {
  auto session = open(load(mixed_module()));
  set_ramp(*session, 2);
  std::vector<int64_t> nanoseconds(5, -1);
  const Status status = session->run_timed(nanoseconds);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t time : nanoseconds) EXPECT_GE(time, 0);
  double elapsed = -1;
  ASSERT_TRUE(session->run_repeatedly(5, elapsed).ok());
  EXPECT_GT(elapsed, 0);
  auto result =
      run_benchmark(*session, {.warmup = 0, .number = 2, .repeat = 3, .flush_cache = true, .profile = true});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->samples_ms.size(), 3u);
  ASSERT_EQ(result->kernels.size(), 5u);
  EXPECT_EQ(result->kernels[0].ops, "test.add_one");
  EXPECT_EQ(result->kernels[1].ops, "copy");
  EXPECT_GT(result->memory.device_io_bytes, 0u);
}

TEST(Cuda, RefusesAGridThatTheGpuDoesNotHave) {
  CudaModuleBuilder builder = cuda_module();
  builder.variant().steps[0]->action.AsCallKernel()->grids[1] = builder.constant(70000);
  auto session = open(load(std::move(builder)));
  set_ramp(*session, 1);
  const Status status = session->run();
  EXPECT_EQ(status.code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), HasSubstr("test.add_one"));
  EXPECT_THAT(status.message(), HasSubstr("70000 blocks along y"));
}

TEST(Cuda, RefusesAPlanThatReachesOutsideTheGpusMemory) {
  const auto refused = [](auto change, const char* where) {
    CudaModuleBuilder builder = cuda_module();
    change(builder);
    auto session = open(load(std::move(builder)));
    set_ramp(*session, 4);
    const Status status = session->run();
    EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE);
    EXPECT_THAT(status.message(), HasSubstr(where));
  };
  refused([](auto& b) { b.variant().buffers[3]->offset = b.constant(64); }, "of the GPU's workspace");
  refused([](auto& b) { b.variant().buffers[3]->offset = b.constant(8); }, "not aligned");
  refused([](auto& b) { b.variant().buffers[0]->bytes = b.constant(65); }, "of an input on the GPU");
  refused([](auto& b) { b.variant().buffers[2]->bytes = b.constant(1 << 20); }, "of a constant on the GPU");
}

TEST(Cuda, SaysHowMuchMemoryTheGpuLacks) {
  CudaModuleBuilder builder = cuda_module();
  builder.variant().gpu_workspace_bytes = builder.constant(int64_t{5} << 30);
  auto session = open(load(std::move(builder)));
  set_ramp(*session, 1);
  const Status status = session->run();
  EXPECT_EQ(status.code(), GANTRY_OUT_OF_MEMORY);
  EXPECT_THAT(status.message(), HasSubstr("the model's workspace needs 5.0 GiB of the GPU's memory"));
  EXPECT_THAT(status.message(), HasSubstr("free"));
}

TEST(Cuda, ChecksEverythingOfAManifestThatItUses) {
  const auto refused = [](auto change, const char* message) {
    CudaModuleBuilder builder = mixed_module();
    change(builder, builder.variant());
    const Status status = ModuleContents::from_bytes(share(builder.write())).status();
    EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE) << message;
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  const auto call = [](auto& variant) -> auto& {
    return *variant.steps[0]->action.AsCallKernel();
  };
  using module_format::Device;
  refused([](auto&, auto& v) { v.device = static_cast<Device>(9); }, "unknown device");
  refused([](auto&, auto& v) { v.device = Device::Cpu; }, "a device that the variant does not have");
  refused([](auto&, auto& v) { v.gpu_arch = "sm_"; }, "names no architecture");
  refused([](auto&, auto& v) { v.gpu_arch = ""; }, "names no architecture");
  refused([](auto&, auto& v) { v.ptx_segment = 0; }, "not in a segment of PTX");
  refused([](auto&, auto& v) { v.ptx_segment = 77; }, "not in a segment of PTX");
  refused([](auto&, auto& v) { v.ptx_segment = -5; }, "not in a segment of PTX");
  refused([](auto&, auto& v) { v.cubin_segment = v.ptx_segment; }, "assembled code");
  refused([](auto&, auto& v) { v.ptx_segment = -1; }, "no code for them");
  refused([](auto&, auto& v) { v.code_segment = 99; }, "not in a segment of code");
  refused([](auto&, auto& v) { v.gpu_workspace_bytes = 9999; }, "workspace on the GPU");
  refused([](auto&, auto& v) { v.kernels[0]->launches.clear(); }, "0 launches");
  refused([](auto&, auto& v) { v.kernels[0]->launches[0]->threads = 0; }, "blocks of 0 threads");
  refused([](auto&, auto& v) { v.kernels[0]->launches[0]->threads = 1025; }, "blocks of 1025 threads");
  refused([](auto&, auto& v) { v.kernels[0]->launches[0]->shared_bytes = 1u << 30; }, "shared memory");
  refused([](auto&, auto& v) { v.kernels[0]->launches[0]->loop = -2; }, "loop of number -2");
  refused([](auto&, auto& v) { v.kernels[0]->launches[0]->loop = 0; }, "a loop that its step does not have");
  refused([](auto&, auto& v) { v.kernels[0]->launches[0]->symbol = ""; }, "has no symbol");
  refused([&](auto&, auto& v) { call(v).grids.pop_back(); }, "2 sizes of grids for its 1 launches");
  refused([&](auto&, auto& v) { call(v).grids[2] = 9999; }, "a grid of kernel 'add_one'");
  refused([&](auto&, auto& v) { call(v).loops = {9999}; }, "a loop of kernel 'add_one'");
  refused([](auto&, auto& v) { v.buffers[0]->device = Device::Cpu; },
          "which runs on the GPU, a buffer in the other's");
  refused([](auto&, auto& v) { v.buffers[4]->device = Device::Cuda; },
          "which runs on the CPU, a buffer in the other's");
  refused([](auto&, auto& v) { v.buffers[4]->device = Device::CudaEmulated; }, "a device that has no memory");
  refused([](auto&, auto& v) { v.kernels[0]->device = Device::CudaEmulated; },
          "a device that the variant does not have");
  refused([](auto&, auto& v) { v.kernels[0]->device = Device::Cpu; },
          "which runs on the CPU, a buffer in the other's");
}

TEST(Cuda, PassesOnWhatTheDriverSaysOfPtxThatItRefuses) {
  CudaModuleBuilder builder = cuda_module();
  builder.set_ptx("bad");
  const Status status = try_load(std::move(builder)).status();
  EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE);
  EXPECT_THAT(status.message(), HasSubstr("ptxas fatal: line 1: this is bad"));
  EXPECT_THAT(status.message(), HasSubstr("CUDA_ERROR_INVALID_PTX"));
}

TEST(Cuda, NamesAKernelThatThePtxLacks) {
  CudaModuleBuilder builder = cuda_module();
  builder.set_ptx("entry add_one\n");
  EXPECT_THAT(try_load(std::move(builder)).status().message(), HasSubstr("no kernel 'scale'"));
}

TEST(Cuda, TakesOnlyCodeThatTheGpuCanRun) {
  CudaModuleBuilder builder = cuda_module();
  builder.variant().gpu_arch = "sm_90";
  const Status newer = try_load(builder).status();
  EXPECT_EQ(newer.code(), GANTRY_INCOMPATIBLE);
  EXPECT_THAT(newer.message(), HasSubstr("needs a GPU with sm_90 or newer"));
  EXPECT_THAT(newer.message(), HasSubstr("GPU with sm_80"));
  builder.variant().gpu_arch = "sm_75";
  EXPECT_TRUE(try_load(builder).ok());
  builder.variant().gpu_arch = "sm_70a";
  EXPECT_THAT(try_load(builder).status().message(), HasSubstr("needs a GPU with sm_70a"));
}

TEST(Cuda, AnyGpuTakesAModuleThatHasNoKernelsForOne) {
  CudaModuleBuilder builder = cuda_module();
  builder.variant().steps.clear();
  builder.variant().kernels.clear();
  builder.variant().ptx_segment = -1;
  for (const char* arch : {"sm_75", "sm_80", "sm_90"}) {
    builder.variant().gpu_arch = arch;
    EXPECT_TRUE(try_load(builder).ok()) << arch << ": " << try_load(builder).status().message();
  }
}

TEST(Cuda, SaysWhichDevicesAModuleHasCodeFor) {
  const Status cpu = try_load(cuda_module(), "cpu").status();
  EXPECT_EQ(cpu.code(), GANTRY_INCOMPATIBLE);
  EXPECT_THAT(cpu.message(), HasSubstr("no code for the device cpu, only 'cuda:sm_80/here'"));
  EXPECT_THAT(try_load(testing::static_module()).status().message(),
              HasSubstr("no code for the device cuda"));
  EXPECT_THAT(try_load(cuda_module(), "cuda:7").status().message(), HasSubstr("no GPU 7: it has 1"));
  EXPECT_THAT(parse_device("gpu").status().message(), HasSubstr("unknown device 'gpu'"));
}

TEST(Cuda, DescribesTheGpuInAChildProcess) {
  const GpuList list = describe_gpus_in_child();
  EXPECT_EQ(list.problem, "");
  ASSERT_EQ(list.gpus.size(), 1u);
  EXPECT_EQ(list.gpus[0].name, "Fake GPU 0");
  EXPECT_EQ(list.gpus[0].compute_capability, 80);
  EXPECT_EQ(list.gpus[0].multiprocessors, 108);
  EXPECT_EQ(list.gpus[0].memory_bytes, uint64_t{1} << 30);
  EXPECT_EQ(list.gpus[0].cuda_version, 12040);
}

// Settings of the stand-in are read when it is first called: these tests need a process of their own each.
using CudaDeathTest = ::testing::Test;

/// Runs `body` in a fresh process with a setting of the stand-in; the body prints what is compared.
template <typename Body>
void expect_in_fresh_process(const char* name, const char* value, Body body, const std::string& printed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv(name, value, 1);
        std::fputs(body().c_str(), stderr);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), printed);
}

std::string error_of_loading() {
  return try_load(cuda_module()).status().message();
}

TEST_F(CudaDeathTest, SaysWhyThereIsNoGpu) {
  expect_in_fresh_process("FAKE_CUDA_DEVICES", "0", error_of_loading, "driver finds no GPU on this machine");
}

TEST_F(CudaDeathTest, SaysThatADriverIsTooOld) {
  expect_in_fresh_process("FAKE_CUDA_VERSION", "11010", error_of_loading,
                          "too old: it is for CUDA 11.1, .* 11.4");
}

TEST_F(CudaDeathTest, NamesTheKernelThatFaults) {
  const auto body = [] {
    auto session = open(load(cuda_module()));
    set_ramp(*session, 1);
    std::string text = session->run().message();
    text += "\nthen: " + session->run().message();
    return text;
  };
  expect_in_fresh_process(
      "FAKE_CUDA_FAULT", "2", body,
      "kernel scale \\(step #[0-9]: test.scale; nodes Mul_1\\) failed on the GPU: an illegal memory access "
      "was encountered "
      "\\(CUDA_ERROR_ILLEGAL_ADDRESS, code 700\\)(.|\n)*then: the GPU is lost to this process");
}

TEST_F(CudaDeathTest, SaysThatAReplayedKernelFaults) {
  const auto body = [] {
    auto session = open(load(cuda_module()));
    set_ramp(*session, 1);
    run(*session);
    return session->run().message();
  };
  expect_in_fresh_process("FAKE_CUDA_FAULT", "4", body,
                          "kernels failed on the GPU: an illegal memory access");
}

TEST_F(CudaDeathTest, SaysThatTheGpuIsLostToTheOtherModulesToo) {
  const auto body = [] {
    auto faulty = open(load(cuda_module())), other = open(load(cuda_module()));
    set_ramp(*faulty, 1);
    set_ramp(*other, 1);
    std::string text = faulty->run().message();
    text += "\nother: " + other->run().message();
    return text + "\nnext: " + error_of_loading();
  };
  expect_in_fresh_process("FAKE_CUDA_FAULT", "2", body,
                          "kernel scale (.|\n)*other: the GPU is lost to this process"
                          "(.|\n)*next: the GPU is lost to this process");
}

TEST_F(CudaDeathTest, RunsWithoutGraphsWhereTheDriverCannotCapture) {
  const auto body = [] {
    auto session = open(load(cuda_module()));
    set_ramp(*session, 2);
    for (int i = 0; i < 3; ++i) run(*session);
    expect_ramp_output(*session, 2);
    std::vector<int64_t> nanoseconds(2, -1);
    const Status status = session->run_timed(nanoseconds);
    return status.ok() && nanoseconds[1] >= 0 && counters().graph_launches == 0 ? std::string("fine")
                                                                                : status.message();
  };
  expect_in_fresh_process("FAKE_CUDA_NO_CAPTURE", "1", body, "fine");
}

TEST_F(CudaDeathTest, LeaksNoGraphWhereMemoryEndsAtALaterOne) {
  const auto body = [] {
    std::string text;
    {
      auto session = open(load(mixed_module()));
      set_ramp(*session, 2);
      run(*session);
      for (int i = 0; i < 2; ++i) text += session->run().message() + "\n";
    }
    return text + std::to_string(counters().graphs) + " graphs are left";
  };
  const std::string refused = "a CUDA graph of the model: the GPU has no memory left(.|\n)*";
  expect_in_fresh_process("FAKE_CUDA_GRAPHS", "1", body, refused + refused + "\n0 graphs are left");
}

TEST(CudaCApi, RunsOnTheDeviceThatASessionAsksFor) {
  const auto file = cuda_module().write();
  GantryModule* module = nullptr;
  ASSERT_EQ(gantry_module_load_memory(file.data(), file.size(), &module), GANTRY_OK) << gantry_last_error();
  EXPECT_STREQ(gantry_module_target(module), "cuda:sm_80/here");
  GantrySession* session = nullptr;
  EXPECT_EQ(gantry_session_create(module, nullptr, &session), GANTRY_INCOMPATIBLE);
  GantrySessionOptions options{};
  options.struct_size = sizeof options;
  options.device = "cuda";
  ASSERT_EQ(gantry_session_create(module, &options, &session), GANTRY_OK) << gantry_last_error();
  float values[4] = {0, 1, 2, 3};
  int64_t shape[] = {1, 4};
  const DLTensor in{values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  ASSERT_EQ(gantry_set_input(session, 0, &in, 0), GANTRY_OK);
  ASSERT_EQ(gantry_run(session), GANTRY_OK) << gantry_last_error();
  DLTensor out;
  ASSERT_EQ(gantry_get_output(session, 0, &out), GANTRY_OK);
  EXPECT_EQ(static_cast<float*>(out.data)[3], 16);
  GantryDeviceMemoryInfo memory{};
  memory.struct_size = sizeof memory;
  ASSERT_EQ(gantry_device_memory_info(session, &memory), GANTRY_OK) << gantry_last_error();
  EXPECT_EQ(memory.workspace_bytes, 16u);
  EXPECT_EQ(memory.weights_bytes, 4096u * 4);
  gantry_session_release(session);
  gantry_module_release(module);
}

}  // namespace
}  // namespace gantry::runtime
