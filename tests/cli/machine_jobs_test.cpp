// Jobs on machines that go away and come.
#include "host/cli/machine_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

namespace gantry::cli {
namespace {

using ::testing::ElementsAre;

/// Machines that the test gives and takes; 0: none.
class PlayedMachines : public TuneMachines {
 public:
  PlayedMachines(std::vector<uint64_t> machines, bool renews)
      : machines_(std::move(machines)), renews_(renews) {}

  size_t places() const override { return machines_.size(); }
  bool renews() const override { return renews_; }
  std::optional<TuneMachine> machine(size_t place) const override {
    const std::scoped_lock lock(mutex_);
    if (machines_[place] == 0) return std::nullopt;
    TuneMachine machine;
    machine.number = machines_[place];
    return machine;
  }
  bool lost(size_t place, const TuneMachine&) override {
    const std::scoped_lock lock(mutex_);
    if (!renews_) return false;
    machines_[place] = 0;
    return hope_;
  }
  std::string waits_for() override {
    const std::scoped_lock lock(mutex_);
    if (waits_ == nullptr) return "";
    return waits_();
  }
  std::string label(const std::string& one) const override { return one; }
  std::string name() const override { return ""; }

  void give(size_t place, uint64_t machine) {
    const std::scoped_lock lock(mutex_);
    machines_[place] = machine;
  }

  bool hope_ = true;
  std::function<std::string()> waits_;

 private:
  mutable std::mutex mutex_;
  std::vector<uint64_t> machines_;
  bool renews_;
};

/// Puts down who did what.
struct Log {
  MachineWork work(const std::function<void(size_t place, size_t job)>& job) {
    MachineWork work;
    work.settle = [this](size_t place, const TuneMachine& machine) {
      const std::scoped_lock lock(mutex);
      settled[place].push_back(machine.number);
    };
    work.work = [this, job](size_t place, size_t number) {
      job(place, number);
      const std::scoped_lock lock(mutex);
      done.push_back(number);
    };
    work.wait = [](const std::string&) {};
    work.note = [this](const std::string& note) {
      const std::scoped_lock lock(mutex);
      notes.push_back(note);
    };
    return work;
  }
  std::mutex mutex;
  std::map<size_t, std::vector<uint64_t>> settled;  ///< machines, by place
  std::vector<size_t> done;
  std::vector<std::string> notes;
};

const rpc::Error kGone(rpc::ErrorKind::kReconnect, "board x: the connection broke");

TEST(MachineJobs, OneMachineDoesAllInTheirOrderAndSettlesOnce) {
  PlayedMachines machines({5}, false);
  SettledMachines settled;
  Log log;
  const MachineWork work = log.work([](size_t, size_t) {});
  do_jobs(machines, settled, 3, work);
  do_jobs(machines, settled, 2, work);
  EXPECT_THAT(log.done, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(log.settled[0], ElementsAre(5));
}

TEST(MachineJobs, AMachineThatIsLostGivesItsJobToAnother) {
  PlayedMachines machines({1, 2}, true);
  SettledMachines settled;
  Log log;
  std::set<size_t> tried_by_lost;
  do_jobs(machines, settled, 6, log.work([&](size_t place, size_t job) {
    if (place == 0) {
      tried_by_lost.insert(job);
      throw rpc::Error(kGone);
    }
    // The other one leaves it something to take.
    for (int i = 0; i < 1000 && machines.machine(0); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }));
  EXPECT_EQ(tried_by_lost.size(), 1u);
  EXPECT_EQ((std::set<size_t>(log.done.begin(), log.done.end())), (std::set<size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(log.done.size(), 6u) << "each once";
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_THAT(log.notes[0], ::testing::HasSubstr("the connection broke"));
}

TEST(MachineJobs, WithoutAnyMachineTheNextIsWaitedFor) {
  PlayedMachines machines({1}, true);
  SettledMachines settled;
  Log log;
  int waits = 0;
  bool gone = false;
  MachineWork work = log.work([&](size_t, size_t) {
    if (std::exchange(gone, true)) return;
    throw rpc::Error(kGone);
  });
  work.wait = [&](const std::string&) {
    if (!machines.machine(0) && ++waits == 3) machines.give(0, 7);
  };
  do_jobs(machines, settled, 2, work);
  EXPECT_THAT(log.done, ElementsAre(0, 1));
  EXPECT_THAT(log.settled[0], ElementsAre(1, 7));
}

TEST(MachineJobs, AMachineWithoutAnotherIsAnError) {
  PlayedMachines named({1}, false), hopeless({1}, true);
  hopeless.hope_ = false;
  for (PlayedMachines* machines : {&named, &hopeless}) {
    SettledMachines settled;
    Log log;
    EXPECT_THROW(do_jobs(*machines, settled, 2, log.work([](size_t, size_t) { throw rpc::Error(kGone); })),
                 rpc::Error);
  }
}

TEST(MachineJobs, OtherErrorsEndAll) {
  PlayedMachines machines({1, 2, 0}, true);
  SettledMachines settled;
  Log log;
  EXPECT_THROW(do_jobs(machines, settled, 100, log.work([](size_t, size_t job) {
                 if (job == 1) throw std::runtime_error("a trial is wrong");
               })),
               std::runtime_error);
}

TEST(MachineJobs, AWaitThatIsGivenUpEndsAll) {
  PlayedMachines machines({0}, true);
  machines.waits_ = []() -> std::string { throw std::runtime_error("longer than --max-wait"); };
  SettledMachines settled;
  Log log;
  EXPECT_THROW(do_jobs(machines, settled, 1, log.work([](size_t, size_t) {})), std::runtime_error);
  EXPECT_TRUE(log.done.empty());
}

}  // namespace
}  // namespace gantry::cli
