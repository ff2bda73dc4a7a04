#include "host/cli/style.h"

#include <unistd.h>

#include <cstdlib>

#include "host/support/cleanup.h"
#include "rpc/visible_text.h"

namespace gantry::cli {
namespace {

constexpr std::string_view kReset = "\x1b[0m";

// Written once, before there are threads.
Colour chosen = Colour::kNever;

std::string_view sequence_of(Style style) {
  switch (style) {
    case Style::kHeading:
      return "\x1b[1m";
    case Style::kError:
      return "\x1b[1;31m";
    case Style::kWarning:
      return "\x1b[1;33m";
    case Style::kNote:
      return "\x1b[36m";
  }
  return "";
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] != '\0';
}

bool is_value(const char* variable, std::string_view wanted) {
  const char* value = std::getenv(variable);
  return value != nullptr && value == wanted;
}

/// One of styled()'s sequences at the start of the text, or "".
std::string_view own_sequence(std::string_view text) {
  for (const Style style : {Style::kHeading, Style::kError, Style::kWarning, Style::kNote}) {
    if (text.starts_with(sequence_of(style))) return sequence_of(style);
  }
  return text.starts_with(kReset) ? kReset : std::string_view();
}

}  // namespace

void choose_colour(Colour colour) {
  chosen = colour;
}

bool is_coloured(std::FILE* stream) {
  if (chosen != Colour::kAuto) return chosen == Colour::kAlways;
  if (is_set("NO_COLOR")) return false;
  if (is_set("CLICOLOR_FORCE") && !is_value("CLICOLOR_FORCE", "0")) return true;
  return isatty(fileno(stream)) != 0 && !is_value("CLICOLOR", "0") && !is_value("TERM", "dumb");
}

std::string styled(std::string_view text, Style style, std::FILE* stream) {
  if (text.empty() || !is_coloured(stream)) return std::string(text);
  return std::string(sequence_of(style)) + std::string(text) + std::string(kReset);
}

std::string printable(std::string_view text, std::FILE* stream) {
  // Somebody else's text can contain these sequences too: it becomes bold or red, no more.
  std::string out;
  while (is_coloured(stream)) {
    size_t at = text.find('\x1b');
    while (at != std::string_view::npos && own_sequence(text.substr(at)).empty())
      at = text.find('\x1b', at + 1);
    if (at == std::string_view::npos) break;
    const std::string_view own = own_sequence(text.substr(at));
    out += rpc::visible_text(text.substr(0, at), rpc::Lines::kMany);
    out += own;
    text.remove_prefix(at + own.size());
  }
  return out + rpc::visible_text(text, rpc::Lines::kMany);
}

void print_err(std::string_view text) {
  if (cleanup::has_begun()) return;
  // fmt::print would throw, and an exception on the way to report another ends the program.
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace gantry::cli
