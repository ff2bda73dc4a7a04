// Strings through the program: graph text, NumPy's files and ONNX's in and out, what is printed, references.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "host/cli/npy.h"
#include "host/compiler/string_tensors.h"
#include "tests/cli/gantry_process.h"

namespace gantry::cli {
namespace {

using gantry::testing::GantryFolders;
using gantry::testing::Outcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Each text with a mark behind it, and how many words it has.
constexpr const char* kMarking =
    R"(fn @main(%x: Tensor[(N), string]) -> (Tensor[(N), string], Tensor[(N), i64]) {
  %0 = text.concat(%x, const(string, [], ["!\""]))
  %1, %2 = text.split_counts(%x)
  return %0 as "marked", %1 as "words"
}
)";

class Strings : public ::testing::Test {
 protected:
  void SetUp() override {
    folders_.write("m.gir", kMarking);
    write("x.npy", {"a b", "", "日\n"});
  }
  void write(const std::string& name, const std::vector<std::string_view>& texts) const {
    HostTensor tensor{
        *parse_type_name("string"), {static_cast<int64_t>(texts.size())}, packed_strings(texts)};
    write_npy(folders_.path(name), tensor);
  }
  Outcome run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"run", "m.gir", "--input", "x.npy"});
    return folders_.run(arguments);
  }
  std::vector<std::string> texts(const std::string& name) const {
    const HostTensor tensor = read_npy(folders_.path(name));
    std::vector<std::string> result;
    for (const std::string_view text : texts_of(tensor)) result.emplace_back(text);
    return result;
  }

  GantryFolders folders_;
};

TEST_F(Strings, GoInAndComeOutAndArePrintedSafely) {
  const Outcome outcome = run({"--output", "marked=y.npy"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(texts("y.npy"), ElementsAre("a b!\"", "!\"", "日\n!\""));
  EXPECT_THAT(outcome.out, HasSubstr("marked: string 3"));
  EXPECT_THAT(outcome.out, HasSubstr("\"a b!\"\", \"!\"\""));
  EXPECT_THAT(outcome.out, HasSubstr("min 0, max 2"));
}

TEST_F(Strings, AreJsonsStrings) {
  const Outcome outcome = run({"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["outputs"][0]["dtype"], "string");
  EXPECT_EQ(json["outputs"][0]["first"], nlohmann::json({"a b!\"", "!\"", "日\n!\""}));
}

TEST_F(Strings, TravelInOnnxsFilesAndArchivesToo) {
  ASSERT_EQ(run({"--output", "marked=y.pb"}).code, 0);
  const Outcome again = folders_.run({"run", "m.gir", "--input", "y.pb", "--output", "all.npz"});
  ASSERT_EQ(again.code, 0) << again.err;
  const Outcome agrees = folders_.run({"run", "m.gir", "--input", "y.pb", "--expect", "all.npz"});
  EXPECT_EQ(agrees.code, 0) << agrees.err;
}

TEST_F(Strings, ReferencesAreEqualOrNot) {
  write("same.npy", {"a b!\"", "!\"", "日\n!\""});
  write("other.npy", {"a b!\"", "?\"", "日\n!\""});
  EXPECT_EQ(run({"--expect", "marked=same.npy"}).code, 0);
  const Outcome outcome = run({"--expect", "marked=other.npy"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("DIFFERS from other.npy"));
}

TEST_F(Strings, AreMadeUpAndAreNoNumbers) {
  EXPECT_EQ(folders_.run({"run", "m.gir", "--random", "--shape", "x=4"}).code, 0);
  folders_.write(
      "f.gir", "fn @main(%x: Tensor[(3), f32]) -> Tensor[(3), f32] {\n  %0 = nn.relu(%x)\n  return %0\n}\n");
  const Outcome outcome = folders_.run({"run", "f.gir", "--input", "x.npy"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("string"));
}

TEST_F(Strings, StayWhatTheyAreInCompiledModulesAndBenchmarks) {
  ASSERT_EQ(folders_.run({"compile", "m.gir", "-o", "m.gmod"}).code, 0);
  const Outcome outcome = folders_.run({"run", "m.gmod", "--input", "x.npy", "--output", "marked=y.npy"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(texts("y.npy"), ElementsAre("a b!\"", "!\"", "日\n!\""));
  EXPECT_EQ(folders_.run({"bench", "m.gmod", "--input", "x.npy", "--repeat", "2"}).code, 0);
  const Outcome inspected = folders_.run({"inspect", "m.gmod", "--steps"});
  EXPECT_THAT(inspected.out, HasSubstr("text.concat"));
}

}  // namespace
}  // namespace gantry::cli
