// Plans whose steps run other plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device_runtime/src/session.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using module_format::BufferKind;
using module_format::PlanT;
using module_format::RunIfT;
using ::testing::HasSubstr;
using testing::ModuleBuilder;

uint32_t add_buffer(std::vector<std::unique_ptr<module_format::BufferT>>& buffers, BufferKind kind, uint32_t index,
                    uint32_t bytes) {
  auto buffer = std::make_unique<module_format::BufferT>();
  buffer->kind = kind;
  buffer->index = index;
  buffer->bytes = bytes;
  buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(buffers.size() - 1);
}

std::unique_ptr<module_format::StretchT> stretch_from(size_t step, uint32_t bytes) {
  auto stretch = std::make_unique<module_format::StretchT>();
  stretch->first_step = static_cast<uint32_t>(step);
  stretch->workspace_bytes = stretch->kept_bytes = bytes;
  return stretch;
}

/// A plan of one input and one output, of `elements` f32 each in `bytes`: the kernel that `builder.call` added last.
std::unique_ptr<PlanT> plan_of_call(ModuleBuilder& builder, uint32_t elements, uint32_t bytes) {
  auto plan = std::make_unique<PlanT>();
  plan->inputs = 1;
  auto output = std::make_unique<module_format::PlanOutputT>();
  output->shape = {elements};
  plan->outputs.push_back(std::move(output));
  const uint32_t in = add_buffer(plan->buffers, BufferKind::Input, 0, bytes);
  const uint32_t out = add_buffer(plan->buffers, BufferKind::Output, 0, bytes);
  plan->steps.push_back(std::move(builder.variant().steps.back()));
  builder.variant().steps.pop_back();
  plan->steps.back()->action.AsCallKernel()->buffers = {in, out};
  plan->stretches.push_back(stretch_from(0, builder.constant(0)));
  return plan;
}

/// out = in + 1 where the flag is true, else in[:1] * 2. in: f32 (n), flag: bool (), out: f32 (m), m bound by the step.
ModuleBuilder choosing_module() {
  ModuleBuilder builder;
  const uint32_t n = builder.symbol("n"), m = builder.symbol("m"), one = builder.constant(1), four = builder.constant(4);
  const uint32_t in_bytes = builder.combine(module_format::DimOpcode::Mul, n, four);
  const uint32_t out_bytes = builder.combine(module_format::DimOpcode::Mul, m, four);
  builder.add_input("in", {n});
  builder.add_input("flag", {}, ElementType::kBool);
  builder.add_output("out", {m});
  const uint32_t in = builder.input_buffer(0, in_bytes), flag = builder.input_buffer(1, one);
  builder.call("add_one", {0, 0}, {n}, {"Add_0"});
  builder.variant().plans.push_back(plan_of_call(builder, n, in_bytes));
  builder.call("scale", {0, 0}, {one, one}, {"Mul_0"});
  builder.variant().plans.push_back(plan_of_call(builder, one, four));
  RunIfT branch;
  branch.condition = flag;
  branch.then_plan = 0;
  branch.else_plan = 1;
  branch.then_inputs = branch.else_inputs = {in};
  branch.symbols.emplace_back(1, 0, 0);
  branch.origin = {"If_3"};
  auto step = std::make_unique<module_format::StepT>();
  step->action.Set(std::move(branch));
  builder.variant().steps.push_back(std::move(step));
  builder.variant().results = 1;
  const uint32_t result = add_buffer(builder.variant().buffers, BufferKind::Result, 0, out_bytes);
  builder.copy(result, builder.output_buffer(0, out_bytes));
  const uint32_t zero = builder.constant(0);
  builder.variant().stretches.push_back(stretch_from(0, zero));
  builder.variant().stretches.push_back(stretch_from(1, zero));
  builder.manifest.requires_ = {"plan-2", "control-flow"};
  return builder;
}

Result<std::shared_ptr<const Module>> load(ModuleBuilder builder) {
  auto contents = ModuleContents::from_bytes(testing::share(builder.write()));
  if (!contents.ok()) return contents.status();
  return Module::create(std::move(*contents));
}

