// Processes with limits, the document, its table, and what is made of a profile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>

#include "benchmarks/gpu/networks_section.h"
#include "tests/benchmarks/gpu_programs.h"

namespace gantry::gpu_bundle {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Command shell(const std::string& script, double limit = 30) {
  return {{"/bin/sh", "-c", script}, {}, Seconds(limit)};
}

TEST(Child, SaysHowItEnded) {
  const Outcome fine = run(shell("echo out; echo err >&2"));
  EXPECT_TRUE(fine.ok());
  EXPECT_EQ(fine.output, "out\n");
  EXPECT_EQ(fine.errors, "err\n");
  EXPECT_EQ(run(shell("echo because >&2; exit 3")).why(), "exit code 3: because");
  EXPECT_THAT(run(shell("kill -SEGV $$")).why(), HasSubstr("crashed: Segmentation fault"));
  EXPECT_EQ(run({{"/no/such/program"}, {}, Seconds(5)}).why(),
            "could not be started: No such file or directory");
}

TEST(Child, IsEndedWithAllThatItStartedWhenItsTimeIsOver) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // nobody else may reap what it leaves
  const Outcome outcome = run(shell("trap '' TERM; echo $$; sleep 300 & sleep 300", 0.3));
  EXPECT_EQ(outcome.end, Outcome::End::kTimedOut);
  const pid_t group = std::atoi(outcome.output.c_str());
  ASSERT_GT(group, 1);
  EXPECT_EQ(::kill(-group, 0), -1);
}

TEST(Child, OfWhichManyRunKeepTheirNumbers) {
  size_t next = 0;
  std::vector<std::string> said(20);
  run_many(
      4,
      [&](Command& command) {
        if (next == said.size()) return false;
        command = shell("echo " + std::to_string(next++));
        return true;
      },
      [&](size_t number, const Outcome& outcome) { said[number] = outcome.output; });
  for (size_t i = 0; i < said.size(); ++i) EXPECT_EQ(said[i], std::to_string(i) + "\n");
}

TEST(Child, OfMuchOutputKeepsBeginningAndEnd) {
  const Outcome outcome = run(shell("echo first; head -c 4000000 /dev/zero | tr '\\0' x; echo; echo last"));
  EXPECT_THAT(outcome.output.substr(0, 6), "first\n");
  EXPECT_THAT(outcome.output.substr(outcome.output.size() - 5), "last\n");
  EXPECT_LT(outcome.output.size(), 2u << 20);
}

Json bench_of_two_kernels() {
  return {{"kernels",
           {{{"symbol", "add_1"}, {"total_ms", 1.0}, {"flops", 1e6}, {"bytes", 1e9}, {"share", 0.2}},
            {{"symbol", "conv_0"}, {"total_ms", 4.0}, {"flops", 3e10}, {"bytes", 1e6}, {"share", 0.8}}}}};
}

TEST(SlowestKernels, HaveTheirShareOfTheRoofThatBindsThem) {
  const Json peaks = {{"bandwidth_gb_per_s", 2000.0}, {"fp16_gflop_per_s", 10000.0}};
  const Json kernels = slowest_kernels(bench_of_two_kernels(), peaks, "fp16");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0]["symbol"], "conv_0");
  EXPECT_EQ(kernels[0]["bound_by"], "arithmetic");
  EXPECT_DOUBLE_EQ(kernels[0]["of_roof"], 0.75);  // 3e10 operations take 3 ms at least
  EXPECT_EQ(kernels[1]["bound_by"], "memory");
  EXPECT_DOUBLE_EQ(kernels[1]["of_roof"], 0.5);  // a gigabyte takes half a millisecond
  EXPECT_EQ(slowest_kernels(bench_of_two_kernels(), peaks, "fp16", 1).size(), 1u);
}

TEST(SlowestKernels, HaveNoShareWithoutPeaks) {
  const Json kernels = slowest_kernels(bench_of_two_kernels(), Json(), "fp16");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_FALSE(kernels[0].contains("of_roof"));
}

class Table : public ::testing::Test {
 protected:
  testing::TemporaryDirectory folder_;
  Report report_{folder_.path() / "results", 60, {"run", "60"}};
};

TEST_F(Table, OfARunThatHasNotBegunSaysSoInEverySection) {
  report_.add_section("machine", "The machine", "not reached");
  report_.add_section("cases", "Conformance cases", "not reached");
  report_.add_section("tools", "Tools", "not selected");
  report_.write();
  const std::string table = contents(report_.folder() / "table.md");
  EXPECT_THAT(table, HasSubstr("| The machine | not reached: no time left |"));
  EXPECT_THAT(table, HasSubstr("| Conformance cases | not reached: no time left |"));
  EXPECT_THAT(table, HasSubstr("| Tools | not selected |"));
  EXPECT_EQ(Json::parse(contents(report_.folder() / "results.json"))["state"], "running");
}

TEST_F(Table, CountsCasesAndListsThoseThatDoNotPass) {
  report_.add_section("cases", "Conformance cases", "running");
  report_.set_steps("cases", 6);
  report_.row("cases", "a", {{"op", "Add"}, {"cuda", {{"result", "pass"}}}});
  report_.row("cases", "a", {{"cuda-emulated", {{"result", "pass"}}}});
  report_.row("cases", "b",
              {{"op", "Mul"}, {"cuda", {{"result", "failed to load"}, {"text", "log | of\nit"}}}});
  report_.write();
  const std::string table = markdown(report_.document());
  EXPECT_THAT(table, HasSubstr("running, or cut off here; 3 of 6 steps; not reached: no time left: 3"));
  EXPECT_THAT(table, HasSubstr("cuda: 1 failed to load, 1 pass; cuda-emulated: 1 pass"));
  EXPECT_THAT(table, HasSubstr("| b | Mul | failed to load |  | log \\| of it |"));
  EXPECT_THAT(table, Not(HasSubstr("| a | Add")));
}

TEST_F(Table, OfNetworksPutsPeersAndKernelsBesideThem) {
  report_.add_section("networks", "Networks", "done");
  report_.row("networks", "resnet50, batch 1, fp16",
              {{"network", "resnet50"},
               {"batch", 1},
               {"precision", "fp16"},
               {"result", "pass"},
               {"error", 3.2e-4},
               {"beside", "PyTorch"},
               {"median_ms", 1.5},
               {"memory_bytes", 120000000},
               {"kernels", slowest_kernels(bench_of_two_kernels(), Json(), "fp16")}});
  report_.row("networks", "resnet50, batch 1, fp16", {{"torch", {{"eager_ms", 4.0}, {"graph_ms", 2.0}}}});
  EXPECT_THAT(
      markdown(report_.document()),
      HasSubstr("| resnet50 | 1 | fp16 | pass | 3.2e-04 | PyTorch | 1.500 | 120 | 4.000 | 2.000 |  |  |"));
  EXPECT_THAT(markdown(report_.document()), HasSubstr("| conv_0 |"));
}

}  // namespace
}  // namespace gantry::gpu_bundle
