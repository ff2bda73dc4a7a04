#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gantry/runtime.h"
#include "tests/device_runtime/address_space_limit.h"
#include "tests/device_runtime/loaded_module.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using ::testing::HasSubstr;

class CApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = testing::static_module().write();
    ASSERT_EQ(gantry_module_load_memory(file.data(), file.size(), &module_), GANTRY_OK)
        << gantry_last_error();
    ASSERT_EQ(gantry_session_create(module_, nullptr, &session_), GANTRY_OK) << gantry_last_error();
  }
  void TearDown() override {
    gantry_session_release(session_);
    gantry_module_release(module_);
  }
  DLTensor input() { return {values_, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape_, nullptr, 0}; }

  GantryModule* module_ = nullptr;
  GantrySession* session_ = nullptr;
  float values_[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape_[2] = {2, 3};
};

TEST_F(CApiTest, DescribesTheModel) {
  EXPECT_STREQ(gantry_module_target(module_), "here");
  EXPECT_EQ(gantry_input_count(module_), 1);
  GantryTensorDescription info{sizeof info};
  ASSERT_EQ(gantry_describe_output(module_, 0, &info), GANTRY_OK);
  EXPECT_STREQ(info.name, "out");
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.shape[1], 3);
  EXPECT_EQ(info.dtype.bits, 32);
  EXPECT_EQ(gantry_describe_input(module_, 1, &info), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(gantry_last_error(), HasSubstr("no input 1"));
}

TEST_F(CApiTest, RunsAndTakesAnOutputThatOutlivesTheSession) {
  const DLTensor in = input();
  ASSERT_EQ(gantry_set_input(session_, 0, &in, 0), GANTRY_OK) << gantry_last_error();
  ASSERT_EQ(gantry_run(session_), GANTRY_OK) << gantry_last_error();
  DLTensor out;
  ASSERT_EQ(gantry_get_output(session_, 0, &out), GANTRY_OK) << gantry_last_error();
  EXPECT_EQ(static_cast<float*>(out.data)[5], 7);
  DLManagedTensor* taken = nullptr;
  ASSERT_EQ(gantry_take_output(session_, 0, &taken), GANTRY_OK) << gantry_last_error();
  gantry_session_release(session_);
  session_ = nullptr;
  EXPECT_EQ(static_cast<float*>(taken->dl_tensor.data)[0], 2);
  EXPECT_EQ(taken->dl_tensor.shape[0], 2);
  taken->deleter(taken);
}

TEST_F(CApiTest, TakesAnOutputWithoutACopyAndRunsIntoOtherMemoryWhileItIsHeld) {
  const DLTensor in = input();
  ASSERT_EQ(gantry_set_input(session_, 0, &in, 1), GANTRY_OK) << gantry_last_error();
  const auto run_and_take = [&]() -> DLManagedTensor* {
    DLManagedTensor* taken = nullptr;
    DLTensor view;
    EXPECT_EQ(gantry_run(session_), GANTRY_OK) << gantry_last_error();
    EXPECT_EQ(gantry_get_output(session_, 0, &view), GANTRY_OK) << gantry_last_error();
    EXPECT_EQ(gantry_take_output(session_, 0, &taken), GANTRY_OK) << gantry_last_error();
    EXPECT_EQ(taken->dl_tensor.data, view.data);
    return taken;
  };
  DLManagedTensor* first = run_and_take();
  values_[0] = 10;
  DLManagedTensor* second = run_and_take();
  values_[0] = 20;
  DLManagedTensor* third = run_and_take();
  EXPECT_EQ(static_cast<float*>(first->dl_tensor.data)[0], 2);
  EXPECT_EQ(static_cast<float*>(second->dl_tensor.data)[0], 11);
  EXPECT_EQ(static_cast<float*>(third->dl_tensor.data)[0], 21);
  // Once let go, the memory serves again: dropping each result before the next but one needs two in all.
  void* const freed = second->dl_tensor.data;
  second->deleter(second);
  DLManagedTensor* fourth = run_and_take();
  EXPECT_EQ(fourth->dl_tensor.data, freed);
  EXPECT_EQ(static_cast<float*>(third->dl_tensor.data)[0], 21);
  for (DLManagedTensor* tensor : {first, third, fourth}) tensor->deleter(tensor);
}

