#include "host/cli/json_output.h"

#include <CLI/CLI.hpp>

#include "host/cli/invocation.h"
#include "host/support/output_file.h"

namespace gantry::cli {

bool JsonOutput::asked() const {
  return option != nullptr && option->count() > 0;
}

void JsonOutput::plan(OutputPlan& outputs, FileKind kind, bool force) const {
  if (to_file()) outputs.writes(file, kind, "--json", force);
  if (to_stdout()) outputs.reports("--json");
}

void JsonOutput::print(const OutputPlan& outputs, const std::string& document,
                       const std::function<std::string()>& table) const {
  if (to_stdout()) {
    print_out(document);
  } else {
    print_about(outputs, table());
  }
}

void JsonOutput::write(const std::string& document) const {
  if (to_file()) write_file(file, document);
}

void add_json_option(CLI::App& command, JsonOutput& output, const std::string& what) {
  output.option =
      command
          .add_option("--json", output.file,
                      "Write the " + what + " as JSON; without FILE or with '-': to stdout, instead of the table")
          ->type_name("[FILE]")
          ->expected(0, 1);
}

}  // namespace gantry::cli