class ChoosingModule : public ::testing::Test {
 protected:
  void open(ModuleBuilder builder, const SessionOptions& options = {.threads = 1}) {
    auto module = load(std::move(builder));
    ASSERT_TRUE(module.ok()) << module.status().message();
    auto session = Session::create(*module, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = std::move(*session);
  }
  Status run(std::vector<float> in, bool flag) {
    int64_t count = static_cast<int64_t>(in.size());
    const DLTensor data{in.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &count, nullptr, 0};
    const DLTensor choice{&flag, {kDLCPU, 0}, 0, {kDLBool, 8, 1}, nullptr, nullptr, 0};
    if (Status status = session_->set_input(0, data, false); !status.ok()) return status;
    if (Status status = session_->set_input(1, choice, false); !status.ok()) return status;
    return session_->run();
  }
  std::vector<float> output(uint32_t index = 0) const {
    auto view = session_->output(index);
    EXPECT_TRUE(view.ok()) << view.status().message();
    const auto* data = reinterpret_cast<const float*>(view->data);
    return {data, data + view->bytes / sizeof(float)};
  }
  std::unique_ptr<Session> session_;
};

RunIfT& branch_of(ModuleBuilder& builder) {
  return *builder.variant().steps[0]->action.AsRunIf();
}

TEST_F(ChoosingModule, RunsThePlanThatTheConditionNames) {
  open(choosing_module());
  const auto expect = [&](const std::vector<float>& in, bool flag, const std::vector<float>& out) {
    const Status status = run(in, flag);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(output(), out);
  };
  expect({1, 2, 3}, true, {2, 3, 4});
  expect({1, 2, 3}, false, {2});
  expect({5}, false, {10});
  expect({5, 6, 7, 8, 9}, true, {6, 7, 8, 9, 10});
}

TEST_F(ChoosingModule, TimesTheStepAndNamesItsNode) {
  open(choosing_module());
  ASSERT_TRUE(run({1}, true).ok());
  std::vector<int64_t> times(session_->executor().step_count(), -1);
  ASSERT_EQ(times.size(), 2u);
  ASSERT_TRUE(session_->run_timed(times).ok());
  for (const int64_t time : times) EXPECT_GE(time, 0);
  EXPECT_STREQ(session_->executor().label(0).ops, "if");
  EXPECT_STREQ(session_->executor().label(0).origin, "If_3");
}

TEST_F(ChoosingModule, NamesTheKernelThatFailsInAPlan) {
  ModuleBuilder builder = choosing_module();
  builder.variant().kernels[1]->symbol = "fails";
  open(std::move(builder));
  ASSERT_TRUE(run({1}, true).ok());
  const Status status = run({1}, false);
  EXPECT_EQ(status.code(), GANTRY_KERNEL_FAILED);
  EXPECT_THAT(status.message(), HasSubstr("Mul_0"));
}

TEST_F(ChoosingModule, KeepsResultsWithinTheSessionsMemory) {
  open(choosing_module(), {.threads = 1, .memory_limit = 1 << 20});
  EXPECT_EQ(run(std::vector<float>(180000, 1), true).code(), GANTRY_OUT_OF_MEMORY);
  EXPECT_TRUE(run({1, 2}, true).ok());
}

TEST_F(ChoosingModule, SharesMemoryBetweenItsPlans) {
  ModuleBuilder builder = choosing_module();
  PlanT& twice = *builder.variant().plans[1];
  const uint32_t n = builder.symbol("n"), bytes = builder.combine(module_format::DimOpcode::Mul, n, builder.constant(4));
  twice.outputs[0]->shape = {n};
  for (auto& buffer : twice.buffers) buffer->bytes = bytes;
  twice.steps[0]->action.AsCallKernel()->dims[0] = n;
  // Input, output and one result of 280 KB are less than a MiB, two results are more.
  open(std::move(builder), {.threads = 1, .memory_limit = 1 << 20});
  const std::vector<float> many(70000, 3);
  for (const bool flag : {true, false, true}) {
    const Status status = run(many, flag);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(output(), std::vector<float>(many.size(), flag ? 4 : 6));
  }
}

TEST_F(ChoosingModule, NeverReachesOutsideItsMemory) {
  const auto expect_invalid = [&](auto change, const char* why) {
    ModuleBuilder builder = choosing_module();
    change(builder);
    open(std::move(builder));
    const Status status = run({1}, false);
    EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE) << why;
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  expect_invalid([](auto& b) { b.variant().plans[1]->buffers[0]->bytes = b.constant(400); }, "of an input");
  expect_invalid([](auto& b) { b.variant().plans[1]->buffers[1]->bytes = b.constant(400); }, "of an output");
  expect_invalid([](auto& b) { b.variant().buffers[2]->bytes = b.constant(400); }, "of a plan's result");
  expect_invalid([](auto& b) { b.variant().buffers[1]->bytes = b.constant(0); }, "the condition of step 0 is empty");
  // A result of a step that has not run.
  expect_invalid([](auto& b) { std::swap(b.variant().steps[0], b.variant().steps[1]); }, "before its symbols have values");
  expect_invalid([](auto& b) { b.variant().plans[1]->outputs[0]->shape = {b.symbol("m")}; },
                 "before its symbols have values");
}

TEST(PlanOfPlans, IsRefusedWhereItMakesNoSense) {
  const auto expect_refused = [](auto change, const char* why) {
    ModuleBuilder builder = choosing_module();
    change(builder);
    const auto module = load(std::move(builder));
    ASSERT_FALSE(module.ok()) << why;
    EXPECT_EQ(module.status().code(), GANTRY_INVALID_MODULE);
    EXPECT_THAT(module.status().message(), HasSubstr(why));
  };
  expect_refused([](auto& b) { branch_of(b).condition = 9; }, "a condition is in a buffer that is not there");
  expect_refused([](auto& b) { branch_of(b).then_plan = 2; }, "runs a plan that is not there");
  expect_refused([](auto& b) { branch_of(b).else_plan = 0; }, "plan 0 is run by two steps");
  expect_refused([](auto& b) { branch_of(b).else_inputs.clear(); }, "gives 0 inputs to plan 1, which takes 1");
  expect_refused([](auto& b) { branch_of(b).else_inputs = {9}; }, "gives plan 1 a buffer that is not there");
  expect_refused([](auto& b) { branch_of(b).first_result = 1; }, "more results than there are places");
  expect_refused([](auto& b) { branch_of(b).first_result = UINT32_MAX; }, "more results than there are places");
  expect_refused([](auto& b) { branch_of(b).symbols[0] = {9, 0, 0}; }, "a dimension that plan 0 does not have");
  expect_refused([](auto& b) { branch_of(b).symbols[0] = {1, 1, 0}; }, "a dimension that plan 0 does not have");
  expect_refused([](auto& b) { branch_of(b).symbols[0] = {1, 0, 1}; }, "a dimension that plan 0 does not have");
  expect_refused([](auto& b) { b.variant().stretches.clear(); }, "its own plan has no stretches");
  expect_refused([](auto& b) { b.variant().plans[0]->stretches.clear(); }, "plan 0 has no stretches");
  expect_refused([](auto& b) { b.variant().buffers[2]->index = 1; }, "names number 1 of 1");
  expect_refused([](auto& b) { b.variant().plans[0]->buffers[0]->index = 1; }, "names number 1 of 1");
  expect_refused([](auto& b) { b.variant().plans[0]->outputs[0]->shape = {999}; }, "not in the list");
  expect_refused([](auto& b) { b.variant().plans[0]->outputs[0]->dtype = module_format::DType(200); }, "of no type");
  expect_refused([](auto& b) { b.variant().results = UINT32_MAX; }, "results of others");
  expect_refused(
      [](auto& b) {  // plan 1 runs itself: only later plans may be run
        RunIfT again = branch_of(b);
        again.then_plan = again.else_plan = 1;
        auto step = std::make_unique<module_format::StepT>();
        step->action.Set(std::move(again));
        b.variant().plans[1]->steps.push_back(std::move(step));
      },
      "runs a plan that is not there");
}

TEST(PlanOfPlans, IsRefusedWhereItIsNestedTooDeep) {
  ModuleBuilder builder = choosing_module();
  // Plan 2k+2 is run by plan 2k, and so on: a chain of thousands.
  const auto copy_of = [](const PlanT& plan) { return std::make_unique<PlanT>(plan); };
  for (uint32_t i = 0; i < 400; ++i) {
    builder.variant().plans.push_back(copy_of(*builder.variant().plans[0]));
    builder.variant().plans.push_back(copy_of(*builder.variant().plans[1]));
  }
  for (uint32_t i = 0; i + 2 < builder.variant().plans.size(); i += 2) {
    RunIfT again = branch_of(builder);
    again.condition = 0;
    again.then_inputs = again.else_inputs = {0};
    again.then_plan = i + 2;
    again.else_plan = i + 3;
    auto step = std::make_unique<module_format::StepT>();
    step->action.Set(std::move(again));
    builder.variant().plans[i]->steps.push_back(std::move(step));
    builder.variant().plans[i]->results = 1;
  }
  const auto module = load(std::move(builder));
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("nested too deep"));
}

