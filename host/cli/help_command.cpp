#include "host/cli/commands.h"
#include "host/cli/help.h"

namespace gantry::cli {
namespace {

int show_help(const CLI::App& app, const std::vector<std::string>& path) {
  const CLI::App& command = find_command(app, path);
  const auto formatter = command.get_formatter();
  print_out(formatter->make_help(&command, full_name(command), CLI::AppFormatMode::Normal));
  return 0;
}

}  // namespace

void add_help_command(CLI::App& app, Invocation& invocation) {
  auto path = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("help", "Explain a command, as its --help does");
  command->add_option("COMMAND", *path, "The command, and its subcommand; none: all of them")
      ->option_text("...");
  command->footer("Examples:\n  gantry help\n  gantry help bench\n  gantry help boards add");
  command->callback(
      [&app, path, &invocation] { invocation.action = [&app, path] { return show_help(app, *path); }; });
}

}  // namespace gantry::cli
