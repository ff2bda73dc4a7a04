#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "host/cli/commands.h"
#include "host/cli/report/page.h"
#include "host/cli/report/report_data.h"
#include "host/cli/text.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry profile resnet18.onnx --json today.json
  gantry report today.json -o report.html            open it in any browser, or send it to somebody
  gantry report yesterday.json today.json -o changes.html
                                                     also what has changed, kernel by kernel
  gantry compare old.gmod new.gmod --json turns.json
  gantry report turns.json -o turns.html             the verdict, every round, both sides over time
The page is one file that needs no network: samples over time, what every kernel costs, roofline, timeline, memory map,
and the graph. Each part is there where the result has its data; `gantry profile --json` (bench --profile) gives the most.
`gantry inspect FILE --html PAGE` makes one of a model or module that has not run.)";

struct Options {
  std::vector<std::string> results;
  std::string output;
  bool force = false;
};

std::filesystem::path output_path(const Options& options) {
  if (!options.output.empty()) return options.output;
  return std::filesystem::path(options.results[0]).filename().replace_extension(".html");
}

int report(const Options& options, const Invocation& invocation) {
  for (const std::string& result : options.results) invocation.outputs->reads(result, "the result");
  const std::filesystem::path path = output_path(options);
  invocation.outputs->writes(path, FileKind::kReport, options.output.empty() ? "" : "-o", options.force);
  const std::string page = report_page(report_data(options.results, GANTRY_VERSION));
  write_file(path, page);
  if (!invocation.quiet)
    print_about(*invocation.outputs,
                fmt::format("{}: {}\n", path.string(), bytes_text(static_cast<double>(page.size()))));
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("report", "Results of bench or compare --json as a page for the browser");
  command
      ->add_option("RESULT", options->results,
                   "A result of bench --json or profile --json; of several, also the differences; or one "
                   "document of compare --json")
      ->required()
      ->type_name("RESULT.json");
  command->add_option("-o,--output", options->output, "The page to write; default RESULT.html")
      ->type_name("FILE.html");
  add_force_option(*command, options->force);
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return report(*options, invocation); };
  });
}

}  // namespace gantry::cli
