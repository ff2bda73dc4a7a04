#include "host/cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/cli/style.h"
#include "host/cli/terminal.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

/// The least room for a description beside a name, in columns.
constexpr size_t kLeastBeside = 24;

size_t room(size_t width, size_t used) {
  constexpr size_t kLeast = 10;
  return width == 0 ? 0 : std::max(kLeast, width > used ? width - used : 0);
}

std::string indented(const std::vector<std::string>& lines, size_t first, size_t others,
                     const char* line_end = "\n") {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += std::string(i == 0 ? first : others, ' ') + lines[i];
    text += i + 1 == lines.size() ? "\n" : line_end;
  }
  return text;
}

/// An option's name and what it takes, broken at spaces and before the bars between choices.
std::vector<std::string> break_name(const std::string& name, size_t width) {
  if (width == 0 || display_width(name) <= width) return {name};
  std::vector<std::string> lines(1);
  for (size_t start = 0; start < name.size();) {
    const size_t end = std::min(name.find_first_of(" |", start + 1), name.size());
    const std::string piece = name.substr(start, end - start);
    if (display_width(lines.back() + piece) > width && !lines.back().empty()) {
      lines.emplace_back(piece[0] == ' ' ? piece.substr(1) : piece);
    } else {
      lines.back() += piece;
    }
    start = end;
  }
  return lines;
}

}  // namespace

size_t HelpFormatter::width() const {
  return stream_ == stdout ? terminal_width() : error_terminal_width();
}

std::string HelpFormatter::heading(const std::string& text) const {
  return styled(text, Style::kHeading, stream_);
}

std::string HelpFormatter::entry(const std::string& name, const std::string& description) const {
  constexpr size_t kIndent = 2, kNarrowColumn = 6;
  const bool narrow = width() > 0 && width() < column_width_ + kLeastBeside;
  const size_t column = narrow ? kNarrowColumn : column_width_;
  std::string text = indented(break_name(name, room(width(), kIndent)), kIndent, kNarrowColumn);
  if (description.empty()) return text;
  const std::vector<std::string> lines = wrap(description, room(width(), column));
  const bool beside = !narrow && kIndent + display_width(name) < column;
  if (!beside) return text + indented(lines, column, column);
  text.pop_back();
  return text + indented(lines, column - kIndent - display_width(name), column);
}

std::string HelpFormatter::make_group(std::string group, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  std::string text = "\n" + heading(group + ":") + "\n";
  for (const CLI::Option* option : options) text += make_option(option, is_positional);
  return text;
}

std::string HelpFormatter::make_subcommands(const CLI::App* app, CLI::AppFormatMode) const {
  std::string text;
  for (const CLI::App* command : shown_commands(*app)) text += make_subcommand(command);
  return text.empty() ? text : "\n" + heading("Commands:") + "\n" + text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return indented(wrap(app->get_description(), width()), 0, 0);
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  constexpr size_t kIndent = 6;
  std::string usage = CLI::Formatter::make_usage(app, name);
  usage.erase(usage.find_last_not_of('\n') + 1);
  const std::string label = "Usage:";
  std::string text = indented(wrap(usage, width()), 0, kIndent);
  return text.starts_with(label) ? heading(label) + text.substr(label.size()) : text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = make_option_name(option, is_positional);
  // The parser's "--random{0}": what stands for a value that is not given.
  if (const size_t begin = name.find('{'); begin != std::string::npos)
    name.erase(begin, name.find('}', begin) + 1 - begin);
  return entry(name + make_option_opts(option), make_option_desc(option));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  // "TEXT" is what the parser calls a value that nobody has described: the name says more.
  std::string text = CLI::Formatter::make_option_opts(option);
  const std::string plain = " TEXT";
  if (text.starts_with(plain)) text.erase(0, plain.size());
  return text;
}

/// A line of prose, or an example: a command, and after a gap what it does.
std::string HelpFormatter::footer_line(const std::string& line) const {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  if (indent == 0 && line.ends_with(':')) return heading(line) + "\n";
  if (width() == 0 || display_width(line) <= width()) return line + "\n";
  constexpr size_t kHanging = 4, kDeepest = 8;
  if (indent > kDeepest) {  // goes on with what the line above says of its example
    return indented(wrap(line.substr(indent), room(width(), kHanging + 2)), kHanging + 2, kHanging + 2);
  }
  const size_t gap = line.find("  ", indent);
  const std::string command = line.substr(indent, gap == std::string::npos ? gap : gap - indent);
  const bool example = indent > 0;
  if (!example) return indented(wrap(line, width()), 0, 0);
  const auto command_lines = wrap(command, room(width(), indent + kHanging + 2));
  std::string text = indented(command_lines, indent, indent + kHanging, " \\\n");
  if (gap == std::string::npos) return text;
  const size_t start = line.find_first_not_of(' ', gap);
  const std::string what = line.substr(start);
  const size_t column = display_width(line.substr(0, start));
  if (command_lines.size() == 1 && width() >= column + kLeastBeside) {
    text.pop_back();
    return text + indented(wrap(what, room(width(), column)), start - gap, column);
  }
  return text + indented(wrap(what, room(width(), indent + kHanging)), indent + kHanging, indent + kHanging);
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  const std::string footer = app->get_footer();
  std::string text;
  for (size_t start = 0; start < footer.size();) {
    const size_t end = std::min(footer.find('\n', start), footer.size());
    text += footer_line(footer.substr(start, end - start));
    start = end + 1;
  }
  return text;
}

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands(
      [](const CLI::App* command) { return !command->get_group().empty() && !command->get_name().empty(); });
}

const CLI::App& find_command(const CLI::App& app, const std::vector<std::string>& path) {
  const CLI::App* command = &app;
  for (const std::string& name : path) {
    std::vector<std::string> names;
    const CLI::App* found = nullptr;
    for (const CLI::App* candidate : shown_commands(*command)) {
      names.push_back(candidate->get_name());
      if (candidate->get_name() == name) found = candidate;
    }
    if (found == nullptr) {
      user_error("unknown command '{} {}'{}\nSee `{} --help`.", full_name(*command), name,
                 did_you_mean(name, names), full_name(*command));
    }
    command = found;
  }
  return *command;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

}  // namespace gantry::cli
