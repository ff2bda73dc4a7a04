// What --help and `gantry help` print.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

namespace gantry::cli {

/// Lays help out for the terminal that it goes to: wrapped to its width, headings bold. Elsewhere lines are
/// as long as they need.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }
  /// stdout or stderr: where the next help goes to.
  void print_to(std::FILE* stream) { stream_ = stream; }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;

 private:
  size_t width() const;
  std::string heading(const std::string& text) const;
  std::string entry(const std::string& name, const std::string& description) const;
  std::string footer_line(const std::string& line) const;

  std::FILE* stream_ = stdout;
};

/// Commands of an app that are shown: all but those of the group "".
std::vector<const CLI::App*> shown_commands(const CLI::App& app);
/// The command of that path ("boards", "add"). User error, with the nearest names, if there is none.
const CLI::App& find_command(const CLI::App& app, const std::vector<std::string>& path);
/// "gantry boards add"
std::string full_name(const CLI::App& command);

}  // namespace gantry::cli
