#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>

#include "host/cli/commands.h"
#include "host/cli/help.h"
#include "host/cli/parse_message.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry zoo resnet18 -o resnet18.onnx          a network to try things with
  gantry bench resnet18.onnx                    compile for this machine and time it
  gantry boards add pi 192.168.1.20:7453 --key pi.key
  gantry bench resnet18.onnx --on pi --profile  compile for the board, time every kernel there
  gantry compile resnet18.onnx --target aarch64 -o resnet18.gmod
  gantry ir resnet18.onnx --after fuse_ops      the program as the compiler sees it

`gantry help COMMAND` explains a command. Exit codes: 0 done, 1 the request or its input is wrong,
2 the board or the network failed, 3 a bug in gantry, 4 slower than compare's --fail-if-slower allows.)";

/// What the shells' completion calls; its words are not this command line's own.
constexpr std::string_view kComplete = "__complete";

/// The exit code that shells show of a program that SIGPIPE ends.
constexpr int kReaderGone = 128 + SIGPIPE;

void print_error(const std::string& message) {
  std::fflush(stdout);  // results come first
  print_err(
      fmt::format("{} {}\n", styled("gantry: error:", Style::kError, stderr), printable(message, stderr)));
}

int report_bug(const std::string& message) {
  print_error(fmt::format(
      "internal error: {}\nThis is a bug in gantry {}. Please report it, with the command and the model.",
      message, GANTRY_VERSION));
  return static_cast<int>(ErrorKind::kInternal);
}

/// The deepest subcommand that was recognised on the command line.
const CLI::App* chosen_command(const CLI::App& app) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return chosen;
}

std::vector<std::string> option_names(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* command : shown_commands(*app)) names.push_back(command->get_name());
  return names;
}

/// "; `gantry compile` takes it", of an option that only few other commands have.
std::string takers_text(const CLI::App& app, const std::string& option) {
  constexpr size_t kFew = 3;
  std::string names;
  size_t count = 0;
  for (const CLI::App* command : shown_commands(app)) {
    const bool takes_it = std::ranges::any_of(command->get_options(), [&](const CLI::Option* own) {
      return option.starts_with("--") && own->check_lname(option.substr(2));
    });
    if (!takes_it) continue;
    names += fmt::format("{}`{}`", names.empty() ? "" : ", ", full_name(*command));
    ++count;
  }
  if (count == 0 || count > kFew) return "";
  return fmt::format("; {} {} it", names, count == 1 ? "takes" : "take");
}

/// User errors for options without the value that they take, as a shell's unset variable leaves them: `--on
/// ""` would otherwise measure this machine.
void check_values(const CLI::App& app) {
  for (const CLI::App* command = &app;; command = command->get_subcommands().front()) {
    for (const CLI::Option* option : command->get_options()) {
      const std::vector<std::string>& names = option->get_lnames();
      if (names.empty() || option->get_expected_min() == 0) continue;
      if (takes_options(*option)) continue;  // there may be none
      if (std::ranges::find(option->results(), "") != option->results().end())
        user_error("--{}: the value given is empty; write one, or leave the option out", names.front());
    }
    if (command->get_subcommands().empty()) return;
  }
}

/// Whether --help stands beside a word that is no command of the one that was recognised.
bool helps_unknown_command(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining(true);
  return !unknown.empty() && !unknown.front().starts_with("-") &&
         !shown_commands(*chosen_command(app)).empty();
}

/// Whether what is wrong is that none of the command's own commands is given.
bool lacks_command(const CLI::App& command, const CLI::ParseError& error) {
  return error.get_name() == "RequiredError" && command.get_require_subcommand_min() > 0 &&
         command.get_subcommands().empty() && command.remaining(true).empty();
}

/// A message for a command line that the parser refuses.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = chosen_command(app);
  const std::string help = fmt::format("\nSee `{} --help`.", full_name(*command));
  const std::vector<std::string> unknown = app.remaining(true);
  for (const std::string& argument : unknown) {
    if (!argument.starts_with("-") || argument == "-") continue;
    const std::string name = argument.substr(0, argument.find('='));
    const std::string near = did_you_mean(name, option_names(command));
    return fmt::format("unknown option '{}'{}{}", name, near.empty() ? takers_text(app, name) : near, help);
  }
  const std::vector<std::string> commands = subcommand_names(command);
  if (lacks_command(*command, error))
    return fmt::format("`{}` is followed by one of {}{}", full_name(*command), fmt::join(commands, ", "),
                       help);
  if (unknown.empty()) return parse_message(error) + help;
  if (commands.empty()) return fmt::format("unexpected argument '{}'{}", unknown[0], help);
  return fmt::format("unknown command '{}'{}{}", unknown[0], did_you_mean(unknown[0], commands), help);
}

/// Why stdout took no more, from errno.
[[noreturn]] void fail_output() {
  if (errno == EPIPE) throw ReaderGone();
  user_error("writing to standard output failed: {}", std::strerror(errno));
}

