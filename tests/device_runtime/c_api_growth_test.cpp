// Programs whose header is older or newer than the library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "gantry/runtime.h"
#include "tests/device_runtime/module_builder.h"

extern "C" const char* program_of_0_1(const void* bytes, size_t size);

namespace gantry::runtime {
namespace {

using ::testing::HasSubstr;

constexpr unsigned char kGuard = 0x5a;

/// A struct in memory that may be shorter or longer, with guards behind it.
template <typename T>
struct Sized {
  explicit Sized(size_t size) : size(size) {
    std::memset(bytes, kGuard, sizeof bytes);
    const auto stated = static_cast<uint32_t>(size);
    std::memcpy(bytes, &stated, sizeof stated);
  }
  T* get() { return reinterpret_cast<T*>(bytes); }
  bool untouched_behind() const {
    return std::all_of(bytes + size, bytes + sizeof bytes, [](unsigned char byte) { return byte == kGuard; });
  }
  /// What lies behind what this version knows.
  bool zero_behind_known() const {
    return std::all_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte == 0; });
  }
  size_t size;
  alignas(T) unsigned char bytes[sizeof(T) + 64];
};

class Growth : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = testing::static_module().write();
    ASSERT_EQ(gantry_module_load_memory(file.data(), file.size(), &module_), GANTRY_OK);
    ASSERT_EQ(gantry_session_create(module_, nullptr, &session_), GANTRY_OK);
    float values[6] = {};
    int64_t shape[2] = {2, 3};
    const DLTensor input{values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    ASSERT_EQ(gantry_set_input(session_, 0, &input, 0), GANTRY_OK);
  }
  void TearDown() override {
    gantry_session_release(session_);
    gantry_module_release(module_);
  }
  GantryModule* module_ = nullptr;
  GantrySession* session_ = nullptr;
};

TEST(CApiGrowth, AProgramOfVersion01RunsWithThisLibrary) {
  const auto file = testing::static_module().write();
  EXPECT_STREQ(program_of_0_1(file.data(), file.size()), nullptr);
}

TEST_F(Growth, AnOlderProgramsStructsAreFilledAsFarAsTheyReach) {
  Sized<GantryTensorDescription> tensor(offsetof(GantryTensorDescription, dtype));
  ASSERT_EQ(gantry_describe_input(module_, 0, tensor.get()), GANTRY_OK) << gantry_last_error();
  EXPECT_EQ(tensor.get()->rank, 2);
  EXPECT_STREQ(tensor.get()->name, "in");
  EXPECT_EQ(tensor.get()->struct_size, tensor.size);
  EXPECT_TRUE(tensor.untouched_behind());
  Sized<GantrySessionMemory> memory(offsetof(GantrySessionMemory, device_workspace_bytes));
  ASSERT_EQ(gantry_session_memory(session_, memory.get()), GANTRY_OK) << gantry_last_error();
  EXPECT_EQ(memory.get()->io_bytes, 48u);
  EXPECT_TRUE(memory.untouched_behind());
  Sized<GantryDeviceMemoryInfo> device(offsetof(GantryDeviceMemoryInfo, io_bytes));
  ASSERT_EQ(gantry_device_memory_info(session_, device.get()), GANTRY_OK) << gantry_last_error();
  EXPECT_TRUE(device.untouched_behind());
}

TEST_F(Growth, OfANewerProgramsStructsWhatIsNotKnownIsZero) {
  Sized<GantryTensorDescription> tensor(sizeof(GantryTensorDescription) + 16);
  ASSERT_EQ(gantry_describe_output(module_, 0, tensor.get()), GANTRY_OK) << gantry_last_error();
  EXPECT_STREQ(tensor.get()->name, "out");
  EXPECT_TRUE(tensor.zero_behind_known());
  EXPECT_TRUE(tensor.untouched_behind());
  Sized<GantrySessionMemory> memory(sizeof(GantrySessionMemory) + 24);
  ASSERT_EQ(gantry_session_memory(session_, memory.get()), GANTRY_OK) << gantry_last_error();
  EXPECT_TRUE(memory.zero_behind_known());
  EXPECT_TRUE(memory.untouched_behind());
}

TEST_F(Growth, ElementsOfArraysAreAsFarApartAsTheProgramsAre) {
  struct NewerStep {
    GantryStepTime known;
    uint64_t later;
  };
  NewerStep steps[2];
  std::memset(steps, kGuard, sizeof steps);
  int32_t count = 0;
  ASSERT_EQ(gantry_time_steps(session_, &steps[0].known, sizeof *steps, 2, &count), GANTRY_OK);
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(steps[0].known.origin, "Add_0");
  EXPECT_EQ(steps[0].later, 0u);
  EXPECT_EQ(reinterpret_cast<const unsigned char*>(&steps[1])[0], kGuard);
  struct OlderStep {
    const char *symbol, *ops;
  };
  OlderStep older[2] = {{"", ""}, {"next", "next"}};
  ASSERT_EQ(gantry_time_steps(session_, reinterpret_cast<GantryStepTime*>(older), sizeof *older, 2, &count),
            GANTRY_OK);
  EXPECT_STREQ(older[0].ops, "test.add_one");
  EXPECT_STREQ(older[1].symbol, "next");
  EXPECT_EQ(gantry_time_steps(session_, &steps[0].known, 0, 2, &count), GANTRY_INVALID_ARGUMENT);
}

TEST_F(Growth, OptionsOfAnOlderProgramHaveZeroForTheRest) {
  GantrySessionOptions options{};
  options.struct_size = offsetof(GantrySessionOptions, device);
  options.threads = 1;
  options.device = "quantum";  // behind its end
  GantrySession* session = nullptr;
  EXPECT_EQ(gantry_session_create(module_, &options, &session), GANTRY_OK) << gantry_last_error();
  gantry_session_release(session);
}

TEST_F(Growth, OptionsOfANewerProgramMayNotSayWhatIsNotKnown) {
  struct {
    GantrySessionOptions known;
    uint64_t later;
  } options{};
  options.known.struct_size = sizeof options;
  options.known.threads = 1;
  GantrySession* session = nullptr;
  EXPECT_EQ(gantry_session_create(module_, &options.known, &session), GANTRY_OK) << gantry_last_error();
  gantry_session_release(session);
  options.later = 1;
  EXPECT_EQ(gantry_session_create(module_, &options.known, &session), GANTRY_INVALID_ARGUMENT);
  EXPECT_THAT(gantry_last_error(), HasSubstr("does not know"));
}

TEST_F(Growth, SizesThatNobodySetAreRefused) {
  for (const uint32_t size : {0u, 4u, 0x5a5a5a5au}) {
    GantrySessionMemory memory{size};
    EXPECT_EQ(gantry_session_memory(session_, &memory), GANTRY_INVALID_ARGUMENT) << size;
    EXPECT_THAT(gantry_last_error(), HasSubstr("struct_size"));
  }
}

}  // namespace
}  // namespace gantry::runtime
