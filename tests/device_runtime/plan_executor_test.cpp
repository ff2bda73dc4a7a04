// Plans whose sizes show while they run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>

#include "device_runtime/src/session.h"
#include "tests/device_runtime/address_space_limit.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using module_format::DimOpcode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModuleBuilder;
using testing::share;

Result<std::shared_ptr<const Module>> load(ModuleBuilder builder) {
  auto contents = ModuleContents::from_bytes(share(builder.write()));
  if (!contents.ok()) return contents.status();
  return Module::create(std::move(*contents));
}

void add_stretch(ModuleBuilder& builder, uint32_t workspace, uint32_t kept) {
  auto stretch = std::make_unique<module_format::StretchT>();
  stretch->first_step = static_cast<uint32_t>(builder.variant().steps.size());
  stretch->workspace_bytes = workspace;
  stretch->kept_bytes = kept;
  builder.variant().stretches.push_back(std::move(stretch));
}

module_format::BindSymbolsT& bind(ModuleBuilder& builder, std::vector<uint32_t> symbols, int32_t buffer) {
  module_format::BindSymbolsT binding;
  binding.symbols = std::move(symbols);
  binding.buffer = buffer;
  binding.origin = {"Slice_3"};
  auto step = std::make_unique<module_format::StepT>();
  step->action.Set(std::move(binding));
  builder.variant().steps.push_back(std::move(step));
  return *builder.variant().steps.back()->action.AsBindSymbols();
}

/// out = (in[:n] + 1)², in: f32 (8), n: i64 (1). What the first stretch computes, of all of in, the second reads.
ModuleBuilder cutting_module() {
  ModuleBuilder builder;
  const uint32_t n = builder.symbol("n"), zero = builder.constant(0), four = builder.constant(4);
  const uint32_t eight = builder.constant(8), all = builder.constant(32);
  const uint32_t bytes = builder.combine(DimOpcode::Mul, n, four);
  builder.add_input("in", {eight});
  builder.add_input("n", {builder.constant(1)}, ElementType::kI64);
  builder.add_output("out", {n});
  const uint32_t in = builder.input_buffer(0, all), count = builder.input_buffer(1, eight);
  auto kept = std::make_unique<module_format::BufferT>();
  kept->kind = module_format::BufferKind::Kept;
  kept->index = 0;
  kept->offset = zero;
  kept->bytes = all;
  builder.variant().buffers.push_back(std::move(kept));
  const auto between = static_cast<uint32_t>(builder.variant().buffers.size() - 1);
  add_stretch(builder, zero, all);
  builder.call("add_one", {in, between}, {eight}, {"Add_0"});
  bind(builder, {0}, static_cast<int32_t>(count));
  add_stretch(builder, bytes, zero);
  const uint32_t copied = builder.workspace_buffer(zero, bytes);
  builder.call("scale", {between, copied}, {n, builder.constant(1)}, {"Mul_1"});  // by 2
  builder.call("parallel_square", {copied, builder.output_buffer(0, bytes)}, {n}, {"Mul_2"});
  builder.manifest.requires_ = {"plan-2"};
  return builder;
}

/// The same, for even numbers alone.
ModuleBuilder even_cutting_module(const std::string& origin) {
  ModuleBuilder builder = cutting_module();
  auto constraint = std::make_unique<module_format::ConstraintT>();
  constraint->left = builder.combine(DimOpcode::Mod, builder.symbol("n"), builder.constant(2));
  constraint->right = builder.constant(0);
  constraint->origin = origin;
  builder.manifest.constraints.push_back(std::move(constraint));
  return builder;
}

