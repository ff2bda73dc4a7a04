// The commands: each adds itself to the program's parser and sets the invocation's action when chosen.
#pragma once

#include <string>
#include <vector>

#include "host/cli/invocation.h"

namespace CLI {
class App;
}

namespace gantry::cli {

void add_cache_command(CLI::App& app, Invocation& invocation);
void add_compile_command(CLI::App& app, Invocation& invocation);
void add_run_command(CLI::App& app, Invocation& invocation);
/// bench, and `profile`: the same with --profile.
void add_bench_commands(CLI::App& app, Invocation& invocation);
/// What `gantry farm status` prints.
int show_farm(bool json);
void add_farm_command(CLI::App& app, Invocation& invocation);
void add_compare_command(CLI::App& app, Invocation& invocation);
void add_conformance_command(CLI::App& app, Invocation& invocation);
/// conformance-test, which runs one test in a process of its own; hidden.
void add_conformance_test_command(CLI::App& app, Invocation& invocation);
inline constexpr const char* kConformanceTestCommand = "conformance-test";
void add_trace_command(CLI::App& app, Invocation& invocation);
void add_tune_command(CLI::App& app, Invocation& invocation);
void add_inspect_command(CLI::App& app, Invocation& invocation);
/// Records of tuning: list, show, export, import, prune, verify.
void add_records_command(CLI::App& app, Invocation& invocation);
void add_report_command(CLI::App& app, Invocation& invocation);
void add_ir_command(CLI::App& app, Invocation& invocation);
void add_opt_command(CLI::App& app, Invocation& invocation);
void add_targets_command(CLI::App& app, Invocation& invocation);
void add_keygen_command(CLI::App& app, Invocation& invocation);
void add_boards_command(CLI::App& app, Invocation& invocation);
/// `discover`, of the command boards.
void add_discover_command(CLI::App& boards, Invocation& invocation);
void add_help_command(CLI::App& app, Invocation& invocation);
void add_version_command(CLI::App& app, Invocation& invocation);
/// completion, which prints the scripts.
void add_completion_command(CLI::App& app, Invocation& invocation);
/// man, which prints the page; hidden.
void add_man_command(CLI::App& app, Invocation& invocation);
void add_zoo_command(CLI::App& app, Invocation& invocation);

/// What `gantry version` and --version print.
std::string version_text();
/// What the shells' scripts call at every press of the tab key: candidates for the last of the words that
/// stand behind the program's name, one a line (completion_command.cpp says how they are written).
std::string complete(const CLI::App& app, const std::vector<std::string>& words);

/// Parses and runs; returns the exit code. Errors are printed as "gantry: error: …".
int run_program(int argc, char** argv);

}  // namespace gantry::cli
