// Keys of leases in a board's key folder.
#include "host/farm/lease_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "host/support/temporary.h"

namespace gantry::farm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LeaseKeys : public ::testing::Test {
 protected:
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder()))
      names.insert(entry.path().filename().string());
    return names;
  }

 private:
  TemporaryFolder folder_{"lease-keys-test"};
};

TEST_F(LeaseKeys, LieThereWhileTheLeaseLives) {
  const rpc::PskKey key = rpc::generate_key("one");
  {
    const InstalledKey installed(folder(), key);
    EXPECT_THAT(names(), ElementsAre("lease-one.key"));
    const rpc::PskKey read = rpc::read_key_file(folder() / "lease-one.key");
    EXPECT_EQ(read.identity, "one");
    EXPECT_EQ(read.secret, key.secret);
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(LeaseKeys, ThatCannotBePutThereLeaveNothing) {
  std::filesystem::create_directories(folder() / "lease-one.key" / "full");
  EXPECT_ANY_THROW(InstalledKey(folder(), rpc::generate_key("one")));
  EXPECT_THAT(names(), ElementsAre("lease-one.key")) << "the folder that was in the way, and no secret";
}

TEST_F(LeaseKeys, OfTheDeadAreRemovedWholeOrHalfWritten) {
  for (const char* name :
       {"lease-a.key", ".lease-b.key", ".lease-c.key.partial.7-0000002a", "anna.key", ".hidden.key"})
    std::ofstream(folder() / name) << "text";
  remove_stale_keys(folder());
  EXPECT_THAT(names(), ElementsAre(".hidden.key", "anna.key"));
  remove_stale_keys(folder() / "absent");
}

}  // namespace
}  // namespace gantry::farm