class CuttingModule : public ::testing::Test {
 protected:
  void open(ModuleBuilder builder, const SessionOptions& options = {.threads = 2}) {
    auto module = load(std::move(builder));
    ASSERT_TRUE(module.ok()) << module.status().message();
    auto session = Session::create(*module, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = std::move(*session);
  }
  Status run(int64_t n) {
    float in[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t eight = 8, one = 1;
    const DLTensor data{in, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &eight, nullptr, 0};
    const DLTensor count{&n, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, &one, nullptr, 0};
    EXPECT_TRUE(session_->set_input(0, data, false).ok());
    EXPECT_TRUE(session_->set_input(1, count, false).ok());
    return session_->run();
  }
  std::vector<float> output() const {
    auto view = session_->output(0);
    EXPECT_TRUE(view.ok()) << view.status().message();
    EXPECT_EQ(view->shape.size(), 1u);
    EXPECT_EQ(static_cast<uint64_t>(view->shape[0]) * 4, view->bytes);
    const auto* data = reinterpret_cast<const float*>(view->data);
    return {data, data + view->bytes / sizeof(float)};
  }
  std::unique_ptr<Session> session_;
};

TEST_F(CuttingModule, GivesOutputsTheSizesThatTheDataSay) {
  open(cutting_module());
  for (int64_t n : {3, 8, 0, 1, 5}) {
    const Status status = run(n);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<float> expected;
    for (int64_t i = 0; i < n; ++i) expected.push_back(static_cast<float>(4 * (i + 1) * (i + 1)));
    EXPECT_EQ(output(), expected);
  }
}

TEST_F(CuttingModule, NamesTheNodeOfASizeThatIsNone) {
  open(cutting_module());
  ASSERT_TRUE(run(2).ok());
  const Status status = run(-1);
  EXPECT_EQ(status.code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(status.message(), "Slice_3: the size n, which the data give, is -1");
  EXPECT_FALSE(session_->output(0).ok());  // those of the run before are gone
  ASSERT_TRUE(run(2).ok());
  EXPECT_THAT(output(), ElementsAre(4, 16));
}

TEST_F(CuttingModule, RefusesSizesBeyondAllMemory) {
  open(cutting_module());
  EXPECT_EQ(run(INT64_MAX / 2).code(), GANTRY_INVALID_ARGUMENT);   // its bytes overflow
  EXPECT_EQ(run(INT64_MAX / 16).code(), GANTRY_OUT_OF_MEMORY);
  ASSERT_TRUE(run(1).ok());
}

TEST_F(CuttingModule, StaysWithinItsSessionsMemory) {
  open(cutting_module(), {.threads = 1, .memory_limit = 1 << 20});
  ASSERT_TRUE(run(8).ok());
  const Status status = run(1000000);
  EXPECT_EQ(status.code(), GANTRY_OUT_OF_MEMORY);
  EXPECT_THAT(status.message(), HasSubstr("this session may use"));
}

TEST_F(CuttingModule, ChecksConstraintsOnceTheirSymbolsAreBound) {
  open(even_cutting_module("Reshape_7"));
  ASSERT_TRUE(run(4).ok());
  EXPECT_EQ(run(3).message(),
            "the data do not fit the model: mod(n, 2) is 1, and Reshape_7 needs it to be 0");
  ASSERT_TRUE(run(6).ok());  // the value before does not count
}

TEST_F(CuttingModule, SaysInItsOwnWordsWhatANodeNeeds) {
  open(even_cutting_module("Add_7 (n must be even)"));
  EXPECT_EQ(run(3).message(), "the data do not fit the model: Add_7 (n must be even), but n is 3");
}

TEST_F(CuttingModule, SplitsSignedValuesInTwo) {
  ModuleBuilder builder = cutting_module();
  builder.manifest.symbols.push_back("below");
  auto* binding = builder.variant().steps[1]->action.AsBindSymbols();
  binding->negatives = {1};
  open(std::move(builder));
  ASSERT_TRUE(run(-5).ok());
  EXPECT_TRUE(output().empty());
  ASSERT_TRUE(run(2).ok());
  EXPECT_EQ(output().size(), 2u);
}

TEST_F(CuttingModule, BindsExpressionsOfWhatIsBound) {
  ModuleBuilder builder = cutting_module();
  // m = n + 1 takes the place of the output's dimension.
  const uint32_t more = builder.combine(DimOpcode::Add, builder.symbol("n"), builder.constant(0));
  const uint32_t m = builder.symbol("m");
  builder.manifest.outputs[0]->shape = {m};
  auto last = std::move(builder.variant().steps.back());
  builder.variant().steps.pop_back();
  bind(builder, {1}, -1).values = {more};
  builder.variant().steps.push_back(std::move(last));
  open(std::move(builder));
  ASSERT_TRUE(run(3).ok());
  EXPECT_THAT(output(), ElementsAre(4, 16, 36));
}

TEST_F(CuttingModule, TimesEveryStep) {
  open(cutting_module());
  ASSERT_TRUE(run(8).ok());
  std::vector<int64_t> times(session_->executor().step_count(), -1);
  ASSERT_EQ(times.size(), 4u);
  ASSERT_TRUE(session_->run_timed(times).ok());
  for (int64_t time : times) EXPECT_GE(time, 0);
  EXPECT_STREQ(session_->executor().label(1).ops, "bind sizes");
  EXPECT_STREQ(session_->executor().label(1).origin, "Slice_3");
}

TEST_F(CuttingModule, LetsOutputsOutliveTheNextRun) {
  open(cutting_module());
  ASSERT_TRUE(run(2).ok());
  auto held = session_->hold_output(0);
  ASSERT_TRUE(held.ok());
  const auto* first = reinterpret_cast<const float*>((*held)->data());
  ASSERT_TRUE(run(8).ok());
  EXPECT_EQ(first[1], 16);
  EXPECT_EQ(output().size(), 8u);
  (*held)->let_go();
}

TEST(PlanOfStretches, IsRefusedWhereItMakesNoSense) {
  const auto expect_refused = [](auto change, const char* why) {
    ModuleBuilder builder = cutting_module();
    change(builder);
    const auto module = load(std::move(builder));
    ASSERT_FALSE(module.ok()) << why;
    EXPECT_EQ(module.status().code(), GANTRY_INVALID_MODULE);
    EXPECT_THAT(module.status().message(), HasSubstr(why));
  };
  const auto binding = [](ModuleBuilder& b) { return b.variant().steps[1]->action.AsBindSymbols(); };
  expect_refused([&](auto& b) { binding(b)->symbols = {7}; }, "binds a symbol that is not there");
  expect_refused([&](auto& b) { binding(b)->negatives = {0, 0}; }, "1 symbols with 2 negatives");
  expect_refused([&](auto& b) { binding(b)->buffer = 99; }, "to a buffer that is not there");
  expect_refused([&](auto& b) { binding(b)->buffer = -1; }, "1 symbols to 0 values");
  expect_refused([&](auto& b) { binding(b)->element = module_format::DType::F32; }, "elements that are no integers");
  expect_refused([](auto& b) { b.variant().stretches.clear(); }, "names number 0 of 0");
  expect_refused([](auto& b) { b.variant().stretches[1]->first_step = 0; }, "stretch 1 of its plan begins at step 0");
  expect_refused([](auto& b) { b.variant().stretches[1]->first_step = 9; }, "stretch 1 of its plan begins at step 9");
  expect_refused([](auto& b) { b.variant().stretches[0]->kept_bytes = 999; }, "the memory of stretch 0");
  expect_refused([](auto& b) { b.variant().buffers[2]->index = 2; }, "names number 2 of 2");
}

TEST_F(CuttingModule, NeverReachesOutsideItsMemory) {
  const auto status_of = [&](auto change) {
    ModuleBuilder builder = cutting_module();
    change(builder);
    open(std::move(builder));
    return run(8);
  };
  const auto outside = [&](auto change, const char* where) {
    const Status status = status_of(change);
    EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE);
    EXPECT_THAT(status.message(), HasSubstr(where));
  };
  outside([](auto& b) { b.variant().stretches[0]->kept_bytes = b.constant(16); }, "of what a stretch keeps");
  outside([](auto& b) { b.variant().stretches[1]->workspace_bytes = b.constant(16); }, "of the workspace");
  outside([](auto& b) { b.variant().buffers[2]->offset = b.constant(8); }, "is not aligned");
  outside([](auto& b) { b.variant().buffers[1]->bytes = b.constant(4); }, "bound to a buffer of 4 bytes");
  outside([](auto& b) { b.variant().buffers[2]->bytes = b.symbol("n"); }, "before its symbols have values");
}

/// Sizes that the data give, and nothing that computes: bytes of the workspace, and the elements of two
/// outputs of f32. sizes: i64 (3).
ModuleBuilder late_sizes_module() {
  ModuleBuilder builder;
  const uint32_t workspace = builder.symbol("workspace"), none = builder.constant(0);
  builder.add_input("sizes", {builder.constant(3)}, ElementType::kI64);
  builder.add_output("first", {builder.symbol("first")});
  builder.add_output("second", {builder.symbol("second")});
  add_stretch(builder, none, none);
  bind(builder, {0, 1, 2}, static_cast<int32_t>(builder.input_buffer(0, builder.constant(24))));
  add_stretch(builder, workspace, none);
  const uint32_t nothing = builder.workspace_buffer(none, none);
  builder.copy(nothing, nothing);
  builder.manifest.requires_ = {"plan-2"};
  return builder;
}

class LateSizes : public ::testing::Test {
 protected:
  static constexpr int64_t kMiB = 1 << 20;

  /// `memory_limit` in bytes.
  void open(uint64_t memory_limit) {
    auto module = load(late_sizes_module());
    ASSERT_TRUE(module.ok()) << module.status().message();
    auto session = Session::create(*module, {.threads = 1, .memory_limit = memory_limit});
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = std::move(*session);
  }
  Status run(int64_t workspace, int64_t first, int64_t second) {
    const int64_t shape[] = {3}, sizes[] = {workspace, first, second};
    auto storage = session_->input_storage(0, shape);
    if (!storage.ok()) return storage.status();
    std::memcpy(storage->data(), sizes, sizeof sizes);
    return session_->run();
  }
  std::unique_ptr<Session> session_;
};

TEST_F(LateSizes, AnOutputThatIsRefusedDoesNotCountInLaterRuns) {
  open(kMiB);
  const Status refused = run(0, 1, kMiB);
  EXPECT_EQ(refused.code(), GANTRY_OUT_OF_MEMORY);
  EXPECT_THAT(refused.message(), HasSubstr("output 'second' of shape (1048576) needs 4.0 MiB"));
  const Status status = run(0, 1, 1);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(LateSizes, WhatARunGaveDoesNotCountInThoseBehindIt) {
  open(6 * kMiB);
  const int64_t runs[][3] = {{0, 1, kMiB}, {0, kMiB, 1}, {4 * kMiB, 1, 1}};
  for (const auto& [workspace, first, second] : runs) {
    const Status status = run(workspace, first, second);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(run(0, kMiB, kMiB).code(), GANTRY_OUT_OF_MEMORY);  // 8 MiB in one run
}

TEST_F(LateSizes, MemoryThatARunHasNoUseForIsGivenBackWhereItIsInTheWay) {
  if (!testing::AddressSpaceLimit::is_possible()) GTEST_SKIP() << "nothing limits what this process maps";
  open(6 * kMiB);
  ASSERT_TRUE(run(0, 1, kMiB).ok());
  const testing::AddressSpaceLimit limit(kMiB);  // beside the 4 MiB of the second output
  const Status status = run(0, kMiB, 1);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(LateSizes, AWorkspaceThatARunHasNoUseForIsNotInItsWay) {
  open(6 * kMiB);
  const int64_t runs[][3] = {{5 * kMiB, 1, 1}, {1, 1, kMiB}, {5 * kMiB, 1, 1}, {0, kMiB / 2, kMiB / 2}};
  for (const auto& [workspace, first, second] : runs) {
    const Status status = run(workspace, first, second);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(run(5 * kMiB, 1, kMiB).code(), GANTRY_OUT_OF_MEMORY);  // of one run, it counts
}

TEST_F(LateSizes, AWorkspaceThatIsLostDoesNotCountInLaterRuns) {
  if (!testing::AddressSpaceLimit::is_possible()) GTEST_SKIP() << "nothing limits what this process maps";
  open(6 * kMiB);
  ASSERT_TRUE(run(kMiB, 1, 1).ok());
  {
    const testing::AddressSpaceLimit limit(kMiB);
    const Status refused = run(4 * kMiB, 1, 1);
    EXPECT_EQ(refused.code(), GANTRY_OUT_OF_MEMORY);
    EXPECT_THAT(refused.message(), HasSubstr("which the system refuses"));
  }
  const Status status = run(11 * kMiB / 2, 1, 1);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(PlanOfStretches, IsRefusedByNameWhereTheRuntimeLacksAFeature) {
  ModuleBuilder builder = cutting_module();
  builder.manifest.requires_ = {"plan-2", "quantum-kernels"};
  const auto module = load(std::move(builder));
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), GANTRY_INCOMPATIBLE);
  EXPECT_THAT(module.status().message(), HasSubstr("the module needs 'quantum-kernels'"));
}

}  // namespace
}  // namespace gantry::runtime