int run_action(const Invocation& invocation) {
  try {
    const int code = invocation.action();
    if (std::fflush(stdout) != 0) fail_output();
    return code;
  } catch (const ReaderGone&) {
    return kReaderGone;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) return report_bug(error.what());
    print_error(error.what());
    return static_cast<int>(error.kind());
  } catch (const rpc::Error& error) {
    if (error.kind() == rpc::ErrorKind::kBug) return report_bug(error.what());
    print_error(error.what());
    return rpc::exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    print_error("out of memory on this machine; close other programs or use a smaller model or batch");
    return static_cast<int>(ErrorKind::kUser);
  } catch (const std::exception& error) {
    return report_bug(error.what());
  }
}

void add_commands(CLI::App& app, Invocation& invocation) {
  add_compile_command(app, invocation);
  add_run_command(app, invocation);
  add_bench_commands(app, invocation);
  add_compare_command(app, invocation);
  add_tune_command(app, invocation);
  add_farm_command(app, invocation);
  add_report_command(app, invocation);
  add_records_command(app, invocation);
  add_trace_command(app, invocation);
  add_inspect_command(app, invocation);
  add_ir_command(app, invocation);
  add_opt_command(app, invocation);
  add_targets_command(app, invocation);
  add_boards_command(app, invocation);
  add_keygen_command(app, invocation);
  add_conformance_command(app, invocation);
  add_conformance_test_command(app, invocation);
  add_cache_command(app, invocation);
  add_zoo_command(app, invocation);
  add_help_command(app, invocation);
  add_version_command(app, invocation);
  add_completion_command(app, invocation);
  add_man_command(app, invocation);
}

Colour colour_of(const std::string& name) {
  return name == "always" ? Colour::kAlways : name == "never" ? Colour::kNever : Colour::kAuto;
}

/// Reads the command line, and so what is to be done. The exit code where it is not understood.
std::optional<int> parse(CLI::App& app, const CLI::Option& colour, Invocation& invocation, int argc,
                         char** argv) {
  const auto answer = [&](std::string text) {
    invocation.action = [text = std::move(text)] {
      print_out(text);
      return 0;
    };
  };
  // What --color says also holds for what is said of a command line that stops before it takes effect.
  const auto choose = [&] {
    choose_colour(colour_of(colour.count() > 0 ? colour.results().back() : "auto"));
  };
  try {
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    if (const std::string wrong = misplaced_option(app, arguments); !wrong.empty()) user_error("{}", wrong);
    app.parse(argc, argv);
    choose();
    check_values(app);
    if (invocation.quiet && invocation.verbose) {
      user_error("--quiet and --verbose contradict each other; give one of them");
    }
  } catch (const CLI::CallForHelp& help) {
    choose();
    if (helps_unknown_command(app)) {
      print_error(explain(app, help));
      return static_cast<int>(ErrorKind::kUser);
    }
    answer(app.help());
  } catch (const CLI::CallForVersion&) {
    choose();
    answer(version_text());
  } catch (const CLI::ParseError& error) {
    choose();
    print_error(explain(app, error));
    return static_cast<int>(ErrorKind::kUser);
  } catch (const Error& error) {
    print_error(error.what());
    return static_cast<int>(error.kind());
  }
  return std::nullopt;
}

}  // namespace

void print_out(const std::string& text) {
  write_out(printable(text, stdout));
}

void write_out(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) fail_output();
}

void print_about(const OutputPlan& outputs, const std::string& text) {
  if (outputs.on_stdout().empty()) print_out(text);
}

int run_program(int argc, char** argv) {
  Invocation invocation;
  invocation.arguments.assign(argv, argv + argc);
  CLI::App app(
      "Compiles trained networks (ONNX) for the machine that will run them, runs them there and measures.",
      "gantry");
  const auto formatter = std::make_shared<HelpFormatter>();
  app.formatter(formatter);
  app.set_version_flag("--version", std::string(), "Show the versions of gantry and of what it is made of");
  app.add_flag("-v,--verbose", invocation.verbose, "Say more on stderr");
  app.add_flag("-q,--quiet", invocation.quiet,
               "No warnings, notes or progress, nor names of files that were written");
  std::string colour_name;
  CLI::Option* colour =
      app.add_option("--color", colour_name, "Colours: default auto, on terminals (see NO_COLOR)")
          ->type_name("auto|always|never")
          ->check(CLI::IsMember({"auto", "always", "never"}).description(""));
  app.footer(kExamples);
  app.require_subcommand(0, 1);
  app.fallthrough();
  add_commands(app, invocation);
  if (argc > 1 && std::string_view(argv[1]) == kComplete) {
    invocation.action = [&] {
      print_out(complete(app, {argv + 2, argv + argc}));
      return 0;
    };
    return run_action(invocation);
  }
  if (const auto code = parse(app, *colour, invocation, argc, argv)) return *code;
  invocation.command = chosen_command(app)->get_name();
  if (!invocation.action) {
    formatter->print_to(stderr);
    print_err(app.help());
    return static_cast<int>(ErrorKind::kUser);
  }
  return run_action(invocation);
}

}  // namespace gantry::cli
