// What is wrong with a command line, in words for whoever typed it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace gantry::cli {

/// The parser's message; of a value that is missing, of one that is no number, and of one that is none of a
/// list, in this program's own words: "--opt needs a value: 0..3".
std::string parse_message(const CLI::ParseError& error);
/// As parse_message, naming first what `app` does not know of its arguments.
std::string parse_message(const CLI::App& app, const CLI::ParseError& error);

}  // namespace gantry::cli
