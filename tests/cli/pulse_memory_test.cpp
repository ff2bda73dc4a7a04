#include "host/cli/pulse_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "host/cli/former_pulses.h"

namespace gantry::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PulseMemoryTest : public ::testing::Test {
 protected:
  PulseMemoryTest() {
    std::string name = ::testing::TempDir() + "gantry-pulses-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~PulseMemoryTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path file() const { return folder_ / "cache" / "core-pulses.json"; }

  std::filesystem::path folder_;
};

TEST_F(PulseMemoryTest, KeepsWhatWasSeenMachineByMachine) {
  EXPECT_THAT(PulseMemory(file()).levels("pi"), IsEmpty());
  PulseMemory(file()).remember("pi", 1.5);
  PulseMemory(file()).remember("server", 1.2);
  PulseMemory(file()).remember("pi", 1.6);
  EXPECT_THAT(PulseMemory(file()).levels("pi"), ElementsAre(1.5, 1.6));
  EXPECT_THAT(PulseMemory(file()).levels("server"), ElementsAre(1.2));
}

TEST_F(PulseMemoryTest, IsBounded) {
  const PulseMemory memory(file());
  for (int i = 0; i < 40; ++i) memory.remember("pi", i + 1);
  EXPECT_THAT(memory.levels("pi"), SizeIs(PulseMemory::kMostLevels));
  EXPECT_EQ(memory.levels("pi").back(), 40);
  for (size_t i = 0; i < PulseMemory::kMostMachines; ++i) memory.remember("board " + std::to_string(i), 1);
  EXPECT_THAT(memory.levels("pi"), IsEmpty());
  EXPECT_THAT(memory.levels("board 0"), SizeIs(1));
}

TEST_F(PulseMemoryTest, ADamagedFileIsAnEmptyOneAndIsWrittenAnew) {
  std::filesystem::create_directories(file().parent_path());
  for (const char* text :
       {"", "{", "[1]", R"({"schema":"gantry-core-pulses","schema_version":2,"machines":[{"machine":3}]})",
        R"({"schema":"gantry-core-pulses","schema_version":3,"machines":[{"machine":"pi","levels":[1]}]})"}) {
    std::ofstream(file()) << text;
    EXPECT_THAT(PulseMemory(file()).levels("pi"), IsEmpty()) << text;
    PulseMemory(file()).remember("pi", 2);
    EXPECT_THAT(PulseMemory(file()).levels("pi"), ElementsAre(2)) << text;
  }
}

TEST_F(PulseMemoryTest, WhatCannotBeWrittenIsNoError) {
  PulseMemory("/dev/null/cache/core-pulses.json").remember("pi", 1);
  PulseMemory().remember("pi", 1);
  EXPECT_THAT(PulseMemory().levels("pi"), IsEmpty());
}

/// Ten processes of which every pulse has that value.
Measurement measured(double pulse) {
  Measurement measurement;
  measurement.board.cpu = "EPYC";
  measurement.last.threads = 2;
  for (int i = 0; i < 10; ++i) {
    ProcessMeasurement& process = measurement.processes.emplace_back();
    process.samples_ms = {1, 1, 1, 1, 1};
    process.started_ms = {0, 1, 2, 3, 4};
    process.pulses = {{-0.1, pulse, pulse}, {5, pulse * 1.001, pulse}};
  }
  return measurement;
}

TEST_F(PulseMemoryTest, AMeasurementThatIsWhollyDisturbedIsKnownToBeByWhatAFormerOneSaw) {
  Measurement quiet = measured(1.2), loud = measured(1.6);
  const Measurement* const first[] = {&quiet};
  const Measurement* const second[] = {&loud};
  FormerPulses nothing(PulseMemory(file()), "");
  leave_out_disturbed(loud, nothing.level(second));
  EXPECT_EQ(loud.disturbed_share(), 0) << "nobody knows better yet";
  FormerPulses before(PulseMemory(file()), "");
  before.remember(first);
  FormerPulses now(PulseMemory(file()), "");
  leave_out_disturbed(loud, now.level(second));
  EXPECT_EQ(loud.disturbed_share(), 1);
  EXPECT_TRUE(loud.uses_disturbed);
  EXPECT_NEAR(loud.disturbed_speed(), 1.2 / 1.6, 0.01);
  Measurement without = loud;
  for (ProcessMeasurement& process : without.processes) process.pulses.clear();
  const Measurement* const third[] = {&without};
  EXPECT_FALSE(now.level(third).has_value()) << "no pulses were made here";
  FormerPulses pinned(PulseMemory(file()), "0,1");
  EXPECT_NEAR(*pinned.level(second), 1.6, 0.01) << "other CPUs are another machine";
}

}  // namespace
}  // namespace gantry::cli
