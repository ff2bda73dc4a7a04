#include "host/cli/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace gantry::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

rpc::KernelTiming timing(const char* symbol, const char* op, const char* ops, const char* nodes, double ms,
                         uint32_t step) {
  return {ops, nodes, 1, ms, ms * 1e8, ms * 1e6, symbol, step, op};
}

std::vector<rpc::KernelTiming> profile() {
  return {timing("conv_relu_1", "nn.conv", "nn.conv[winograd4]+nn.relu", "Conv_0, Relu_1", 3.33333, 0),
          timing("max_pool_1", "nn.max_pool", "nn.max_pool", "MaxPool_2", 0.44446, 1),
          timing("conv_relu_1", "nn.conv", "nn.conv[winograd4]+nn.relu", "Conv_3, Relu_4", 2.22225, 2),
          timing("lstm_1", "nn.lstm", "nn.lstm", "LSTM_5", 0.55556, 3),
          timing("lstm_2", "nn.lstm", "nn.lstm", "LSTM_5", 0.66664, 4),
          timing("", "", "copy", "", 0.00004, 5)};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The column of a row that has the time, as it stands there.
double time_of(const std::string& line, bool has_steps) {
  std::istringstream stream(line);
  std::string word;
  if (has_steps) stream >> word;
  stream >> word;
  return std::stod(word);
}

/// Rows between the line of headings and the total, and the total.
struct Times {
  std::vector<double> rows;
  double total = 0;
};
Times times_of(const std::string& table) {
  Times times;
  const auto lines = lines_of(table);
  for (size_t i = 3; i < lines.size(); ++i) {
    const bool is_total = lines[i].find("total: ") != std::string::npos;
    const bool is_others = lines[i].find("others: ") != std::string::npos;
    const double time = time_of(lines[i], !is_total && !is_others);
    if (is_total) {
      times.total = time;
      return times;
    }
    times.rows.push_back(time);
  }
  ADD_FAILURE() << "no total in\n" << table;
  return times;
}

TEST(KernelTable, RowsAsTheyArePrintedAddUpToTheTotal) {
  for (size_t top : {0, 1, 2, 4, 100}) {
    for (auto by : {ProfileRows::kStep, ProfileRows::kKernel, ProfileRows::kType, ProfileRows::kNode}) {
      const Times times = times_of(kernel_table(profile(), {.by = by, .top = top}));
      double sum = 0;
      for (double time : times.rows) sum += time;
      EXPECT_NEAR(sum, times.total, 1e-9) << top;
      EXPECT_NEAR(times.total, 7.2223, 3e-4);
    }
  }
}

TEST(KernelTable, WorstStandFirstWithTheirPlaceInThePlan) {
  const auto lines = lines_of(kernel_table(profile(), {}));
  EXPECT_THAT(lines[3], HasSubstr("#0"));
  EXPECT_THAT(lines[3], ::testing::ContainsRegex("conv_relu_1 +winograd4  Conv_0, Relu_1"));
  EXPECT_THAT(lines[4], HasSubstr("#2"));
  EXPECT_THAT(lines[4], HasSubstr("76.9 %"));  // of the first two
  EXPECT_THAT(lines[8], HasSubstr("copy"));
  EXPECT_THAT(lines[9], HasSubstr("total: 6 steps"));
}

TEST(KernelTable, OthersAreOneRow) {
  const std::string table = kernel_table(profile(), {.top = 2});
  EXPECT_EQ(times_of(table).rows.size(), 3u);
  EXPECT_THAT(table, HasSubstr("others: 4 steps"));
  EXPECT_THAT(table, Not(HasSubstr("max_pool_1")));
}

TEST(KernelTable, TypesAreSummed) {
  const Times times = times_of(kernel_table(profile(), {.by = ProfileRows::kType}));
  ASSERT_EQ(times.rows.size(), 4u);
  EXPECT_NEAR(times.rows[0], 5.5556, 2e-4);
  EXPECT_NEAR(times.rows[1], 1.2222, 2e-4);
  EXPECT_THAT(kernel_table(profile(), {.by = ProfileRows::kType}), HasSubstr("nn.conv\n"));
}

TEST(KernelTable, StepsOfOneKernelAreOneRowByKernel) {
  const auto lines = lines_of(kernel_table(profile(), {.by = ProfileRows::kKernel}));
  EXPECT_THAT(lines[3], ::testing::ContainsRegex("conv_relu_1 +winograd4  Conv_0, Relu_1; Conv_3, Relu_4"));
  EXPECT_THAT(lines[3], HasSubstr("2 "));
}

TEST(KernelTable, KernelsOfOneNodeAreOneRowByNode) {
  const std::string table = kernel_table(profile(), {.by = ProfileRows::kNode});
  EXPECT_EQ(times_of(table).rows.size(), 5u);
  EXPECT_NEAR(times_of(table).rows[2], 1.2222, 2e-4);
}

TEST(KernelTable, SaysWhatTheKernelsAreOfAWholeRun) {
  EXPECT_THAT(
      kernel_table(profile(), {.run_ms = 8}),
      HasSubstr("Kernels take 7.2223 ms of 8.0000 ms a run; the rest, 0.7777 ms, is between kernels."));
  EXPECT_THAT(kernel_table(profile(), {.run_ms = 20}),
              HasSubstr("is between kernels, or whole runs were held up where kernels were not."));
  EXPECT_THAT(kernel_table(profile(), {.run_ms = 7}),
              HasSubstr("more than a whole run without clocks: 7.0000 ms"));
  EXPECT_THAT(kernel_table(profile(), {}), Not(HasSubstr("a run")));
}

TEST(KernelTable, OlderBoardsNameNeitherKernelsNorTypes) {
  const std::vector<rpc::KernelTiming> kernels{timing("", "", "nn.conv[tiles, 2 parts]+add", "Conv_0", 2, 0),
                                               timing("", "", "add", "Add_1", 1, 1)};
  EXPECT_THAT(kernel_table(kernels, {}), HasSubstr("nn.conv[tiles, 2 parts]+add"));
  EXPECT_THAT(kernel_table(kernels, {.by = ProfileRows::kType}), HasSubstr("nn.conv\n"));
}

TEST(KernelTable, ShortAndEmptyProfilesHaveUnitsToo) {
  EXPECT_THAT(kernel_table({timing("add_1", "add", "add", "", 2e-5, 0)}, {}), HasSubstr("time, ns"));
  EXPECT_THAT(kernel_table({timing("add_1", "add", "add", "", 2e-2, 0)}, {}), HasSubstr("time, us"));
  EXPECT_THAT(kernel_table({timing("add_1", "add", "add", "", 2e4, 0)}, {}), HasSubstr("time, s"));
  EXPECT_THAT(kernel_table({timing("add_1", "add", "add", "", 0, 0)}, {}), HasSubstr("0.0 %"));
}

TEST(KernelTable, RowsAreNamedInWords) {
  EXPECT_EQ(find_profile_rows("type"), ProfileRows::kType);
  EXPECT_EQ(find_profile_rows("types"), std::nullopt);
}

TEST(KernelTable, ShowsHowNearTheRoofsKernelsCome) {
  KernelTableOptions options;
  EXPECT_THAT(kernel_table(profile(), options), Not(HasSubstr("of roof")));
  // Every kernel does 100 GFLOP/s and moves 1 GB/s.
  options.peaks = MachinePeaks{400, 100, 2, ""};
  const std::string bound_by_products = kernel_table(profile(), options);
  EXPECT_THAT(bound_by_products, HasSubstr("of roof"));
  EXPECT_THAT(bound_by_products, HasSubstr("25 %"));
  EXPECT_THAT(bound_by_products, HasSubstr("400.0 GFLOP/s, 100.0 GB/s"));
  options.peaks = MachinePeaks{400, 2, 2, ""};
  options.by = ProfileRows::kType;
  EXPECT_THAT(kernel_table(profile(), options), HasSubstr("50 %")) << "memory is the nearer roof";
}

TEST(KernelTable, SaysThatTheRoofsAreThoseOfABusyMachine) {
  KernelTableOptions options;
  options.peaks = MachinePeaks{400, 100, 2, ""};
  EXPECT_THAT(kernel_table(profile(), options), Not(HasSubstr("too low")));
  options.peaks->others_share = 0.63;
  EXPECT_THAT(
      kernel_table(profile(), options),
      HasSubstr("The roofs are too low: meanwhile other processes took 63 % of the machine's CPU time.\n"));
}

TEST(MachinePeaks, AreSaidToBeTooLowWhereOthersUsedTheMachine) {
  MachinePeaks peaks{400, 100, 2, "how"};
  EXPECT_EQ(peaks_warning(peaks), "") << "nothing is known";
  EXPECT_TRUE(peaks_json(peaks)["busy"].is_null());
  EXPECT_TRUE(peaks_json(peaks)["others_share"].is_null());
  peaks.others_share = 0.04;
  peaks.steal_share = 0.05;
  peaks.disturbed_share = 0.4;
  EXPECT_EQ(peaks_warning(peaks), "") << "little, and the fastest run was not disturbed";
  EXPECT_TRUE(peaks_json(peaks)["busy"].is_null());
  EXPECT_EQ(peaks_json(peaks)["disturbed_share"], 0.4);
  peaks.others_share = 0.4;
  peaks.steal_share = 0.2;
  peaks.disturbed_share = 0.9;
  const std::string warning = peaks_warning(peaks);
  for (const char* part : {"the roofs are too low: other processes took 40 %", "the hypervisor took 20 %",
                           "used its cores for 90 % of the time", "measure again"})
    EXPECT_THAT(warning, HasSubstr(part));
  EXPECT_EQ(peaks_json(peaks)["busy"], busy_text(peaks));
}

TEST(MachinePeaks, AllowTheTimeOfTheNearerRoof) {
  const MachinePeaks peaks{100, 10, 2, ""};
  EXPECT_DOUBLE_EQ(least_ms(peaks, 1e9, 0), 10);
  EXPECT_DOUBLE_EQ(least_ms(peaks, 1e9, 2e8), 20);
  EXPECT_DOUBLE_EQ(least_ms(peaks, 0, 1e7), 1) << "what only moves bytes has one roof";
}

}  // namespace
}  // namespace gantry::cli