/// A state of f32 (k) is the input at first, and grows by 1 in every turn of `count`; each turn gives its element 0.
/// in: f32 (n), count: i64 (), out: f32 (n), firsts: f32 (t).
ModuleBuilder counting_module() {
  ModuleBuilder builder;
  const uint32_t n = builder.symbol("n"), k = builder.symbol("k"), t = builder.symbol("t");
  const uint32_t zero = builder.constant(0), one = builder.constant(1), four = builder.constant(4);
  const auto bytes_of = [&](uint32_t elements) { return builder.combine(module_format::DimOpcode::Mul, elements, four); };
  const uint32_t in_bytes = bytes_of(n), state_bytes = bytes_of(k);
  builder.add_input("in", {n});
  builder.add_input("count", {}, ElementType::kI64);
  builder.add_output("out", {n});
  builder.add_output("firsts", {t});
  const uint32_t in = builder.input_buffer(0, in_bytes), count = builder.input_buffer(1, builder.constant(8));
  // The plan: turn, condition, state -> condition, state, first element.
  builder.call("add_one", {0, 0}, {k}, {"Add_0"});
  auto plan = plan_of_call(builder, k, state_bytes);
  plan->inputs = 3;
  plan->buffers[0]->index = 2;
  plan->buffers[1]->index = 1;
  auto condition = std::make_unique<module_format::PlanOutputT>();
  condition->dtype = module_format::DType::Bool;
  plan->outputs.insert(plan->outputs.begin(), std::move(condition));
  plan->outputs.push_back(std::make_unique<module_format::PlanOutputT>());
  const auto add_copy = [&](uint32_t source, uint32_t target) {
    builder.copy(source, target);
    plan->steps.push_back(std::move(builder.variant().steps.back()));
    builder.variant().steps.pop_back();
  };
  const uint32_t goes_on = add_buffer(plan->buffers, BufferKind::Input, 1, one);
  add_copy(goes_on, add_buffer(plan->buffers, BufferKind::Output, 0, one));
  const uint32_t element = add_buffer(plan->buffers, BufferKind::Output, 1, four);
  add_copy(element, add_buffer(plan->buffers, BufferKind::Output, 2, four));
  builder.variant().plans.push_back(std::move(plan));
  module_format::RunLoopT loop;
  loop.count = static_cast<int32_t>(count);
  loop.inputs = {in};
  loop.states = 1;
  loop.entry.emplace_back(1, 0, 0, n);
  loop.symbols.emplace_back(2, 1, 0, zero);
  loop.origin = {"Loop_7"};
  auto step = std::make_unique<module_format::StepT>();
  step->action.Set(std::move(loop));
  builder.variant().steps.push_back(std::move(step));
  builder.variant().results = 2;
  const uint32_t state = add_buffer(builder.variant().buffers, BufferKind::Result, 0, in_bytes);
  builder.copy(state, builder.output_buffer(0, in_bytes));
  const uint32_t all = bytes_of(t);
  const uint32_t firsts = add_buffer(builder.variant().buffers, BufferKind::Result, 1, all);
  builder.copy(firsts, builder.output_buffer(1, all));
  builder.variant().stretches.push_back(stretch_from(0, zero));
  builder.variant().stretches.push_back(stretch_from(1, zero));
  builder.manifest.requires_ = {"plan-2", "control-flow"};
  return builder;
}

