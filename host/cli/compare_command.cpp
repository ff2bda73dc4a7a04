#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "host/cli/bench_report.h"
#include "host/cli/commands.h"
#include "host/cli/statistics/comparison.h"
#include "host/cli/text.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry bench resnet18.onnx --json before.json
  gantry bench resnet18.onnx --json after.json
  gantry compare before.json after.json
The ratio is that of the medians, the second over the first, with a 95 % confidence interval. Each result comes
from one process, and processes of one program differ: by 2 % is assumed. The verdict is about the second: faster
or slower only where the interval excludes 1, the same where all of it lies within 1 % of 1.)";

struct Options {
  std::string base, other;
  bool json = false;
};

nlohmann::ordered_json side_json(const ReportSummary& report, double median) {
  return {{"file", report.path.string()}, {"median_ms", median},   {"samples", report.samples_ms.size()},
          {"model", report.model},        {"board", report.board}, {"target", report.target},
          {"threads", report.threads}};
}

std::string comparison_json(const ReportSummary& base, const ReportSummary& other, const Comparison& c,
                            const std::vector<std::string>& warnings) {
  nlohmann::ordered_json json;
  json["first"] = side_json(base, c.base_median_ms);
  json["second"] = side_json(other, c.other_median_ms);
  json["ratio"] = c.ratio;
  json["confidence"] = 0.95;
  json["interval"] = {c.low, c.high};
  json["verdict"] = std::string(verdict_name(c.verdict));
  json["warnings"] = warnings;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string comparison_text(const ReportSummary& base, const ReportSummary& other, const Comparison& c) {
  using Align = Table::Align;
  Table table({{"", Align::kLeft},
               {"median", Align::kRight},
               {"samples", Align::kRight},
               {"model", Align::kLeft},
               {"on", Align::kLeft}});
  for (const auto& [report, median] :
       {std::pair{&base, c.base_median_ms}, std::pair{&other, c.other_median_ms}}) {
    table.row({report->path.string(), duration_text(median), std::to_string(report->samples_ms.size()),
               report->model,
               fmt::format("{}, {}, {} thread{}", report->board, report->target, report->threads,
                           report->threads == 1 ? "" : "s")});
  }
  std::string verdict;
  switch (c.verdict) {
    case Verdict::kFaster:
      verdict = fmt::format("faster: {:.4g} times as fast", 1 / c.ratio);
      break;
    case Verdict::kSlower:
      verdict = fmt::format("slower: takes {:.4g} times as long", c.ratio);
      break;
    case Verdict::kSame:
      verdict = "the same within 1 %";
      break;
    case Verdict::kNotShown:
      verdict = "not shown to differ";
      break;
  }
  return table.str() + fmt::format("\nratio {:.5g}, 95 % confidence {:.5g} to {:.5g}: the second is {}\n",
                                   c.ratio, c.low, c.high, verdict);
}

int compare(const Options& options, const Invocation& invocation) {
  const ReportSummary base = read_report(options.base), other = read_report(options.other);
  const Comparison comparison = compare_processes(std::array{ProcessSamples{base.samples_ms}},
                                                  std::array{ProcessSamples{other.samples_ms}});
  const std::vector<std::string> warnings = comparability_warnings(base, other);
  print_out(options.json ? comparison_json(base, other, comparison, warnings)
                         : comparison_text(base, other, comparison));
  for (const std::string& warning : warnings) invocation.warn(warning);
  return 0;
}

}  // namespace

void add_compare_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("compare", "Compare two results of bench --json");
  command->add_option("A", options->base, "The first result")->type_name("A.json")->required();
  command->add_option("B", options->other, "The second result")->type_name("B.json")->required();
  command->add_flag("--json", options->json, "Report as JSON on stdout");
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return compare(*options, invocation); };
  });
}

}  // namespace gantry::cli