TEST(CApi, ATakenOutputStaysAsItIsWhereARunFindsNoMemoryForAnother) {
  if (!testing::AddressSpaceLimit::is_possible()) GTEST_SKIP() << "nothing limits what this process maps";
  const testing::LoadedModule loaded(testing::symbolic_module());
  ASSERT_EQ(loaded.status, GANTRY_OK) << loaded.message;
  std::vector<float> values(size_t{1} << 19, 1.0f);  // 2 MiB
  int64_t shape[] = {1 << 17, 4};
  const DLTensor in{values.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  ASSERT_EQ(gantry_set_input(loaded.session, 0, &in, 0), GANTRY_OK) << gantry_last_error();
  ASSERT_EQ(gantry_run(loaded.session), GANTRY_OK) << gantry_last_error();
  DLManagedTensor* taken = nullptr;
  ASSERT_EQ(gantry_take_output(loaded.session, 0, &taken), GANTRY_OK) << gantry_last_error();
  const auto* kept = static_cast<const float*>(taken->dl_tensor.data);
  values[0] = 2;
  ASSERT_EQ(gantry_set_input(loaded.session, 0, &in, 0), GANTRY_OK) << gantry_last_error();
  DLTensor out;
  {
    const testing::AddressSpaceLimit limit(1 << 20);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(gantry_run(loaded.session), GANTRY_OUT_OF_MEMORY);
      EXPECT_THAT(gantry_last_error(), HasSubstr("an output needs 2.0 MiB"));
      EXPECT_EQ(kept[0], 4);
      EXPECT_EQ(gantry_get_output(loaded.session, 0, &out), GANTRY_INVALID_ARGUMENT);
    }
  }
  ASSERT_EQ(gantry_run(loaded.session), GANTRY_OK) << gantry_last_error();
  ASSERT_EQ(gantry_get_output(loaded.session, 0, &out), GANTRY_OK) << gantry_last_error();
  EXPECT_EQ(static_cast<const float*>(out.data)[0], 9);
  EXPECT_EQ(kept[0], 4);
  taken->deleter(taken);
}

TEST_F(CApiTest, ProfilesEachStep) {
  const DLTensor in = input();
  ASSERT_EQ(gantry_set_input(session_, 0, &in, 0), GANTRY_OK);
  GantryStepTime steps[4];
  int32_t count = 0;
  ASSERT_EQ(gantry_time_steps(session_, steps, sizeof *steps, 4, &count), GANTRY_OK) << gantry_last_error();
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(steps[0].ops, "test.add_one");
  EXPECT_STREQ(steps[0].symbol, "add_one");
  EXPECT_STREQ(steps[0].origin, "Add_0");
  ASSERT_EQ(gantry_time_steps(session_, nullptr, sizeof *steps, 0, &count), GANTRY_OK);
  EXPECT_EQ(count, 1);
}

/// specialized_module() with three steps for N = 2, one more than for other sizes: out = in + 3.
testing::ModuleBuilder longer_for_two_rows() {
  testing::ModuleBuilder builder = testing::specialized_module();
  auto& variants = builder.manifest.variants;
  std::swap(variants[0], variants[1]);
  for (int i = 0; i < 2; ++i) builder.call("add_one", {1, 1}, {builder.constant(8)});
  std::swap(variants[0], variants[1]);
  return builder;
}

/// Fills what the next small arrays are made of: a number that is read behind their ends is negative.
void fill_free_memory() {
  std::unique_ptr<int64_t[]> blocks[7];
  for (auto& block : blocks) {
    block = std::make_unique<int64_t[]>(3);
    volatile int64_t* const words = block.get();
    for (int i = 0; i < 3; ++i) words[i] = -1;
  }
}