module_format::RunLoopT& loop_of(ModuleBuilder& builder) {
  return *builder.variant().steps[0]->action.AsRunLoop();
}

class CountingModule : public ChoosingModule {
 protected:
  Status count(std::vector<float> in, int64_t turns) {
    int64_t size = static_cast<int64_t>(in.size());
    const DLTensor data{in.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &size, nullptr, 0};
    const DLTensor number{&turns, {kDLCPU, 0}, 0, {kDLInt, 64, 1}, nullptr, nullptr, 0};
    if (Status status = session_->set_input(0, data, false); !status.ok()) return status;
    if (Status status = session_->set_input(1, number, false); !status.ok()) return status;
    return session_->run();
  }
};

TEST_F(CountingModule, HandsStatesOnAndGathersWhatTurnsGive) {
  open(counting_module());
  const auto expect = [&](const std::vector<float>& in, int64_t turns, const std::vector<float>& out,
                          const std::vector<float>& firsts) {
    const Status status = count(in, turns);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(output(0), out);
    EXPECT_EQ(output(1), firsts);
  };
  expect({1, 2, 3}, 2, {3, 4, 5}, {2, 3});
  expect({1, 2, 3}, 0, {1, 2, 3}, {});
  expect({5}, -4, {5}, {});
  expect({5}, 3, {8}, {6, 7, 8});
  std::vector<float> many;
  for (int i = 1; i <= 3000; ++i) many.push_back(static_cast<float>(i));
  expect({0}, 3000, {3000}, many);
  expect({7}, 1, {8}, {8});
}

