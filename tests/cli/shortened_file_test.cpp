// Mapped files that are made shorter while they are read: an error that names them, not a crash.
#include "host/support/shortened_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "host/support/mapped_file.h"
#include "host/support/temporary.h"

namespace gantry {
namespace {

namespace fs = std::filesystem;

class ShortenedFile : public ::testing::Test {
 protected:
  ShortenedFile() {
    fs::create_directories(folder_);
    std::ofstream(path_, std::ios::binary) << std::string(size_t{1} << 20, 'w');
  }
  ~ShortenedFile() override { fs::remove_all(folder_); }

  /// Reads what the file has no more. What it makes elsewhere, it puts into `inner`.
  void read_on() const {
    report_shortened_files();
    const TemporaryFolder inner("shortened");
    std::ofstream(folder_ / "inner") << inner.path().string();
    const MappedFile file(path_);
    fs::resize_file(path_, 5000);
    const int sum = std::accumulate(file.data(), file.data() + file.size(), 0);
    std::ofstream(folder_ / "sum") << sum;
  }

  // Not a temporary one, which goes with whoever ends: the test looks into it afterwards.
  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("gantry-shortened-file-" + std::to_string(::getpid()));
  const fs::path path_ = folder_ / "w.data";
};
using ShortenedFileDeathTest = ShortenedFile;

TEST_F(ShortenedFileDeathTest, IsAnErrorThatNamesIt) {
  EXPECT_EXIT(read_on(), ::testing::ExitedWithCode(1),
              "gantry: error: .*/w\\.data: the file has become shorter while gantry was reading it");
  EXPECT_FALSE(fs::exists(folder_ / "sum"));
  std::string inner;
  ASSERT_TRUE(std::getline(std::ifstream(folder_ / "inner"), inner));
  EXPECT_FALSE(fs::exists(inner)) << "temporary folders go";
}

TEST_F(ShortenedFileDeathTest, IsNotBlamedForOtherBusErrors) {
  const auto other = [] {
    report_shortened_files();
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(other(), ::testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace gantry
