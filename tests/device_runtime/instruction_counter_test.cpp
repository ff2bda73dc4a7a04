// Counting instructions, where something counts them; and what is said where nothing does. (Under an
// emulator: tests/cli/tune_instructions_test.py.)
#include "device_runtime/src/instruction_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "device_runtime/src/emulated_counter.h"

namespace gantry::runtime {
namespace {

using ::testing::HasSubstr;

/// At least two instructions a turn, and the same for each.
[[gnu::noinline]] void turn(int64_t turns) {
  for (int64_t i = 0; i < turns; ++i) __asm__ volatile("nop");
}

TEST(InstructionCounter, CountsWhatItsThreadExecutesOrSaysWhyNot) {
  Result<InstructionCounter> counter = InstructionCounter::open();
  if (!counter.ok()) {
    EXPECT_EQ(counter.status().code(), GANTRY_INCOMPATIBLE);
    EXPECT_THAT(counter.status().message(), HasSubstr("nothing counts instructions there ("));
    GTEST_SKIP() << counter.status().message();
  }
  uint64_t at[4] = {};
  ASSERT_TRUE(counter->read(at[0]));
  turn(1'000'000);
  ASSERT_TRUE(counter->read(at[1]));
  turn(3'000'000);
  ASSERT_TRUE(counter->read(at[2]));
  ASSERT_TRUE(counter->read(at[3]));
  const auto once = static_cast<double>(at[1] - at[0]), thrice = static_cast<double>(at[2] - at[1]);
  EXPECT_GE(once, 2e6);
  EXPECT_NEAR(thrice / once, 3, 0.03);
  EXPECT_LT(at[3] - at[2], 10'000u) << "of reading alone";
  EXPECT_GT(counter->cost(), 0u);
}

TEST(InstructionCounter, ThatWasNotOpenedReadsNothing) {
  uint64_t count = 0;
  EXPECT_FALSE(InstructionCounter().read(count));
}

TEST(InstructionCounter, MovesWithItsDescriptor) {
  Result<InstructionCounter> counter = InstructionCounter::open();
  if (!counter.ok()) GTEST_SKIP() << counter.status().message();
  const InstructionCounter moved = std::move(*counter);
  uint64_t count = 0;
  EXPECT_TRUE(moved.read(count));
}

TEST(InstructionCounter, LinuxRefusesTheCallThatAnEmulatorAnswersAndDoesNothingElse) {
  const int descriptor = ::memfd_create("test", MFD_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::write(descriptor, "abc", 3), 3);
  errno = 0;
  EXPECT_EQ(::syscall(SYS_lseek, descriptor, static_cast<long>(GANTRY_COUNTER_OFFSET),
                      static_cast<long>(GANTRY_COUNTER_WHENCE)),
            -1);
  EXPECT_EQ(errno, EINVAL);
  struct stat status {};
  ASSERT_EQ(::fstat(descriptor, &status), 0);
  EXPECT_EQ(status.st_size, 3);
  EXPECT_EQ(::lseek(descriptor, 0, SEEK_CUR), 3);
  ::close(descriptor);
}

}  // namespace
}  // namespace gantry::runtime