TEST_F(CountingModule, StopsWhereTheConditionSaysSo) {
  ModuleBuilder builder = counting_module();
  // The condition is a byte of the state: of 1.0f, 2.0f … the first byte is 0.
  builder.variant().plans[0]->buffers[2]->index = 2;
  open(std::move(builder));
  ASSERT_TRUE(count({1, 2}, 9).ok());
  EXPECT_EQ(output(1), (std::vector<float>{2}));
  builder = counting_module();
  loop_of(builder).condition = 0;  // 0.0f begins with 0, a NaN of all ones does not
  open(std::move(builder));
  ASSERT_TRUE(count({0}, 9).ok());
  EXPECT_EQ(output(0), (std::vector<float>{0}));
}

TEST_F(CountingModule, KeepsWhatItGathersWithinTheSessionsMemory) {
  open(counting_module(), {.threads = 1, .memory_limit = 1 << 20});
  EXPECT_EQ(count({1}, 1 << 20).code(), GANTRY_OUT_OF_MEMORY);
  ASSERT_TRUE(count({1}, 4).ok());
  EXPECT_EQ(output(1), (std::vector<float>{2, 3, 4, 5}));
}

TEST_F(CountingModule, LetsGoOfWhatALargerRunHasLeftOfTheTurnsResults) {
  open(counting_module(), {.threads = 1, .memory_limit = 1 << 20});
  // A state of 240 KB: the input, the output and two turns' results.
  ASSERT_TRUE(count(std::vector<float>(60000, 1), 2).ok());
  // 400 KB that are gathered, beside the 256 KiB that they outgrow.
  const Status status = count({1}, 100000);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(output(1).size(), 100000u);
  EXPECT_EQ(output(1).back(), 100001.0F);
}

