// Options of commands that read a model: its sizes and inputs, and how it is compiled.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gantry::cli {

/// --shape and --dim, for parse_shapes and parse_sizes.
void add_shape_options(CLI::App& command, std::vector<std::string>& shapes, std::vector<std::string>& sizes);
/// --keep-input: names for ModelImportOptions and check_kept_inputs().
void add_keep_input_option(CLI::App& command, std::vector<std::string>& names);
/// --decisions, for read_decisions().
void add_decisions_option(CLI::App& command, std::string& decisions);
/// --custom-ops, for read_custom_ops().
void add_custom_ops_option(CLI::App& command, std::vector<std::string>& paths);
/// --opt, --precision and --optimize, of commands that compile alone.
void add_optimization_options(CLI::App& command, int& opt_level, std::string& precision,
                              std::string& optimize);

}  // namespace gantry::cli
