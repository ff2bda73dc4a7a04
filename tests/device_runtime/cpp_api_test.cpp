// gantry/runtime.hpp: what it gives is what the C interface gives, and what it refuses is refused twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "gantry/runtime.hpp"
#include "tests/device_runtime/module_builder.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

static_assert(!std::is_copy_constructible_v<Module> && std::is_nothrow_move_constructible_v<Module>);
static_assert(!std::is_copy_constructible_v<Session> && std::is_nothrow_move_assignable_v<Session>);
static_assert(!std::is_copy_constructible_v<Tensor> && std::is_nothrow_move_constructible_v<Tensor>);
static_assert(std::is_convertible_v<TensorView<const float>, std::span<const float>>);
static_assert(std::is_convertible_v<std::vector<float>&, Span<const float>>);
static_assert(!std::is_convertible_v<std::vector<double>&, Span<const float>>);
static_assert(is_same_type(element_type<const std::int64_t>, {kDLInt, 64, 1}));
static_assert(is_same_type(element_type<bool>, {kDLBool, 8, 1}));
// What may be borrowed: not what goes with its elements when the call ends.
static_assert(detail::outlives_call<std::array<float, 6>&> && detail::outlives_call<const float (&)[6]>);
static_assert(detail::outlives_call<std::span<const float>> && detail::outlives_call<const Span<float>>);
static_assert(!detail::outlives_call<std::vector<float>> && !detail::outlives_call<std::array<float, 6>>);
static_assert(!detail::outlives_call<const std::array<float, 6>> && !detail::outlives_call<float[6]>);

