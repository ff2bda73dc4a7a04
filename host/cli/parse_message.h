// What is wrong with a command line, in words for whoever typed it.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace gantry::cli {

/// The parser's message; of a value that is missing, of one that is no number, and of one that is none of a
/// list, in this program's own words: "--opt needs a value: 0..3".
std::string parse_message(const CLI::ParseError& error);
/// Whether the option's value is options itself, for compare's sides: its type's name is "OPTIONS", quotes included.
bool takes_options(const CLI::Option& option);
/// Of a command line in which one of the command's own options stands where another one's value should, which the
/// parser would take for it: "--machine needs a value: …". Empty where there is none. `arguments`: without the
/// program's name.
std::string misplaced_option(const CLI::App& app, std::span<const std::string> arguments);
/// As parse_message, naming first what `app` does not know of its arguments.
std::string parse_message(const CLI::App& app, const CLI::ParseError& error);

}  // namespace gantry::cli
