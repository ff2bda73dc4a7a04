// Colours of what the program says to people, where its streams are terminals.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace gantry::cli {

/// --color
enum class Colour { kAuto, kAlways, kNever };

/// The program's one choice, made once while the command line is read; kNever until then. kAuto colours a
/// stream that is a terminal, unless $NO_COLOR is set, $CLICOLOR is 0 or $TERM is "dumb"; $CLICOLOR_FORCE
/// colours other streams too.
void choose_colour(Colour colour);
/// Whether text for the stream (stdout or stderr) is to have colours.
bool is_coloured(std::FILE* stream);

enum class Style { kHeading, kError, kWarning, kNote };
/// The text in that style, for the stream.
std::string styled(std::string_view text, Style style, std::FILE* stream);

/// Text for the stream, of which parts were written by others: control characters are made visible, but line
/// ends, tabs and what styled() made stay.
std::string printable(std::string_view text, std::FILE* stream);

/// Writes to stderr. Where nobody reads it (a closed pipe, a full disk) the text is lost, and nothing fails
/// for it; nor is anything said once a signal ends the process.
void print_err(std::string_view text);

}  // namespace gantry::cli
