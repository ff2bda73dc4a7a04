// --json [FILE] of commands that print a table: the document in its place, or in a file beside it.
#pragma once

#include <functional>
#include <string>

#include "host/cli/outputs.h"

namespace CLI {
class App;
class Option;
}

namespace gantry::cli {

struct JsonOutput {
  const CLI::Option* option = nullptr;
  std::string file;

  /// Once the command line was read.
  bool asked() const;
  bool to_stdout() const { return asked() && (file.empty() || file == "-"); }
  bool to_file() const { return asked() && !to_stdout(); }
  void plan(OutputPlan& outputs, FileKind kind, bool force) const;
  /// Shows the document where it takes the table's place; the table elsewhere, if no output is stdout itself.
  void print(const OutputPlan& outputs, const std::string& document,
             const std::function<std::string()>& table) const;
  /// For what is no file nothing is done.
  void write(const std::string& document) const;
};

/// `what`: "result", as the help has it. The app must outlive the output's use.
void add_json_option(CLI::App& command, JsonOutput& output, const std::string& what);

}  // namespace gantry::cli
