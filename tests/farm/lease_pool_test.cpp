// Several leases at once, of a Slurm that the test plays.
#include "host/farm/lease_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "host/support/program.h"

namespace gantry::farm {
namespace {

using ::testing::HasSubstr;

/// So many boards; a job that has one is ready at once. Every function may be called by any thread.
class PlayedSlurm : public Slurm {
 public:
  explicit PlayedSlurm(size_t boards) : boards_(boards) {}

  JobId submit(const JobRequest& request) override {
    const std::scoped_lock lock(mutex_);
    ++submissions_;
    if (absent_) user_error("there is no program sbatch in $PATH");
    if (refuses_) throw SlurmError("sbatch failed (1): there is no such board", false);
    if (std::ranges::find(leases_, request.comment) == leases_.end()) leases_.push_back(request.comment);
    if (refused_ > 0 && leases_.size() >= refused_ && leases_[refused_ - 1] == request.comment)
      throw SlurmError("sbatch failed (1): no more than one", false);
    Job job;
    job.id = static_cast<JobId>(jobs_.size() + 1);
    job.state = "PENDING";
    job.reason = "Resources";
    job.comment = request.comment;
    jobs_.push_back(job);
    scripts_.push_back(request.script);
    last_ = request;
    return job.id;
  }
  std::vector<Job> leases() override {
    const std::scoped_lock lock(mutex_);
    ++looks_;
    if (away_) throw SlurmError("squeue failed (1): Unable to contact slurm controller", true);
    auto free = static_cast<std::ptrdiff_t>(boards_);
    for (const Job& job : jobs_) free -= job.phase == JobPhase::kRunning ? 1 : 0;
    for (Job& job : jobs_) {
      if (free <= 0 || job.phase != JobPhase::kPending) continue;
      --free;
      job.phase = JobPhase::kRunning;
      job.state = "RUNNING";
      job.comment =
          to_text({parse_comment(job.comment)->lease, "10.0.0." + std::to_string(job.id) + ":7453", ""});
    }
    return jobs_;
  }
  void cancel(JobId job) override { end(job, "CANCELLED"); }
  void set_comment(JobId, const std::string&) override {}
  std::vector<NodeBoards> boards() override { return {}; }
  void drain(const std::string&, const std::string&) override {}
  void resume(const std::string&) override {}

  void end(JobId job, const std::string& state) {
    const std::scoped_lock lock(mutex_);
    jobs_.at(job - 1).phase = JobPhase::kEnded;
    jobs_.at(job - 1).state = state;
  }
  /// The controller has forgotten the job and given its number to another lease's.
  void give_to_another(JobId job) {
    const std::scoped_lock lock(mutex_);
    jobs_.at(job - 1).comment = to_text({"another", "10.0.0.99:7453", ""});
  }
  void set_boards(size_t boards) {
    const std::scoped_lock lock(mutex_);
    boards_ = boards;
  }
  void set_away(bool away) {
    const std::scoped_lock lock(mutex_);
    away_ = away;
  }
  /// There is no Slurm.
  void set_absent() {
    const std::scoped_lock lock(mutex_);
    absent_ = true;
  }
  size_t submissions() const {
    const std::scoped_lock lock(mutex_);
    return submissions_;
  }
  void refuse() {
    const std::scoped_lock lock(mutex_);
    refuses_ = true;
  }
  /// Of all leases the Nth that is asked for, from 1 on, however often.
  void refuse_lease(size_t number) {
    const std::scoped_lock lock(mutex_);
    refused_ = number;
  }
  size_t looks() const {
    const std::scoped_lock lock(mutex_);
    return looks_;
  }
  std::vector<Job> jobs() const {
    const std::scoped_lock lock(mutex_);
    return jobs_;
  }
  JobRequest last() const {
    const std::scoped_lock lock(mutex_);
    return last_;
  }
  /// Of all jobs that were ever submitted, the line with the lease's key.
  std::set<std::string> keys() const {
    const std::scoped_lock lock(mutex_);
    std::set<std::string> keys;
    for (const std::string& script : scripts_) {
      const size_t begin = script.find("GANTRY_LEASE_KEY=");
      keys.insert(script.substr(begin, script.find('\n', begin) - begin));
    }
    return keys;
  }

