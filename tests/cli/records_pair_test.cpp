// Which of two programs is blamed where one of them ends without a result.
#include "host/cli/records_pair.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "host/support/shortage.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

/// A board that has memory for so many programs; the second needs as much as `needs` of them.
class Board {
 public:
  Board(int memory, int needs) : memory_(memory), needs_(needs) {}

  std::optional<std::string> crash() {
    return crash_of_second({.run_first = [&] { run(first_, 1); },
                            .run_second = [&] { run(second_, needs_); },
                            .end_first = [&] { first_ = 0; },
                            .end_second = [&] { second_ = 0; }});
  }
  /// What runs at last: of the first, and of the second program.
  std::vector<int> running() const { return {first_, second_}; }
  /// From the second's next run on.
  void shrinks_to(int memory) { later_ = memory; }

 private:
  void run(int& program, int needs) {
    if (&program == &second_ && later_) memory_ = *later_;
    program = 0;
    if (first_ + second_ + needs > memory_)
      throw rpc::Error(rpc::ErrorKind::kBoard, "the process was killed: the board ran out of memory");
    program = needs;
  }

  int memory_, needs_, first_ = 0, second_ = 0;
  std::optional<int> later_;
};

TEST(CrashOfSecond, ThereIsNoneWhereBothRun) {
  Board board(2, 1);
  EXPECT_FALSE(board.crash().has_value());
  EXPECT_THAT(board.running(), ElementsAre(1, 1));
}

TEST(CrashOfSecond, ThatFailsByItselfIsItsOwn) {
  Board board(2, 3);
  EXPECT_THAT(board.crash(), Optional(HasSubstr("out of memory")));
}

TEST(CrashOfSecond, WhereThereIsNoMemoryForTwoIsAShortage) {
  Board board(2, 2);
  EXPECT_THROW(board.crash(), Shortage);
}

TEST(CrashOfSecond, WhereThereIsNoMemoryForEitherIsAnErrorOfTheBoard) {
  Board board(2, 1);
  board.shrinks_to(0);
  EXPECT_THROW(board.crash(), rpc::Error);
}

}  // namespace
}  // namespace gantry::cli
