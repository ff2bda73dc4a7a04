// What a terminal makes of text: its width, the columns that characters take, colours.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace gantry::cli {

/// Columns of a terminal on stdout: $COLUMNS where it is set, else what the terminal says; 0 where stdout is
/// no terminal.
size_t terminal_width();
/// The same of stderr.
size_t error_terminal_width();

/// Columns that a UTF-8 text takes: two for wide characters (East Asian ones, emoji), none for combining
/// ones.
size_t display_width(std::string_view text);
/// At most `width` display columns, cut with "…"; 0: never cut.
std::string shorten(std::string_view text, size_t width);
/// The text broken at spaces into lines of at most `width` columns; a longer word has a line of its own. 0:
/// one line. At least one line.
std::vector<std::string> wrap(std::string_view text, size_t width);

/// Text that somebody else wrote (a board, a model), for one line of output: control characters, line ends
/// included, are made visible.
std::string visible_line(std::string_view text);

}  // namespace gantry::cli
