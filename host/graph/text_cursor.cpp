#include "host/graph/text_cursor.h"

#include <algorithm>
#include <cctype>

#include "host/graph/parse.h"
#include "host/support/words.h"

namespace gantry {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}
bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
/// Bytes of a character of UTF-8 behind its first.
bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

size_t character_count(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += is_continuation(c) ? 0 : 1;
  return count;
}

/// The line around a place, cut to what a terminal shows, and a caret below the place.
std::string shown_line(std::string_view line, size_t place) {
  constexpr size_t kBefore = 70, kBehind = 40;
  size_t first = place > kBefore ? place - kBefore : 0;
  while (first > 0 && is_continuation(line[first])) --first;
  size_t last = std::min(line.size(), place + kBehind);
  while (last < line.size() && is_continuation(line[last])) ++last;
  const std::string_view before = line.substr(first, place - first);
  std::string caret(first > 0 ? 1 : 0, ' ');
  for (const char c : before) {
    if (!is_continuation(c)) caret += c == '\t' ? '\t' : ' ';
  }
  return fmt::format("  {}{}{}\n  {}^", first > 0 ? "…" : "", line.substr(first, last - first),
                     last < line.size() ? "…" : "", caret);
}

}  // namespace

std::string located(std::string_view text, const std::string& name, size_t place, std::string_view what) {
  place = std::min(place, text.size());
  size_t line = 1, start = 0;
  for (size_t i = 0; i < place; ++i) {
    if (text[i] != '\n') continue;
    ++line;
    start = i + 1;
  }
  std::string_view whole = text.substr(start, text.find_first_of(std::string_view("\n\0", 2), start) - start);
  if (!whole.empty() && whole.back() == '\r') whole.remove_suffix(1);
  const size_t column = character_count(text.substr(start, place - start)) + 1;
  std::string message = name.empty()
                            ? fmt::format("line {}, column {} of the graph text: {}", line, column, what)
                            : fmt::format("{}:{}:{}: {}", name, line, column, what);
  if (!whole.empty()) message += "\n" + shown_line(whole, std::min(place - start, whole.size()));
  return message;
}

bool is_graph_text(std::string_view bytes) {
  constexpr size_t kMostBlank = 1 << 16;  // of comments before the first word
  TextCursor cursor(without_byte_order_mark(bytes).substr(0, kMostBlank));
  for (const char* word : {"gir", "model", "weights", "passes", "fn"}) {
    if (cursor.accept(word)) return true;
  }
  return false;
}

size_t TextCursor::line() {
  if (at_ < counted_) {  // it went back since
    counted_ = 0;
    line_ = 1;
  }
  line_ += static_cast<size_t>(std::ranges::count(text_.substr(counted_, at_ - counted_), '\n'));
  counted_ = at_;
  return line_;
}

void TextCursor::fail_expected(std::string_view expected) {
  const size_t here = place();
  if (here >= text_.size()) fail_at(here, fmt::format("expected {}, but the text ends here", expected));
  size_t end = here;
  constexpr size_t kLongest = 40;
  while (end < text_.size() && end < here + kLongest && is_plain_name_char(text_[end])) ++end;
  if (end == here) {
    do ++end;
    while (end < text_.size() && is_continuation(text_[end]));
  }
  fail_at(here, fmt::format("expected {}, not '{}'", expected, text_.substr(here, end - here)));
}

void TextCursor::skip() {
  for (;;) {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (text_.substr(at_, 2) != "//") return;
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
}

void TextCursor::skip_in_line() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
}

bool TextCursor::accept(std::string_view token) {
  skip();
  if (text_.substr(at_, token.size()) != token) return false;
  const char next = at_ + token.size() < text_.size() ? text_[at_ + token.size()] : ' ';
  if (is_letter(token.back()) && is_plain_name_char(next)) return false;
  at_ += token.size();
  return true;
}

bool TextCursor::accept_in_line(std::string_view token) {
  skip_in_line();
  return text_.substr(at_, token.size()) == token && accept(token);
}

void TextCursor::expect(std::string_view token) {
  if (!accept(token)) fail_expected(fmt::format("'{}'", token));
}

bool TextCursor::accept_call(std::string_view word) {
  const size_t before = place();
  if (accept(word) && peek() == '(') return true;
  at_ = before;
  return false;
}

std::string TextCursor::name(std::string_view what) {
  if (peek() == '"') return string();
  const size_t start = at_;
  while (at_ < text_.size() && is_plain_name_char(text_[at_]) && text_.substr(at_, 2) != "//") ++at_;
  if (at_ == start) fail_expected(what);
  return std::string(text_.substr(start, at_ - start));
}

std::string TextCursor::string() {
  const size_t start = place();
  const std::string_view text = quoted();
  try {
    return unquote(text);
  } catch (const Error& error) {
    fail_at(start, error.what());
  }
}

std::string_view TextCursor::quoted() {
  if (peek() != '"') fail_expected("a text in quotes");
  const size_t start = at_;
  for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
    if (text_[at_] == '\\') ++at_;
  }
  if (at_ >= text_.size() || text_[at_] != '"') fail_at(start, "this quote is not closed in its line");
  ++at_;
  return text_.substr(start, at_ - start);
}

std::string_view TextCursor::until(std::string_view stops) {
  const size_t start = place();
  std::vector<size_t> open;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (open.empty() && stops.find(c) != std::string_view::npos) {
      std::string_view found = text_.substr(start, at_ - start);
      while (!found.empty() && is_blank(found.back())) found.remove_suffix(1);
      return found;
    }
    if (c == '"') {
      quoted();
      continue;
    }
    if (c == '(' || c == '[') open.push_back(at_);
    if (c == ')' || c == ']') {
      if (open.empty() || (text_[open.back()] == '(') != (c == ')'))
        fail_at(at_, fmt::format("this '{}' closes nothing", c));
      open.pop_back();
    }
    ++at_;
  }
  if (!open.empty()) fail_at(open.front(), fmt::format("this '{}' is not closed", text_[open.front()]));
  if (stops.find('\n') != std::string_view::npos) fail_at(text_.size(), "the text ends too early");
  std::string expected;
  for (const char stop : stops) expected += fmt::format("{}'{}'", expected.empty() ? "" : " or ", stop);
  fail_expected(expected);
}

std::string_view TextCursor::trailing_comment() {
  skip_in_line();
  if (text_.substr(at_, 2) != "//") return {};
  const size_t start = at_ + 2;
  at_ = std::min(text_.find('\n', at_), text_.size());
  return text_.substr(start, at_ - start);
}

void TextCursor::list(char open, char close, const std::function<void()>& item) {
  const std::string_view closing(&close, 1);
  expect(std::string_view(&open, 1));
  bool first = true;
  while (!accept(closing)) {
    if (!first && !accept(",")) fail_expected(fmt::format("',' or '{}'", close));
    first = false;
    item();
  }
}

}  // namespace gantry