/// out = in + 1, f32 (2, 3).
Module add_one() {
  return Module::load_memory(runtime::testing::static_module().write());
}
/// The failure's kind and message; "" of none.
template <typename Callable>
std::string thrown_by(Callable callable, GantryStatus code = GANTRY_INVALID_ARGUMENT) {
  try {
    callable();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

TEST(CppApi, DescribesInputsAndOutputsByNumberAndName) {
  const Module module = add_one();
  EXPECT_EQ(module.target(), "here");
  EXPECT_EQ(module.input_count(), 1);
  const TensorDescription by_name = module.output("out");
  EXPECT_EQ(by_name.name, "out");
  EXPECT_EQ(by_name.shape, (Shape{2, 3}));
  EXPECT_EQ(to_string(by_name.type), "f32");
  EXPECT_EQ(module.output(0).name, "out");
  EXPECT_EQ(module.try_output(std::string("out"))->name, "out");
  EXPECT_THAT(module.try_input("image").error().message, HasSubstr("no input 'image'; the module has 'in'"));
  EXPECT_THAT(thrown_by([&] { module.input(1); }), HasSubstr("no input 1"));
  EXPECT_THAT(thrown_by([&] { module.input(std::size_t{1} << 40); }), HasSubstr("no input"));
  EXPECT_THAT(thrown_by([&] { module.input(-1); }), HasSubstr("no input"));
}

TEST(CppApi, RunsWithContainersArraysAndSpans) {
  Session session = Session::create(add_one());
  const std::vector<float> vector = {1, 2, 3, 4, 5, 6};
  session.set_input("in", vector);
  session.run();
  EXPECT_THAT(session.output<float>("out"), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_EQ(session.output<float>(0).shape(), (Shape{2, 3}));

  const std::array<float, 6> array = {};
  session.set_input(0, array, {2, 3});
  session.run();
  EXPECT_THAT(session.output<float>(0), ElementsAre(1, 1, 1, 1, 1, 1));

  float plain[6] = {9, 9, 9, 9, 9, 8};
  session.set_input(0, plain);
  session.run();
  EXPECT_EQ(session.output<float>(0)[5], 9);
  session.set_input(0, std::span(vector), {2, 3});
  session.run();
  const std::span<const float> out = session.output<float>("out");
  EXPECT_EQ(out.back(), 7);
}

TEST(CppApi, BorrowedInputsAreReadAtEveryRun) {
  Session session = Session::create(add_one());
  alignas(64) float values[6] = {};
  session.borrow_input("in", values);
  session.run();
  EXPECT_EQ(session.output<float>(0)[0], 1);
  values[0] = 41;
  session.run();
  EXPECT_EQ(session.output<float>(0)[0], 42);
}

TEST(CppApi, KeptTensorsAreReleasedWhenTheInputIsSetAgainOrTheSessionEnds) {
  static int released = 0;
  static float values[6] = {1, 1, 1, 1, 1, 1};
  static std::int64_t shape[2] = {2, 3};
  released = 0;
  const auto make = [] {
    auto* managed = new DLManagedTensor{};
    managed->dl_tensor = {values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    managed->deleter = [](DLManagedTensor* self) {
      ++released;
      delete self;
    };
    return Tensor(managed);
  };
  {
    Session session = Session::create(add_one());
    session.keep_input("in", make());
    session.run();
    EXPECT_EQ(session.output<float>(0)[5], 2);
    EXPECT_EQ(released, 0);
    session.set_input("in", std::vector<float>(6, 5.0f));
    EXPECT_EQ(released, 1);
    session.keep_input(0, make());
    Session moved = std::move(session);
    moved.run();
    EXPECT_EQ(released, 1);
    // What is refused is released too, and leaves the input as it was.
    Tensor wrong = make();
    const_cast<DLTensor&>(wrong.dlpack()).dtype.bits = 64;
    EXPECT_THAT(thrown_by([&] { moved.keep_input(0, std::move(wrong)); }), HasSubstr("expected f32"));
    EXPECT_EQ(released, 2);
    moved.run();
  }
  EXPECT_EQ(released, 3);
}

TEST(CppApi, GivesOutputsToWhoSpeaksDLPack) {
  Tensor taken;
  EXPECT_FALSE(taken);
  {
    Session session = Session::create(add_one());
    session.set_input(0, std::vector<float>{1, 2, 3, 4, 5, 6});
    session.run();
    EXPECT_EQ(session.output_dlpack("out").ndim, 2);
    taken = session.take_output("out");
  }
  EXPECT_EQ(taken.view<float>()[5], 7);
  EXPECT_EQ(taken.shape(), (Shape{2, 3}));
  EXPECT_THAT(taken.try_view<double>().error().message,
              HasSubstr("elements of type f32 and was asked for as f64"));
  DLManagedTensor* given = taken.release();
  EXPECT_FALSE(taken);
  EXPECT_THAT(taken.try_view<float>().error().message, HasSubstr("given away"));
  given->deleter(given);
}

TEST(CppApi, RefusesWrongTypesShapesAndCounts) {
  Session session = Session::create(add_one());
  EXPECT_THAT(thrown_by([&] { session.set_input("in", std::vector<double>(6)); }),
              HasSubstr("got f64 (2, 3)"));
  EXPECT_THAT(thrown_by([&] { session.set_input("in", std::vector<float>(5)); }),
              HasSubstr("input 'in': 5 elements were given for the shape (2, 3)"));
  EXPECT_THAT(thrown_by([&] {
                session.set_input("in", std::vector<float>(6), {3, 2});
              }),
              HasSubstr("(3, 2)"));
  EXPECT_THAT(thrown_by([&] { session.set_input("in", std::vector<float>(6), {-2, -3}); }), HasSubstr("-2"));
  EXPECT_THAT(thrown_by([&] {
                session.set_input("in", std::vector<float>(1), Shape(std::vector<std::int64_t>(17, 1)));
              }),
              HasSubstr("no valid shape"));
  EXPECT_NE(thrown_by([&] { session.run(); }), "");
  session.set_input("in", std::vector<float>(6));
  session.run();
  EXPECT_THAT(thrown_by([&] { session.output<std::int32_t>(0); }),
              HasSubstr("output 'out' has elements of type f32 and was asked for as i32"));
  EXPECT_THAT(thrown_by([&] { session.output<float>("scores"); }), HasSubstr("the module has 'out'"));
}

TEST(CppApi, OpenDimensionsAreGivenWithTheInput) {
  const Module module = Module::load_memory(runtime::testing::symbolic_module().write());
  const TensorDescription input = module.input(0);
  EXPECT_EQ(input.shape, (Shape{-1, 4}));
  EXPECT_EQ(input.shape.count(), -1);
  Session session = Session::create(module, {.threads = 1});
  EXPECT_THAT(session.try_set_input(0, std::vector<float>(8)).error().message,
              HasSubstr("has the shape (-1, 4)"));
  session.set_input(0, std::vector<float>(8, 2.0f), {2, 4});
  session.run();
  EXPECT_EQ(session.output<float>(0).shape(), (Shape{2, 4}));
  EXPECT_THAT(session.output<float>(0), ::testing::Each(9.0f));
  session.set_input(0, std::vector<float>(), {0, 4});
  EXPECT_EQ(Shape({0, 4}).count(), 0);
}

TEST(CppApi, CountsOfShapesDoNotOverflow) {
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ(Shape({large, large}).count(), -1);
  EXPECT_EQ(Shape({large, large, 0}).count(), 0);
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_NE(Shape({1}), Shape({1, 1}));
}

TEST(CppApi, StridedInputsAreCopiedAndStridedTensorsAreNotViewed) {
  // Columns of a (3, 2) array: (2, 3) transposed.
  float values[6] = {1, 2, 3, 4, 5, 6};
  std::int64_t shape[2] = {2, 3}, strides[2] = {1, 2};
  DLTensor tensor{values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
  Session session = Session::create(add_one());
  session.set_input(0, tensor);
  session.run();
  EXPECT_THAT(session.output<float>(0), ElementsAre(2, 4, 6, 3, 5, 7));
  DLManagedTensor managed{tensor, nullptr, nullptr};
  const Tensor strided(&managed);
  EXPECT_THAT(strided.try_view<float>().error().message, HasSubstr("strided"));
}

TEST(CppApi, TimesStepsAndTellsMemory) {
  Session session = Session::create(add_one());
  session.set_input(0, std::vector<float>(6));
  const auto steps = session.time_steps();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_STREQ(steps[0].symbol, "add_one");
  EXPECT_GT(session.memory().io_bytes, 0u);
}

TEST(CppApi, StepsAreTimedInOneRun) {
  runtime::testing::ModuleBuilder builder = runtime::testing::static_module();
  // Adds one to the input after it has been read.
  builder.call("add_one", {0, 0}, {builder.constant(6)});
  Session session = Session::create(Module::load_memory(builder.write()));
  session.set_input(0, std::vector<float>(6));
  EXPECT_EQ(session.time_steps().size(), 2u);
  EXPECT_THAT(session.output<float>(0), ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST(CppApi, FailuresHaveKindsAndMessages) {
  const auto absent = Module::try_load("/absent.gmod");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, GANTRY_IO_ERROR);
  EXPECT_THAT(absent.error().message, HasSubstr("/absent.gmod"));
  EXPECT_THAT(thrown_by([] { Module::load("/absent.gmod"); }, GANTRY_IO_ERROR), HasSubstr("/absent.gmod"));
  EXPECT_THAT(thrown_by([] { Module::load_memory("no module"); }, GANTRY_INVALID_MODULE), ::testing::Not(""));
  SessionOptions options;
  options.device = "quantum";
  EXPECT_THAT(Session::try_create(add_one(), options).error().message, HasSubstr("quantum"));
  EXPECT_EQ(version(), gantry_version());
}

TEST(CppApiDeathTest, AResultThatFailedIsNotUsed) {
  const auto absent = Module::try_load("/absent.gmod");
  EXPECT_DEATH((void)absent->target(), "a result was used that failed with: .*absent.gmod");
}

}  // namespace
}  // namespace gantry
