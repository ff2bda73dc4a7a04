// What sessions know of what others do on a board.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "rpc/server/board_activity.h"
#include "rpc/server/board_memory.h"
#include "rpc/server/child_process.h"

namespace gantry::rpc {
namespace {

using ::testing::IsEmpty;
constexpr auto kRun = static_cast<std::size_t>(Activity::kRun),
               kLoad = static_cast<std::size_t>(Activity::kLoad);

void rest(int ms) {
  ::usleep(static_cast<useconds_t>(ms) * 1000);
}

TEST(BoardActivity, CountsWhatOthersDidSinceTheMarkAndNotWhatOneDidOneself) {
  BoardActivity board;
  board.open(0, "alice", "10.0.0.1");
  board.open(1, "bob", "10.0.0.2");
  { const Doing before(&board, 1, Activity::kRun); }
  const BoardActivity::Mark mark = board.mark();
  {
    const Doing own(&board, 0, Activity::kRun);
    for (int i = 0; i < 3; ++i) {
      const Doing other(&board, 1, Activity::kRun);
      rest(10);
    }
  }
  const auto others = board.since(mark, 0);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].key, "bob");
  EXPECT_EQ(others[0].address, "10.0.0.2");
  EXPECT_EQ(others[0].amounts[kRun].count, 3u);
  EXPECT_GE(others[0].amounts[kRun].ms, 30);
  EXPECT_EQ(others[0].amounts[kLoad].count, 0u);
}

TEST(BoardActivity, CountsThePartOfWhatWasUnderWay) {
  BoardActivity board;
  board.open(1, "bob", "10.0.0.2");
  board.begin(1, Activity::kLoad);
  rest(50);
  const BoardActivity::Mark mark = board.mark();
  rest(10);
  const auto others = board.since(mark, 0);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].amounts[kLoad].count, 1u);
  EXPECT_GE(others[0].amounts[kLoad].ms, 10);
  EXPECT_LT(others[0].amounts[kLoad].ms, 50 + 10) << "not what was before";
}

TEST(BoardActivity, RemembersSessionsThatCameAndWentMeanwhile) {
  BoardMemory memory(1 << 20);
  BoardActivity board;
  const auto own = memory.take_slot();
  board.open(*own, "alice", "10.0.0.1");
  const BoardActivity::Mark mark = board.mark();
  for (int i = 0; i < 5; ++i) {
    const auto slot = memory.take_slot();
    // A process of its own, which is killed in the middle.
    ChildProcess child(::fork());
    if (!child.running()) {
      board.open(*slot, "visitor" + std::to_string(i), "10.0.0.3");
      board.begin(*slot, Activity::kRun);
      ::usleep(2000);
      ::_exit(0);
    }
    child.wait();
    board.close(*slot);
    memory.free_slot(*slot);
  }
  const auto others = board.since(mark, *own);
  EXPECT_EQ(others.size(), 5u);
  const BoardActivity::Mark later = board.mark();
  rest(2);
  EXPECT_THAT(board.since(later, *own), IsEmpty()) << "the dead do nothing any more";
}

}  // namespace
}  // namespace gantry::rpc
