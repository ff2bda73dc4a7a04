// The commands: each adds itself to the program's parser and sets the invocation's action when chosen.
#pragma once

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
void add_compare_command(CLI::App& app, Invocation& invocation);
void add_inspect_command(CLI::App& app, Invocation& invocation);
void add_ir_command(CLI::App& app, Invocation& invocation);
void add_targets_command(CLI::App& app, Invocation& invocation);
void add_keygen_command(CLI::App& app, Invocation& invocation);
void add_boards_command(CLI::App& app, Invocation& invocation);
void add_zoo_command(CLI::App& app, Invocation& invocation);

/// Parses and runs; returns the exit code. Errors are printed as "gantry: error: …".
int run_program(int argc, char** argv);

}  // namespace gantry::cli
