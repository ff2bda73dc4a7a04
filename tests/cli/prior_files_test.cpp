// Where priors of cost models are found.
#include "host/cli/prior_files.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "host/codegen/find_target.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/support/temporary.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PriorFiles : public ::testing::Test {
 protected:
  void write(const char* folder, const char* family) {
    fs::create_directories(folder_.path() / folder);
    write_file(folder_.path() / folder / (std::string(family) + ".json"), tune::prior_text({family, {}}));
  }
  /// The family that is found; empty: none.
  std::string found(const char* target, const std::vector<std::string>& folders) {
    std::vector<fs::path> paths;
    for (const std::string& folder : folders) paths.push_back(folder_.path() / folder);
    warnings_.clear();
    const auto prior =
        find_prior(find_target(target), paths, [&](const std::string& text) { warnings_.push_back(text); });
    if (!prior) return "";
    EXPECT_EQ(prior->file.stem(), prior->prior.family);
    return prior->file.parent_path().filename().string() + "/" + prior->prior.family;
  }

  TemporaryFolder folder_{"test"};
  std::vector<std::string> warnings_;
};

TEST_F(PriorFiles, WithoutAnyNothingIsFoundOrSaid) {
  EXPECT_EQ(found("znver4", {"none", "more"}), "");
  fs::create_directories(folder_.path() / "none" / "znver4.json");
  EXPECT_EQ(found("znver4", {"none"}), "") << "a folder";
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(PriorFiles, ThatOfTheCpuComesBeforeThatOfItsArchitecture) {
  write("a", "x86_64");
  write("b", "znver4");
  write("b", "x86_64");
  EXPECT_EQ(found("znver4", {"a", "b"}), "b/znver4");
  EXPECT_EQ(found("znver3", {"a", "b"}), "a/x86_64");
  EXPECT_EQ(found("cortex-a76", {"a", "b"}), "");
}

TEST_F(PriorFiles, OneThatCannotBeReadIsSaidAndTheNextTaken) {
  write("a", "znver4");
  write("b", "znver4");
  write_file(folder_.path() / "a" / "znver4.json", "{");
  EXPECT_EQ(found("znver4", {"a", "b"}), "b/znver4");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("a/znver4.json: is no JSON")));
  EXPECT_THROW(read_prior(folder_.path() / "a" / "znver4.json"), Error);
  EXPECT_THROW(read_prior(folder_.path() / "a" / "other.json"), Error);
}

TEST_F(PriorFiles, OneOfAnotherFamilyIsSaidWithBoth) {
  const auto said = [&](const char* family, const char* target) {
    write("a", family);
    const fs::path file = folder_.path() / "a" / (std::string(family) + ".json");
    return foreign_prior_text(read_prior(file), find_target(target));
  };
  EXPECT_THAT(said("cortex-a76", "znver4"),
              HasSubstr("a/cortex-a76.json: is of cortex-a76, the target znver4 of znver4, x86_64;"));
  EXPECT_THAT(said("sm_90", "znver4"), HasSubstr("is of sm_90"));
  EXPECT_THAT(said("znver3", "znver4"), HasSubstr("is of znver3"));
  EXPECT_EQ(said("znver4", "znver4"), "");
  EXPECT_EQ(said("x86_64", "znver4"), "");
}

TEST_F(PriorFiles, LieBesideTheProgramAndInTheEnvironmentsFolder) {
  const auto folders = [&] {
    return prior_folders("/usr/bin", [&](const std::string& message) { warnings_.push_back(message); });
  };
  ::unsetenv("GANTRY_PRIORS");
  EXPECT_THAT(folders(), ElementsAre("/usr/share/gantry/priors"));
  ::setenv("GANTRY_PRIORS", folder_.path().c_str(), 1);
  EXPECT_THAT(folders(), ElementsAre(folder_.path(), "/usr/share/gantry/priors"));
  EXPECT_THAT(warnings_, IsEmpty());
  ::setenv("GANTRY_PRIORS", "/lab/priors", 1);
  EXPECT_THAT(folders(), ElementsAre("/usr/share/gantry/priors"));
  EXPECT_THAT(warnings_, ElementsAre("$GANTRY_PRIORS: there is no folder /lab/priors"));
  ::unsetenv("GANTRY_PRIORS");
}

}  // namespace
}  // namespace gantry::cli
