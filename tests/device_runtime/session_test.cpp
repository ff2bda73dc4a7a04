#include "device_runtime/src/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using module_format::DimOpcode;
using ::testing::HasSubstr;
using testing::ModuleBuilder;
using testing::share;
using testing::specialized_module;
using testing::static_module;
using testing::symbolic_module;

std::shared_ptr<const Module> load(ModuleBuilder builder) {
  auto contents = ModuleContents::from_bytes(share(builder.write()));
  EXPECT_TRUE(contents.ok()) << contents.status().message();
  auto module = Module::create(std::move(*contents));
  EXPECT_TRUE(module.ok()) << module.status().message();
  return *module;
}

std::unique_ptr<Session> open(ModuleBuilder builder, const SessionOptions& options = {}) {
  auto session = Session::create(load(std::move(builder)), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return std::move(*session);
}

/// A dense f32 tensor over `values`.
struct Tensor {
  std::vector<float> values;
  std::vector<int64_t> shape;
  DLTensor view() {
    return {values.data(),
            {kDLCPU, 0},
            static_cast<int32_t>(shape.size()),
            {kDLFloat, 32, 1},
            shape.data(),
            nullptr,
            0};
  }
};

std::vector<float> output_of(const Session& session) {
  auto view = session.output(0);
  EXPECT_TRUE(view.ok()) << view.status().message();
  const auto* data = reinterpret_cast<const float*>(view->data);
  return {data, data + view->bytes / sizeof(float)};
}

Tensor ramp(int64_t rows, int64_t columns) {
  Tensor tensor{std::vector<float>(static_cast<size_t>(rows * columns)), {rows, columns}};
  for (size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] = static_cast<float>(i);
  return tensor;
}

TEST(Session, RunsAModelOfSeveralSizesWithoutRecompiling) {
  auto session = open(symbolic_module(), {.threads = 2});
  for (int64_t rows : {3, 1, 100, 2}) {
    Tensor in = ramp(rows, 4);
    const DLTensor view = in.view();
    ASSERT_TRUE(session->set_input(0, view, false).ok());
    const Status status = session->run();
    ASSERT_TRUE(status.ok()) << status.message();
    const auto out = output_of(*session);
    ASSERT_EQ(out.size(), in.values.size());
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], (in.values[i] + 1) * (in.values[i] + 1));
    EXPECT_EQ(session->memory().workspace_bytes, static_cast<uint64_t>(rows * 16));
  }
}

TEST(Session, RunsAnEmptyBatch) {
  auto session = open(symbolic_module());
  Tensor in = ramp(0, 4);
  ASSERT_TRUE(session->set_input(0, in.view(), false).ok());
  const Status status = session->run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(output_of(*session).empty());
}

