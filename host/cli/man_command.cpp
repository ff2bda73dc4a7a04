// The manual page, from the commands' own help.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "host/cli/commands.h"
#include "host/cli/help.h"
#include "rpc/visible_text.h"

namespace gantry::cli {
namespace {

constexpr const char* kEnd = R"(.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
the request or its input is wrong
.TP
.B 2
the board or the network failed
.TP
.B 3
a bug in gantry; please report it
.TP
.B 4
.BR "gantry compare \-\-fail\-if\-slower" :
the second is slower
.SH ENVIRONMENT
.TP
.B GANTRY_CACHE_DIR
folder of compiled kernels, and of what cores showed when nobody else used them (core\-pulses.json); else
$XDG_CACHE_HOME/gantry or ~/.cache/gantry
.TP
.B GANTRY_PTXAS
NVIDIA's assembler, or \(lqnone\(rq; else it is looked for in PATH, CUDA_HOME, CUDA_PATH and /usr/local/cuda
.TP
.B XDG_CONFIG_HOME
its folder gantry holds the names of boards; else ~/.config
.TP
.B NO_COLOR, CLICOLOR, CLICOLOR_FORCE
no colours, no colours if 0, colours everywhere; \-\-color wins
.TP
.B COLUMNS
width to lay out for where the output is a terminal
.SH FILES
.TP
.I ~/.config/gantry/boards.toml
the boards that have names
.SH SEE ALSO
.BR gantry\-device (1)
)";

/// Text of a line for troff: its own characters escaped, others than ASCII by number.
std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const rpc::CodePoint point = rpc::first_code_point(text);
    if (point.value >= 0x80) {
      out += fmt::format("\\[u{:04X}]", static_cast<uint32_t>(point.value));
    } else if (point.value == '\\') {
      out += "\\e";
    } else if (point.value == '-') {
      out += "\\-";
    } else if (point.value == '\'') {
      out += "\\(aq";
    } else if (point.value == '`') {
      out += "\\(ga";
    } else {
      out += text.substr(0, point.bytes);
    }
    text.remove_prefix(point.bytes);
  }
  // What starts with a dot would be a request.
  return out.starts_with(".") ? "\\&" + out : out;
}

/// "\fB\-i\fR, \fB\-\-input\fR \fI[NAME=]FILE.npy\fR"
std::string option_term(const CLI::Option& option) {
  std::string term;
  for (const std::string& name : option.get_snames())
    term += (term.empty() ? "" : ", ") + ("\\fB" + escaped("-" + name) + "\\fR");
  for (const std::string& name : option.get_lnames())
    term += (term.empty() ? "" : ", ") + ("\\fB" + escaped("--" + name) + "\\fR");
  const std::string type = option.get_type_name();
  const bool takes_value = option.get_items_expected_max() > 0 && !type.empty() && type != "TEXT";
  return takes_value ? term + " \\fI" + escaped(type) + "\\fR" : term;
}

std::string option_list(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    const std::string term = option->get_positional()
                                 ? "\\fI" + escaped(option->get_name(true, false)) + "\\fR"
                                 : option_term(*option);
    text += ".TP\n" + term + "\n" + escaped(option->get_description()) + "\n";
  }
  return text;
}

/// A help's footer: examples as they stand, prose filled.
std::string footer_text(const std::string& footer) {
  std::string text = ".PP\n";
  bool verbatim = false;
  for (const std::string& line : CLI::detail::split(footer, '\n')) {
    const bool example = line.starts_with(" ");
    if (example != verbatim) text += example ? ".nf\n" : ".fi\n.PP\n";
    verbatim = example;
    if (!line.empty()) text += escaped(line) + "\n";
  }
  return verbatim ? text + ".fi\n" : text;
}

void add_command_text(const CLI::App& command, std::string& text) {
  std::string heading = full_name(command);
  for (const CLI::Option* option :
       command.get_options([](const CLI::Option* each) { return each->get_positional(); })) {
    const std::string name = option->get_name(true, false);
    heading += option->get_required() ? " " + name : " [" + name + "]";
  }
  text += ".SS \"" + escaped(heading) + "\"\n" + escaped(command.get_description()) + ".\n";
  text += option_list(command);
  if (!command.get_footer().empty()) text += footer_text(command.get_footer());
  for (const CLI::App* each : shown_commands(command)) add_command_text(*each, text);
}

std::string manual_page(const CLI::App& app) {
  std::string name = app.get_name(), title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string text = fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n", title, name, GANTRY_VERSION);
  text += ".SH NAME\n" + name + " \\- neural networks on boards: compile, run, measure\n";
  text += ".SH SYNOPSIS\n.B " + name + "\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n";
  text += ".SH DESCRIPTION\n" + escaped(app.get_description()) + "\n";
  text += footer_text(app.get_footer());
  text += ".SH OPTIONS\nEvery command takes these too.\n" + option_list(app) + ".SH COMMANDS\n";
  for (const CLI::App* command : shown_commands(app)) add_command_text(*command, text);
  return text + kEnd;
}

}  // namespace

void add_man_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page, as troff's input")->group("");
  command->callback([&app, &invocation] {
    invocation.action = [&app] {
      print_out(manual_page(app));
      return 0;
    };
  });
}

}  // namespace gantry::cli