 private:
  mutable std::mutex mutex_;
  size_t boards_;
  std::vector<Job> jobs_;
  std::vector<std::string> scripts_;
  std::vector<std::string> leases_;  ///< that were asked for, by what their jobs say of themselves
  JobRequest last_;
  size_t looks_ = 0, refused_ = 0, submissions_ = 0;
  bool away_ = false, refuses_ = false, absent_ = false;
};

class Pool : public ::testing::Test {
 protected:
  LeasePool& make(size_t places, double longest_wait_s = 0) {
    LeaseRequest request;
    request.board_type = "pi5";
    request.longest_wait_s = longest_wait_s;
    pool_ = std::make_unique<LeasePool>(
        slurm_, request, places,
        [this](const std::string& address, const std::filesystem::path& key_file) {
          return connect(address, key_file);
        },
        bounds());
    return *pool_;
  }
  /// A session that counts itself while it lives.
  KeptSession connect(const std::string& address, const std::filesystem::path& key_file) {
    EXPECT_TRUE(std::filesystem::exists(key_file));
    if (unreachable_) throw std::runtime_error("board " + address + ": no route");
    ++sessions_;
    return KeptSession(&sessions_, [](std::atomic<int>* sessions) { --*sessions; });
  }
  static LeaseMachine::Bounds bounds() {
    LeaseMachine::Bounds bounds;
    bounds.look_every = 0.02;
    bounds.look_every_ready = 0.05;
    bounds.first_pause = 0.02;
    bounds.longest_pause = 0.05;
    bounds.most_failures = 3;
    return bounds;
  }
  static void wait_until(const std::function<bool()>& condition) {
    const Stopwatch waited;
    while (!condition()) {
      ASSERT_LT(waited.seconds(), 60) << "it does not come";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::vector<PooledBoard> held() const {
    std::vector<PooledBoard> boards;
    for (size_t i = 0; i < pool_->places(); ++i)
      if (auto board = pool_->board(i)) boards.push_back(std::move(*board));
    return boards;
  }

  std::atomic<int> sessions_ = 0;
  std::atomic<bool> unreachable_ = false;
  PlayedSlurm slurm_{2};
  std::unique_ptr<LeasePool> pool_;
};

TEST_F(Pool, PlacesGetBoardsAsTheyGetFree) {
  make(3);
  wait_until([&] { return held().size() == 2; });
  EXPECT_NE(held()[0].address, held()[1].address);
  EXPECT_THAT(pool_->words(), HasSubstr("waiting for a board of type pi5"));
  wait_until([&] { return pool_->words().find("Resources") != std::string::npos; });
  EXPECT_EQ(slurm_.jobs().size(), 3u);
  slurm_.set_boards(3);
  wait_until([&] { return held().size() == 3; });
  EXPECT_EQ(pool_->words(), "");
  EXPECT_EQ(slurm_.jobs().size(), 3u) << "nothing is asked for twice";
}

TEST_F(Pool, ALeaseThatEndsIsAskedForAgainWithAKeyOfItsOwn) {
  make(1);
  wait_until([&] { return held().size() == 1; });
  const PooledBoard before = held()[0];
  slurm_.end(1, "TIMEOUT");
  wait_until([&] { return held().size() == 1 && held()[0].lease != before.lease; });
  EXPECT_EQ(slurm_.jobs().size(), 2u);
  EXPECT_EQ(slurm_.keys().size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(before.key_file)) << "who uses the board still may read it";
  EXPECT_NE(held()[0].key_file, before.key_file);
}

TEST_F(Pool, WithoutSlurmAllIsGivenUpAtOnce) {
  slurm_.set_absent();
  make(3);
  std::string error;
  wait_until([&] {
    try {
      pool_->check();
    } catch (const Error& thrown) {
      EXPECT_EQ(thrown.kind(), ErrorKind::kUser);
      error = thrown.what();
    }
    return !error.empty();
  });
  EXPECT_THAT(error, HasSubstr("no program sbatch"));
  EXPECT_EQ(slurm_.submissions(), 1u) << "one answer is for all places";
}

TEST_F(Pool, ALostBoardIsGivenBack) {
  make(2);
  wait_until([&] { return held().size() == 2; });
  const PooledBoard lost = *pool_->board(0), other = *pool_->board(1);
  EXPECT_TRUE(pool_->lost(0, lost.lease));
  EXPECT_FALSE(pool_->board(0));
  EXPECT_TRUE(pool_->lost(0, lost.lease)) << "and again, which says nothing new";
  wait_until([&] { return pool_->board(0).has_value(); });
  EXPECT_NE(pool_->board(0)->lease, lost.lease);
  EXPECT_EQ(pool_->board(1)->lease, other.lease);
  size_t cancelled = 0;
  for (const Job& job : slurm_.jobs()) cancelled += job.state == "CANCELLED" ? 1 : 0;
  EXPECT_EQ(cancelled, 1u);
}

TEST_F(Pool, BoardsThatAreOfNoUseAgainAndAgainLeaveNoHope) {
  make(1);
  const auto lose = [&] {
    wait_until([&] { return held().size() == 1; });
    return pool_->lost(0, held()[0].lease);
  };
  EXPECT_TRUE(lose());
  EXPECT_TRUE(lose());
  wait_until([&] { return held().size() == 1; });
  pool_->used(0, held()[0].lease);
  EXPECT_TRUE(lose()) << "something was done there";
  EXPECT_TRUE(lose());
  EXPECT_TRUE(lose());
  EXPECT_FALSE(lose());
}

TEST_F(Pool, APlaceThatIsGivenUpIsNoHope) {
  slurm_.refuse_lease(2);
  make(2);
  wait_until([&] { return held().size() == 1 && pool_->words().empty(); });
  for (const bool hope : {true, true, false}) {
    wait_until([&] { return pool_->board(0).has_value(); });
    EXPECT_EQ(pool_->lost(0, pool_->board(0)->lease), hope);
  }
}

TEST_F(Pool, ABoardThatItHasIsUsedUntilItIsGivenBack) {
  make(2);
  wait_until([&] { return held().size() == 2; });
  EXPECT_EQ(sessions_, 2);
  slurm_.set_boards(1);
  pool_->lost(0, pool_->board(0)->lease);
  wait_until([&] { return sessions_ == 1; });
  pool_.reset();
  EXPECT_EQ(sessions_, 0);
}

TEST_F(Pool, BoardsThatAreNotReachedAreGivenBackAndAtLastGivenUp) {
  unreachable_ = true;
  make(1);
  const auto said = [&] {
    try {
      pool_->check();
      return std::string();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  };
  wait_until([&] { return !said().empty(); });
  EXPECT_THAT(said(), HasSubstr("no route"));
  EXPECT_EQ(slurm_.jobs().size(), 3u);
  for (const Job& job : slurm_.jobs()) EXPECT_EQ(job.state, "CANCELLED") << job.id;
  EXPECT_TRUE(held().empty());
}

TEST_F(Pool, OnlyTheTimeWithoutAnyBoardIsIdle) {
  slurm_.set_boards(0);
  make(2);
  wait_until([&] { return pool_->waiting_s() > 0.1; });
  EXPECT_GE(pool_->idle_s(), 0.1);
  slurm_.set_boards(1);
  wait_until([&] { return held().size() == 1; });
  EXPECT_EQ(pool_->waiting_s(), 0);
  const double idle_s = pool_->idle_s();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(pool_->idle_s(), idle_s) << "the other place waits, and one has a board";
  EXPECT_GE(held()[0].waited_s, 0.1);
}

TEST_F(Pool, OneListOfTheQueueServesAllPlaces) {
  slurm_.set_boards(30);
  make(30);
  wait_until([&] { return held().size() == 30; });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it looks less often once it has boards
  const size_t before = slurm_.looks();
  const Stopwatch watched;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const size_t looks = slurm_.looks() - before;
  EXPECT_GE(looks, 1u);
  EXPECT_LE(static_cast<double>(looks), watched.seconds() / (0.4 * bounds().look_every_ready) + 2);
}

TEST_F(Pool, AControllerThatIsAwayTakesNoBoardAway) {
  make(2);
  wait_until([&] { return held().size() == 2; });
  const std::set<uint64_t> before = {held()[0].lease, held()[1].lease};
  slurm_.set_away(true);
  const size_t looks = slurm_.looks();
  wait_until([&] { return slurm_.looks() > looks; });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ASSERT_EQ(held().size(), 2u);
  EXPECT_EQ((std::set<uint64_t>{held()[0].lease, held()[1].lease}), before);
  EXPECT_LE(slurm_.looks(), looks + 2) << "it is left alone for a while";
}

TEST_F(Pool, WhatSlurmRefusesIsSaid) {
  slurm_.refuse();
  make(2);
  const auto refused = [&] {
    try {
      pool_->check();
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBoard);
      return std::string(error.what());
    }
  };
  wait_until([&] { return !refused().empty(); });
  EXPECT_THAT(refused(), HasSubstr("there is no such board"));
}

TEST_F(Pool, WhoWaitsTooLongIsToldSo) {
  slurm_.set_boards(1);
  make(2, 0.2);
  wait_until([&] { return held().size() == 1; });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_NO_THROW(pool_->check()) << "one place has a board";
  slurm_.set_boards(0);
  slurm_.end(1, "NODE_FAIL");
  slurm_.end(2, "NODE_FAIL");
  const auto said = [&] {
    try {
      pool_->check();
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  wait_until([&] { return !said().empty(); });
  EXPECT_THAT(said(), HasSubstr("--max-wait"));
}

TEST_F(Pool, ACompileHostIsAJobThatBuilds) {
  slurm_.set_boards(0);
  LeaseRequest request;
  request.cpus = 4;
  request.partition = "build";
  const auto no_session = [](const std::string&, const std::filesystem::path&) { return KeptSession(); };
  pool_ = std::make_unique<LeasePool>(slurm_, request, 1, no_session, bounds());
  wait_until([&] { return slurm_.jobs().size() == 1; });
  wait_until([&] { return pool_->words().starts_with("waiting for a compile host"); });
  const JobRequest asked = slurm_.last();
  EXPECT_EQ(asked.board_type, "");
  EXPECT_EQ(asked.cpus, 4);
  EXPECT_EQ(asked.partition, "build");
  EXPECT_THAT(asked.script, HasSubstr("exec gantry farm build;"));
  EXPECT_THAT(asked.script, HasSubstr("\nexec '" + own_command()[0] + "' farm build\n"));
  EXPECT_EQ(slurm_.keys().size(), 1u);
  slurm_.set_boards(1);
  wait_until([&] { return held().size() == 1; });
  EXPECT_THAT(held()[0].words, HasSubstr("holds compile host 10.0.0.1:7453"));
}

TEST_F(Pool, AJobOfAnInterpreterIsThatOneWithItsWords) {
  use_own_command({"/opt/it's/python3", "-m", "gantry"});
  slurm_.set_boards(0);
  make(1);
  wait_until([&] { return slurm_.jobs().size() == 1; });
  use_own_command({});
  EXPECT_THAT(slurm_.last().script, HasSubstr("\nexec '/opt/it'\\''s/python3' '-m' 'gantry' farm hold "));
}

TEST_F(Pool, AJobThatHasGotTheNumberOfItsOwnIsLeftAlone) {
  make(1);
  wait_until([&] { return held().size() == 1; });
  slurm_.give_to_another(1);
  const size_t looks = slurm_.looks();
  wait_until([&] { return slurm_.looks() > looks; });
  pool_.reset();
  EXPECT_EQ(slurm_.jobs()[0].state, "RUNNING");
}

TEST_F(Pool, LeavesNoJobBehind) {
  make(3);
  wait_until([&] { return held().size() == 2 && slurm_.jobs().size() == 3; });
  pool_.reset();
  for (const Job& job : slurm_.jobs()) EXPECT_EQ(job.phase, JobPhase::kEnded) << job.id;
}

}  // namespace
}  // namespace gantry::farm
