#include "host/cli/report/report_data.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/cli/compare_report.h"
#include "host/cli/report_summary.h"
#include "tests/cli/sample_report.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Three processes whose cores gave one and the same all the time, so that by itself nothing is disturbed.
std::string evenly_measured(const std::string& name, double ms, double pulse) {
  BenchReport report =
      testing::sample_report(std::vector<std::vector<double>>(3, std::vector<double>(8, ms)));
  for (ProcessMeasurement& process : report.measurement.processes)
    testing::set_pulses(process, std::vector<double>(9, pulse));
  leave_out_disturbed(report.measurement, pulse);
  const auto path = std::filesystem::path(::testing::TempDir()) / name;
  std::ofstream(path) << report_to_json(report);
  return path.string();
}

TEST(ReportData, TwoResultsOfOneMachineAreJudgedAsCompareJudgesThem) {
  const std::vector<std::string> files = {evenly_measured("loud.json", 3, 1.9),
                                          evenly_measured("quiet.json", 2, 1.4)};
  const Json data = report_data(files, "0.1.0");
  const auto [loud, quiet] = read_reports(files[0], files[1]);
  ASSERT_TRUE(loud.uses_disturbed);
  const Comparability both = comparability(loud, quiet);
  const Comparison expected = compare_processes(loud.processes, quiet.processes, {}, both.extra_spread);
  const Json& shown = data["comparisons"][0]["comparison"];
  EXPECT_EQ(shown["warnings"].get<std::vector<std::string>>(), both.warnings);
  EXPECT_DOUBLE_EQ(shown["ratio"], expected.ratio);
  EXPECT_DOUBLE_EQ(shown["interval"][0], expected.low);
  EXPECT_DOUBLE_EQ(shown["interval"][1], expected.high);
  EXPECT_EQ(data["results"].size(), 2u);
}

}  // namespace
}  // namespace gantry::cli