TEST(CApi, TimesTheStepsOfTheSpecializedModuleThatRuns) {
  const testing::LoadedModule loaded(longer_for_two_rows());
  ASSERT_EQ(loaded.status, GANTRY_OK) << loaded.message;
  float values[12] = {};
  for (const int64_t rows : {3, 2, 3}) {
    int64_t shape[] = {rows, 4};
    const DLTensor in{values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    ASSERT_EQ(gantry_set_input(loaded.session, 0, &in, 0), GANTRY_OK) << gantry_last_error();
    fill_free_memory();
    GantryStepTime steps[4];
    int32_t count = 0;
    ASSERT_EQ(gantry_time_steps(loaded.session, steps, sizeof *steps, 4, &count), GANTRY_OK)
        << gantry_last_error();
    ASSERT_EQ(count, rows == 2 ? 3 : 2);
    for (int32_t i = 0; i < count; ++i) EXPECT_GE(steps[i].nanoseconds, 0) << rows << " rows, step " << i;
  }
}

TEST_F(CApiTest, RefusesNullArguments) {
  GantryModule* module = nullptr;
  EXPECT_EQ(gantry_module_load(nullptr, &module), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_module_load("x", nullptr), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_module_load_memory(nullptr, 5, &module), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_set_input(session_, 0, nullptr, 0), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_run(nullptr), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_get_output(session_, 0, nullptr), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_take_output(nullptr, 0, nullptr), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_session_memory(session_, nullptr), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(gantry_input_count(nullptr), 0);
  gantry_module_release(nullptr);
  gantry_session_release(nullptr);
}

TEST_F(CApiTest, RefusesUnknownDevicesAndThreads) {
  GantrySessionOptions options{};
  GantrySession* session = nullptr;
  EXPECT_EQ(gantry_session_create(module_, &options, &session), GANTRY_INVALID_ARGUMENT);
  options.struct_size = sizeof options;
  options.device = "quantum";
  EXPECT_EQ(gantry_session_create(module_, &options, &session), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(gantry_last_error(), HasSubstr("unknown device 'quantum'"));
  options.device = nullptr;
  options.threads = -3;
  EXPECT_EQ(gantry_session_create(module_, &options, &session), GANTRY_INVALID_ARGUMENT);
}

TEST_F(CApiTest, RefusesCpusThatNoThreadWouldBePinnedTo) {
  const int32_t cpus[] = {sched_getcpu(), sched_getcpu()};
  GantrySessionOptions options{};
  options.struct_size = sizeof options;
  options.threads = 1;
  options.cpus = cpus;
  options.cpu_count = 2;
  GantrySession* session = nullptr;
  EXPECT_EQ(gantry_session_create(module_, &options, &session), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(gantry_last_error(), HasSubstr("2 cpus for 1 threads"));
  EXPECT_EQ(session, nullptr);
  options.threads = 0;  // one a CPU
  EXPECT_EQ(gantry_session_create(module_, &options, &session), GANTRY_OK) << gantry_last_error();
  gantry_session_release(session);
}

/// static_module() for the emulated GPU of this machine, behind a variant for the CPU of another.
testing::ModuleBuilder for_another_cpu_and_the_emulated_gpu() {
  using module_format::Architecture;
  testing::ModuleBuilder builder = testing::static_module();
  builder.variant().device = module_format::Device::CudaEmulated;
  auto elsewhere = std::make_unique<module_format::VariantT>(builder.variant());
  elsewhere->device = module_format::Device::Cpu;
  elsewhere->target = "elsewhere";
  const bool is_x86 = testing::running_architecture() == Architecture::X86_64;
  elsewhere->architecture = is_x86 ? Architecture::AArch64 : Architecture::X86_64;
  builder.manifest.variants.insert(builder.manifest.variants.begin(), std::move(elsewhere));
  return builder;
}

TEST(CApi, LoadsAModuleWhoseCodeForCpusIsForAnotherMachineForItsGpus) {
  testing::ModuleBuilder builder = for_another_cpu_and_the_emulated_gpu();
  const auto file = builder.write();
  GantryModule* module = nullptr;
  ASSERT_EQ(gantry_module_load_memory(file.data(), file.size(), &module), GANTRY_OK) << gantry_last_error();
  EXPECT_STREQ(gantry_module_target(module), "elsewhere");
  GantrySession* session = nullptr;
  EXPECT_EQ(gantry_session_create(module, nullptr, &session), GANTRY_INCOMPATIBLE);
  EXPECT_THAT(gantry_last_error(), HasSubstr("'elsewhere' needs another architecture"));
  GantrySessionOptions options{};
  options.struct_size = sizeof options;
  options.device = "cuda-emulated";
  EXPECT_EQ(gantry_session_create(module, &options, &session), GANTRY_OK) << gantry_last_error();
  gantry_session_release(session);
  gantry_module_release(module);
  // Nobody could ask for anything else.
  builder.manifest.variants.pop_back();
  const auto alone = builder.write();
  EXPECT_EQ(gantry_module_load_memory(alone.data(), alone.size(), &module), GANTRY_INCOMPATIBLE);
  EXPECT_EQ(module, nullptr);
}

TEST(CApi, LoadsAFileAndNamesADamagedOne) {
  const auto file = testing::static_module().write();
  char path[] = "/tmp/gantry_c_api_test_XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write(fd, file.data(), file.size()), static_cast<ssize_t>(file.size()));
  GantryModule* module = nullptr;
  EXPECT_EQ(gantry_module_load(path, &module), GANTRY_OK) << gantry_last_error();
  gantry_module_release(module);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(file.size() / 2)), 0);
  EXPECT_EQ(gantry_module_load(path, &module), GANTRY_INVALID_MODULE);
  EXPECT_EQ(module, nullptr);
  EXPECT_THAT(gantry_last_error(), HasSubstr(path));
  EXPECT_THAT(gantry_last_error(), HasSubstr("truncated"));
  close(fd);
  unlink(path);
}

}  // namespace
}  // namespace gantry::runtime