TEST_F(CountingModule, GathersInNoMoreThanItNeedsWhereThereIsNoMore) {
  ModuleBuilder builder = counting_module();
  auto& plan = *builder.variant().plans[0];
  plan.buffers[2]->index = 2;  // the condition is the first byte of the state
  plan.outputs[2]->shape = {builder.symbol("k")};
  open(std::move(builder), {.threads = 1, .memory_limit = 1 << 20});
  // Five turns give 64 KiB each: the fifth finds 256 KiB full, beside which 320 KiB have room, but not 512.
  std::vector<float> in(16384, 1);
  in[0] = 8388608.0F + 252;
  const Status status = count(in, 200);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(output(0)[0], 8388608.0F + 257);
}

TEST_F(CountingModule, NamesTheNodeWhoseTurnsGiveUnlikeShapes) {
  ModuleBuilder builder = counting_module();
  // The state grows: what is gathered is all of it. A turn's state is one element longer than that before.
  auto& plan = *builder.variant().plans[0];
  const uint32_t longer = builder.combine(module_format::DimOpcode::Add, builder.symbol("k"), builder.constant(1));
  plan.outputs[1]->shape = plan.outputs[2]->shape = {longer};
  open(std::move(builder));
  const Status status = count({1}, 2);
  EXPECT_EQ(status.code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(status.message(), "Loop_7: what its turns give differs in shape: (3) after (2)");
}

TEST(PlanOfTurns, IsRefusedWhereItMakesNoSense) {
  const auto expect_refused = [](auto change, const char* why) {
    ModuleBuilder builder = counting_module();
    change(builder);
    const auto module = load(std::move(builder));
    ASSERT_FALSE(module.ok()) << why;
    EXPECT_EQ(module.status().code(), GANTRY_INVALID_MODULE);
    EXPECT_THAT(module.status().message(), HasSubstr(why));
  };
  expect_refused([](auto& b) { loop_of(b).count = 99; }, "a loop's count is in a buffer that is not there");
  expect_refused([](auto& b) { loop_of(b).condition = 99; }, "a condition is in a buffer that is not there");
  expect_refused([](auto& b) { loop_of(b).plan = 1; }, "runs a plan that is not there");
  expect_refused([](auto& b) { loop_of(b).inputs = {0, 0}; }, "gives 4 inputs to plan 0, which takes 3");
  expect_refused([](auto& b) { b.variant().plans[0]->inputs = 1; }, "which takes 1");
  expect_refused([](auto& b) { loop_of(b).states = 2; }, "cannot hand on 2 states");
  expect_refused([](auto& b) { loop_of(b).states = UINT32_MAX; }, "cannot hand on");
  expect_refused([](auto& b) { b.variant().plans[0]->outputs.clear(); }, "cannot hand on 1 states");
  expect_refused([](auto& b) { loop_of(b).first_result = 1; }, "more results than there are places");
  expect_refused([](auto& b) { loop_of(b).entry[0] = {9, 0, 0, 0}; }, "a symbol or reads a dimension that is not there");
  expect_refused([](auto& b) { loop_of(b).entry[0] = {1, 0, 0, 999}; }, "a symbol or reads a dimension that is not there");
  expect_refused([](auto& b) { loop_of(b).entry[0] = {1, 1, 0, 0}; }, "to a result that it does not have");
  expect_refused([](auto& b) { loop_of(b).entry[0] = {1, 0, 1, 0}; }, "a dimension that its result does not have");
  expect_refused([](auto& b) { loop_of(b).symbols[0] = {2, 2, 0, 0}; }, "to a result that it does not have");
  expect_refused([](auto& b) { loop_of(b).symbols[0] = {2, 1, 1, 0}; }, "a dimension that its result does not have");
  expect_refused([](auto& b) { b.variant().stretches.clear(); }, "its own plan has no stretches");
}

}  // namespace
}  // namespace gantry::runtime