TEST(Session, SaysWhatWasExpectedAndWhatWasGiven) {
  auto session = open(static_module());
  Tensor in = ramp(3, 3);
  Status status = session->set_input(0, in.view(), false);
  EXPECT_EQ(status.code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(status.message(),
            "input 'in': expected f32 (2, 3), got f32 (3, 3): dimension 0 must be 2, not 3");
  Tensor right = ramp(2, 3);
  DLTensor view = right.view();
  view.dtype = {kDLInt, 64, 1};
  EXPECT_EQ(session->set_input(0, view, false).message(), "input 'in': expected f32 (2, 3), got i64 (2, 3)");
  EXPECT_EQ(session->run().message(), "input 'in' has not been set");
  auto symbolic = open(symbolic_module());
  EXPECT_EQ(symbolic->set_input(0, right.view(), false).message(),
            "input 'in': expected f32 (N, 4), got f32 (2, 3): dimension 1 must be 4, not 3");
}

TEST(Session, ChecksTensorsBeforeItTouchesThem) {
  auto session = open(static_module());
  Tensor in = ramp(2, 3);
  DLTensor view = in.view();
  EXPECT_THAT(session->set_input(1, view, false).message(), HasSubstr("there is no input 1"));
  EXPECT_THAT(session->set_input(-1, view, false).message(), HasSubstr("there is no input -1"));
  view.data = nullptr;
  EXPECT_THAT(session->set_input(0, view, false).message(), HasSubstr("no data"));
  view = in.view();
  view.device.device_type = kDLCUDA;
  EXPECT_THAT(session->set_input(0, view, false).message(), HasSubstr("CPU's memory"));
  view = in.view();
  view.ndim = 40;
  EXPECT_THAT(session->set_input(0, view, false).message(), HasSubstr("no valid shape"));
  EXPECT_THAT(session->output(0).status().message(), HasSubstr("run the session first"));
}

TEST(Session, ReadsStridedTensors) {
  auto session = open(static_module());
  Tensor in = ramp(3, 2);  // its transpose is (2, 3)
  const int64_t shape[] = {2, 3};
  const int64_t strides[] = {1, 2};
  DLTensor view = in.view();
  view.shape = const_cast<int64_t*>(shape);
  view.strides = const_cast<int64_t*>(strides);
  for (bool borrow : {false, true}) {
    ASSERT_TRUE(session->set_input(0, view, borrow).ok());
    ASSERT_TRUE(session->run().ok());
    EXPECT_EQ(output_of(*session), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  }
}

TEST(Session, SeesWhatChangesInABorrowedTensor) {
  auto session = open(static_module());
  alignas(64) float storage[8] = {};
  for (size_t shift : {0, 1}) {  // aligned: read in place; else copied at every run
    int64_t shape[] = {2, 3};
    DLTensor view{storage + shift, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    ASSERT_TRUE(session->set_input(0, view, true).ok());
    storage[shift] = 5;
    ASSERT_TRUE(session->run().ok());
    EXPECT_EQ(output_of(*session)[0], 6);
    storage[shift] = 9;
    ASSERT_TRUE(session->run().ok());
    EXPECT_EQ(output_of(*session)[0], 10);
  }
}

ModuleBuilder two_input_module() {
  ModuleBuilder builder;
  const uint32_t n = builder.symbol("N"), m = builder.symbol("M"), four = builder.constant(4);
  builder.add_input("a", {n});
  builder.add_input("b", {m});
  builder.add_output("out", {n});
  const uint32_t bytes = builder.combine(DimOpcode::Mul, n, four);
  const uint32_t a = builder.input_buffer(0, bytes), b = builder.input_buffer(1, bytes);
  builder.call("multiply", {a, b, builder.output_buffer(0, bytes)}, {n}, {"Mul_5"});
  auto constraint = std::make_unique<module_format::ConstraintT>();
  constraint->left = n;
  constraint->right = m;
  constraint->origin = "Mul_5";
  builder.manifest.constraints.push_back(std::move(constraint));
  return builder;
}

TEST(Session, NamesTheDimensionsAndTheNodeOfABrokenConstraint) {
  auto session = open(two_input_module());
  Tensor a{{1, 2, 3}, {3}}, b{{4, 5, 6, 7}, {4}};
  ASSERT_TRUE(session->set_input(0, a.view(), false).ok());
  ASSERT_TRUE(session->set_input(1, b.view(), false).ok());
  const Status status = session->run();
  EXPECT_EQ(status.code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(
      status.message(),
      "input 'a': dimension 0 (N) is 3, must be 4; or input 'b': dimension 0 (M) is 4, must be 3 (N = 3 must "
      "equal M = 4, needed by Mul_5)");
  b = {{4, 5, 6}, {3}};
  ASSERT_TRUE(session->set_input(1, b.view(), false).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(output_of(*session), (std::vector<float>{4, 10, 18}));
}

TEST(Session, SaysWhichSizesWouldDo) {
  ModuleBuilder builder = symbolic_module();  // (N, 4)
  const uint32_t n = builder.symbol("N"), eight = builder.constant(8);
  auto constraint = std::make_unique<module_format::ConstraintT>();
  constraint->left = builder.combine(DimOpcode::Mod, n, eight);
  constraint->right = builder.constant(0);
  constraint->origin = "Reshape_2";
  builder.manifest.constraints.push_back(std::move(constraint));
  builder.manifest.symbol_meanings = {module_format::SizeMeaning::Length};
  auto session = open(std::move(builder));
  Tensor in = ramp(9, 4);
  ASSERT_TRUE(session->set_input(0, in.view(), false).ok());
  EXPECT_THAT(
      session->run().message(),
      HasSubstr("': length (dimension 0, N) is 9, must be a multiple of 8; 8 or 16 would do (needed by "
                "Reshape_2)"));
}

TEST(Session, SaysWhereInputsDisagreeOnADimension) {
  ModuleBuilder builder = two_input_module();
  builder.manifest.symbols = {"N"};
  builder.manifest.dim_exprs[builder.manifest.inputs[1]->shape[0]]->steps[0] =
      module_format::DimStep(0, DimOpcode::Symbol);
  auto session = open(std::move(builder));
  Tensor a{{1, 2, 3}, {3}}, b{{4, 5}, {2}};
  ASSERT_TRUE(session->set_input(0, a.view(), false).ok());
  ASSERT_TRUE(session->set_input(1, b.view(), false).ok());
  EXPECT_THAT(session->run().message(),
              HasSubstr("input 'b': expected f32 (N), got (2), where dimension 0 must be N = 3"));
}

TEST(Session, RefusesAPlanThatReachesOutsideItsMemory) {
  const auto status_after = [](auto change) {
    ModuleBuilder builder = symbolic_module();
    change(builder);
    auto session = open(std::move(builder));
    Tensor in = ramp(4, 4);
    EXPECT_TRUE(session->set_input(0, in.view(), false).ok());
    return session->run();
  };
  const auto outside = [&](auto change, const char* where) {
    const Status status = status_after(change);
    EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE);
    EXPECT_THAT(status.message(), HasSubstr(where));
  };
  outside([](auto& b) { b.variant().buffers[2]->offset = b.constant(64); }, "of the workspace");
  outside([](auto& b) { b.variant().buffers[2]->offset = b.constant(8); }, "not aligned");
  outside([](auto& b) { b.variant().buffers[0]->bytes = b.constant(65); }, "of an input");
  outside([](auto& b) { b.variant().buffers[1]->bytes = b.constant(65); }, "of an output");
  outside([](auto& b) { b.variant().buffers[1]->bytes = b.constant(INT64_MAX); }, "of an output");
  EXPECT_THAT(status_after([](auto& b) { b.variant().buffers[1]->bytes = b.constant(-1); }).message(),
              HasSubstr("would be -1"));
}

TEST(Session, AWorkspaceThatNoMachineHasIsAnError) {
  ModuleBuilder builder = static_module();
  builder.variant().workspace_bytes = builder.constant(int64_t{100} << 40);
  auto session = Session::create(load(std::move(builder)), {});
  EXPECT_EQ(session.status().code(), GANTRY_OUT_OF_MEMORY);
  EXPECT_THAT(session.status().message(), HasSubstr("the model's workspace needs 100.0 TiB"));
}

TEST(Session, KeepsItsMemoryLimit) {
  ModuleBuilder builder = static_module();
  builder.variant().workspace_bytes = builder.constant(1 << 20);
  auto session = Session::create(load(std::move(builder)), {.memory_limit = 1 << 19});
  EXPECT_EQ(session.status().code(), GANTRY_OUT_OF_MEMORY);
  EXPECT_THAT(session.status().message(), HasSubstr("this session may use 512.0 KiB"));
}

TEST(Session, NamesTheKernelThatFails) {
  ModuleBuilder builder = static_module();
  builder.call("fails", {}, {}, {"Conv_7", "Relu_8"});
  auto session = open(std::move(builder));
  Tensor in = ramp(2, 3);
  ASSERT_TRUE(session->set_input(0, in.view(), false).ok());
  const Status status = session->run();
  EXPECT_EQ(status.code(), GANTRY_KERNEL_FAILED);
  EXPECT_EQ(status.message(), "kernel fails (step #1: test.fails; nodes Conv_7, Relu_8) failed with code 7");
}

TEST(Session, ReadsConstantsAndCopies) {
  ModuleBuilder builder;
  const float weights[] = {2, 3, 4};
  const uint32_t bytes = builder.constant(12), three = builder.constant(3);
  builder.add_input("in", {three});
  builder.add_output("out", {three});
  builder.variant().workspace_bytes = bytes;
  const uint32_t in = builder.input_buffer(0, bytes), out = builder.output_buffer(0, bytes);
  const uint32_t constant = builder.constant_buffer(weights);
  const uint32_t between = builder.workspace_buffer(builder.constant(0), bytes);
  builder.call("multiply", {in, constant, between}, {three});
  builder.copy(between, out);
  auto session = open(std::move(builder));
  Tensor tensor{{10, 20, 30}, {3}};
  ASSERT_TRUE(session->set_input(0, tensor.view(), false).ok());
  ASSERT_TRUE(session->run().ok());
  EXPECT_EQ(output_of(*session), (std::vector<float>{20, 60, 120}));
  EXPECT_EQ(session->memory().weights_bytes, 12u);
}

TEST(Session, ConstantsOfTheSameBytesCountOnce) {
  ModuleBuilder builder = static_module();
  const float weights[] = {2, 3, 4};
  builder.constant_buffer(weights);
  builder.variant().constants.push_back(builder.variant().constants.back());
  EXPECT_EQ(open(std::move(builder))->memory().weights_bytes, 12u);
}

TEST(Session, SeveralSessionsShareAModule) {
  const auto module = load(symbolic_module());
  const auto work = [&](int64_t rows) {
    auto session = Session::create(module, {.threads = 2});
    ASSERT_TRUE(session.ok());
    Tensor in = ramp(rows, 4);
    for (int run = 0; run < 50; ++run) {
      ASSERT_TRUE((*session)->set_input(0, in.view(), false).ok());
      ASSERT_TRUE((*session)->run().ok());
      const auto out = output_of(**session);
      for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], (in.values[i] + 1) * (in.values[i] + 1));
    }
  };
  std::vector<std::thread> users;
  for (int64_t rows = 1; rows <= 4; ++rows) users.emplace_back(work, 10 * rows);
  for (std::thread& user : users) user.join();
}

TEST(Session, GivesTheCallerItsCpusBack) {
  const int cpu = cpu_info().allowed_cpus.front();
  cpu_set_t before, during, after;
  sched_getaffinity(0, sizeof before, &before);
  {
    auto session = open(static_module(), {.cpus = {cpu}});
    sched_getaffinity(0, sizeof during, &during);
    EXPECT_EQ(CPU_COUNT(&during), 1);
    EXPECT_EQ(session->threads(), 1);
  }
  sched_getaffinity(0, sizeof after, &after);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

/// Of the calling thread.
cpu_set_t affinity() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

bool is_only(const cpu_set_t& cpus, int cpu) {
  return CPU_COUNT(&cpus) == 1 && CPU_ISSET(cpu, &cpus);
}

std::unique_ptr<Session> pinned_to(int cpu) {
  return open(static_module(), {.cpus = {cpu}});
}

TEST(Session, OfThoseThatPinACallerTheNewestThatIsLeftCountsInWhateverOrderTheyEnd) {
  const std::vector<int>& allowed = cpu_info().allowed_cpus;
  if (allowed.size() < 2) GTEST_SKIP() << "this process may use one CPU only";
  const std::vector<int> cpus = {allowed[0], allowed[1], allowed[0]};
  const cpu_set_t before = affinity();
  std::vector<size_t> order = {0, 1, 2};
  do {
    std::vector<std::unique_ptr<Session>> sessions;
    for (const int cpu : cpus) sessions.push_back(pinned_to(cpu));
    for (const size_t ended : order) {
      sessions[ended].reset();
      size_t left = cpus.size();
      while (left > 0 && sessions[left - 1] == nullptr) --left;
      const cpu_set_t now = affinity();
      EXPECT_TRUE(left == 0 ? CPU_EQUAL(&now, &before) : is_only(now, cpus[left - 1]))
          << "session " << ended << " of " << ::testing::PrintToString(order);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Session, ThatAnotherThreadEndsTakesNoCpuFromTheCaller) {
  const std::vector<int>& allowed = cpu_info().allowed_cpus;
  if (allowed.size() < 2) GTEST_SKIP() << "this process may use one CPU only";
  const cpu_set_t before = affinity();
  auto first = pinned_to(allowed[0]), second = pinned_to(allowed[1]);
  std::thread([&] {
    const cpu_set_t others = affinity();
    first.reset();
    const cpu_set_t now = affinity();
    EXPECT_TRUE(CPU_EQUAL(&now, &others));
  }).join();
  EXPECT_TRUE(is_only(affinity(), allowed[1]));
  second.reset();
  const cpu_set_t after = affinity();
  EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

TEST(Session, WorkersOfOneWithoutCpusInheritNoPinOfTheCaller) {
  const cpu_set_t before = affinity();
  const int cpu = cpu_info().allowed_cpus.front();
  const auto pinned = pinned_to(cpu);
  // More threads than cores: those are Linux's to place.
  const auto session = open(static_module(), {.threads = cpu_info().physical_cores + 1});
  std::vector<cpu_set_t> seen(static_cast<size_t>(session->threads()));
  const auto ask = [](void* closure, int64_t begin, int64_t) {
    (*static_cast<std::vector<cpu_set_t>*>(closure))[static_cast<size_t>(begin)] = affinity();
    return int32_t{0};
  };
  ASSERT_EQ(session->pool().run_on_each_thread(ask, &seen), 0);
  EXPECT_TRUE(is_only(seen[0], cpu));
  for (size_t i = 1; i < seen.size(); ++i) EXPECT_TRUE(CPU_EQUAL(&seen[i], &before)) << "thread " << i;
}

// --- programs for some sizes

TEST(Specialized, RunsWhereTheSizesFitAndNowhereElse) {
  const auto session = open(specialized_module());
  for (const int64_t rows : {3, 2, 2, 1, 2, 3}) {
    Tensor in = ramp(rows, 4);
    ASSERT_TRUE(session->set_input(0, in.view(), false).ok());
    ASSERT_TRUE(session->run().ok());
    std::vector<float> expected;
    for (const float x : in.values) expected.push_back(rows == 2 ? x + 1 : (x + 1) * (x + 1));
    EXPECT_EQ(output_of(*session), expected) << rows;
    EXPECT_EQ(session->executor().step_count(), rows == 2 ? 1u : 2u);
    EXPECT_EQ(std::string(session->executor().label(0).origin), rows == 2 ? "Add_of_2" : "Add_0");
    EXPECT_EQ(session->memory().workspace_bytes, rows == 2 ? 0u : static_cast<uint64_t>(rows * 16));
  }
}

/// The same, where N * N is 4.
ModuleBuilder specialized_for_equal_sizes() {
  ModuleBuilder builder = specialized_module();
  const uint32_t rows = builder.symbol("N"), four = builder.constant(4);
  auto equal = std::make_unique<module_format::ConstraintT>();
  equal->left = builder.combine(module_format::DimOpcode::Mul, rows, rows);
  equal->right = four;
  builder.manifest.variants[1]->specialized.clear();
  builder.manifest.variants[1]->equal.push_back(std::move(equal));
  return builder;
}

TEST(Specialized, RunsWhereDimensionsAreEqual) {
  const auto session = open(specialized_for_equal_sizes());
  for (const int64_t rows : {3, 2, 4, 1, 2}) {
    Tensor in = ramp(rows, 4);
    ASSERT_TRUE(session->set_input(0, in.view(), false).ok());
    ASSERT_TRUE(session->run().ok());
    EXPECT_EQ(session->executor().step_count(), rows == 2 ? 1u : 2u) << rows;
  }
}

TEST(Specialized, ForEqualSizesIsNeverChosenByItself) {
  ModuleBuilder builder = specialized_for_equal_sizes();
  builder.manifest.variants[1]->rank = 100;
  EXPECT_TRUE(load(std::move(builder))->variant().equal() == nullptr);
}

TEST(Specialized, KeepsToTheSessionsMemory) {
  const auto session = open(specialized_module(), {.threads = 1, .cpus = {}, .memory_limit = 3 * 16 * 3});
  for (const int64_t rows : {3, 2, 3, 4}) {
    Tensor in = ramp(rows, 4);
    ASSERT_TRUE(session->set_input(0, in.view(), false).ok());
    EXPECT_EQ(session->run().ok(), rows <= 3) << rows;
  }
}

TEST(Specialized, IsNeverChosenByItself) {
  ModuleBuilder builder = specialized_module();
  builder.manifest.variants[1]->rank = 100;
  EXPECT_TRUE(load(std::move(builder))->variant().specialized() == nullptr);
}

TEST(Specialized, WhatFitsNoModuleIsRefused) {
  const auto refused = [](const auto& damage) {
    ModuleBuilder builder = specialized_module();
    damage(builder.manifest);
    return !ModuleContents::from_bytes(share(builder.write())).ok();
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& manifest) { manifest.variants[1]->specialized[0] = {2, 7}; })) << "no such symbol";
  EXPECT_TRUE(refused([](auto& manifest) { manifest.variants[1]->specialized[0] = {-2, 0}; })) << "no size";
  EXPECT_TRUE(refused([](auto& manifest) { std::swap(manifest.variants[0], manifest.variants[1]); })) << "of none";
  const auto refused_equal = [](const auto& damage) {
    ModuleBuilder builder = specialized_for_equal_sizes();
    damage(builder.manifest);
    return !ModuleContents::from_bytes(share(builder.write())).ok();
  };
  EXPECT_FALSE(refused_equal([](auto&) {}));
  EXPECT_TRUE(refused_equal([](auto& manifest) { manifest.variants[1]->equal[0]->right = 1000; }))
      << "no expression";
  EXPECT_TRUE(refused_equal([](auto& manifest) { std::swap(manifest.variants[0], manifest.variants[1]); }))
      << "of none";
}

}  // namespace
}  // namespace gantry::runtime
