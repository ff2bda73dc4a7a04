// Stores whose file is made with the first records: none is left where there are none.
#include "host/records/late_store.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "host/support/error.h"
#include "host/support/temporary.h"
#include "tests/records/samples.h"

namespace gantry::records {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_record;
using testing::sample_work;

class LateStore : public ::testing::Test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    return names;
  }
  std::string error_of_opening(const std::string& place) const {
    try {
      open_late_store(place);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kUser ? error.what() : "of another kind";
    }
    return "";
  }

  TemporaryFolder folder_{"late-store-test"};
  std::string place_ = folder_.path() / "lab.db";
};

TEST_F(LateStore, LeavesNothingWhereNothingIsAdded) {
  const auto store = open_late_store(place_);
  EXPECT_EQ(store->place(), place_);
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(store->count({}), 0);
  EXPECT_THAT(store->of_work(sample_work()), IsEmpty());
  EXPECT_THAT(store->all_of_column("machine"), IsEmpty());
  EXPECT_FALSE(store->program_of(sample_work()));
  EXPECT_EQ(store->remove({}), 0);
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(LateStore, IsMadeWithTheFirstRecords) {
  open_late_store(place_)->add(std::vector{sample_record()});
  EXPECT_EQ(open_store(place_)->count({}), 1);
  EXPECT_THAT(files(), ElementsAre("lab.db"));
}

TEST_F(LateStore, IsMadeByNothingThatIsAdded) {
  open_late_store(place_)->add({});
  EXPECT_EQ(open_store(place_)->count({}), 0);
}

TEST_F(LateStore, IsNotMadeForWhatNoStoreTakes) {
  Record wrong = sample_record();
  wrong.key.work = "no digest";
  const auto store = open_late_store(place_);
  EXPECT_THROW(store->add(std::vector{wrong}), Error);
  EXPECT_THROW(store->add_again(std::vector{wrong}), Error);
  EXPECT_THROW(store->add_unknown({wrong}), Error);
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(LateStore, FindsWhatAnotherProgramHasMadeMeanwhile) {
  const auto first = open_late_store(place_), second = open_late_store(place_);
  first->add(std::vector{sample_record()});
  EXPECT_EQ(second->count({}), 1);
  second->add(std::vector{sample_record()});
  EXPECT_EQ(first->count({}), 2);
}

TEST_F(LateStore, OneThatIsThereIsOpenedAtOnce) {
  open_late_store(place_)->add(std::vector{sample_record()});
  EXPECT_EQ(open_late_store(place_)->count({}), 1);
  std::ofstream(folder_.path() / "text") << std::string(5000, 'x');
  EXPECT_THAT(error_of_opening(folder_.path() / "text"), HasSubstr("text: is no file of records"));
}

TEST_F(LateStore, PlacesWhereNoneCanBeMadeAreRefusedAtOnce) {
  EXPECT_THAT(error_of_opening(folder_.path() / "none" / "lab.db"), HasSubstr("there is no folder"));
  EXPECT_THAT(error_of_opening(folder_.path()), HasSubstr("is a folder"));
  EXPECT_THAT(error_of_opening(""), HasSubstr("name a file"));
  EXPECT_THAT(error_of_opening("mysql://lab/tuning"), HasSubstr("postgresql://"));
}

TEST_F(LateStore, ALinkIsFollowedToWhatIsNotThere) {
  fs::create_directory(folder_.path() / "disk");
  fs::create_symlink("disk/own.db", place_);
  const auto store = open_late_store(place_);
  EXPECT_TRUE(fs::is_empty(folder_.path() / "disk"));
  store->add(std::vector{sample_record()});
  EXPECT_TRUE(fs::is_symlink(place_));
  EXPECT_EQ(open_store(folder_.path() / "disk" / "own.db")->count({}), 1);
}

}  // namespace
}  // namespace gantry::records
