// RE2's syntax.
#include <charconv>
#include <optional>
#include <utility>

#include "device_runtime/builtins/functions.h"
#include "device_runtime/builtins/pattern_parts.h"

namespace gantry::runtime {
namespace {

using Kind = PatternStep::Kind;

/// Of names in a pattern: [0-9A-Za-z_] and whatever is not ASCII.
bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    const char letter = static_cast<char>(c | 0x20);
    return c < 0 || c == '_' || (c >= '0' && c <= '9') || (letter >= 'a' && letter <= 'z');
  });
}

/// The classes that are known by a name: a letter behind a backslash, or a word in "[:" and ":]".
struct NamedClass {
  std::string_view name;
  std::string_view pairs;  ///< first and last of each range
};
constexpr NamedClass kShort[] = {{"d", "09"}, {"s", "\t\n\f\r  "}, {"w", "09AZaz__"}};
constexpr NamedClass kLong[] = {{"alnum", "09AZaz"},   {"alpha", "AZaz"},   {"ascii", {"\0\x7f", 2}},
                                {"blank", "\t\t  "},   {"digit", "09"},     {"cntrl", {"\0\x1f\x7f\x7f", 4}},
                                {"graph", "!~"},       {"lower", "az"},     {"print", " ~"},
                                {"punct", "!/:@[`{~"}, {"space", "\t\r  "}, {"upper", "AZ"},
                                {"word", "09AZaz__"},  {"xdigit", "09AFaf"}};

class Reader {
 public:
  explicit Reader(std::string_view pattern) : text_(pattern) {}

  Result<PatternProgram> run() {
    while (at_ < text_.size()) {
      GANTRY_TRY(next());
      if (parts_.size() > PatternParts::kMostSteps) return wrong("it is too large");
    }
    if (parts_.depth() > 1) return wrong("a parenthesis is not closed");
    return parts_.finish();
  }

 private:
  static constexpr size_t kDeepest = 1000;

  /// What "(?" sets.
  struct Flags {
    bool fold = false;     ///< i: letters match their other case
    bool lines = false;    ///< m: ^ and $ match at lines
    bool newline = false;  ///< s: . matches a newline
  };

  Status wrong(const char* what) const {
    return failure(GANTRY_INVALID_ARGUMENT, "the pattern %s: %s, at byte %zu", shown(text_).c_str(), what,
                   at_);
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool accept(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Status next() {
    const bool repeated = std::exchange(repeated_, false);
    switch (peek()) {
      case '\\':
        return escape();
      case '[':
        return bracket();
      case '(':
        return group();
      case ')':
        if (parts_.depth() == 1) return wrong("a parenthesis closes nothing");
        ++at_;
        parts_.close();
        flags_ = outer_.back();
        outer_.pop_back();
        return Status();
      case '|':
        ++at_;
        parts_.alternate();
        return Status();
      case '.':
        ++at_;
        parts_.append(flags_.newline ? CodePointSet{{0, kLastCodePoint}}
                                     : CodePointSet{{0, '\n' - 1}, {'\n' + 1, kLastCodePoint}});
        return Status();
      case '^':
        ++at_;
        parts_.append(flags_.lines ? Kind::kLineBegin : Kind::kTextBegin);
        return Status();
      case '$':
        ++at_;
        parts_.append(flags_.lines ? Kind::kLineEnd : Kind::kTextEnd);
        return Status();
      case '*':
        return ++at_, repeat(0, PatternParts::kNoLimit, repeated);
      case '+':
        return ++at_, repeat(1, PatternParts::kNoLimit, repeated);
      case '?':
        return ++at_, repeat(0, 1, repeated);
      case '{':
        if (uint32_t least = 0, most = 0; counts(least, most)) return repeat(least, most, repeated);
        [[fallthrough]];
      default:
        return literal();
    }
  }

  Status repeat(uint32_t least, uint32_t most, bool repeated) {
    if (repeated) return wrong("what is repeated is repeated again (possessive repetition is not RE2's)");
    if (!parts_.can_repeat()) return wrong("nothing is there to be repeated");
    if (most < least) return wrong("it repeats at most fewer times than at least");
    if (!parts_.repeat(least, most)) return wrong("it repeats more than 1000 times, or is too large so often");
    accept(
        "?");  // that it prefers the fewest makes no difference to what matches, nor (?U), which swaps that
    repeated_ = true;
    return Status();
  }

  /// "{3}", "{3,}" and "{3,5}" repeat; all else is the brace itself.
  bool counts(uint32_t& least, uint32_t& most) {
    const size_t begin = at_++;
    bool known = count(least);
    most = least;
    if (known && accept(",") && peek() != '}')
      known = count(most);
    else if (known && text_[at_ - 1] == ',')
      most = PatternParts::kNoLimit;
    if (known && accept("}")) return true;
    at_ = begin;
    return false;
  }
  /// Digits without leading zeros, and not too many of them, or RE2 takes the brace for itself.
  bool count(uint32_t& value) {
    const std::string_view digits = text_.substr(at_);
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const auto length = static_cast<size_t>(stop - digits.data());
    at_ += length;
    return error == std::errc() && value < 1'000'000'000 && (length == 1 || digits.front() != '0');
  }

  Status open() {
    if (parts_.depth() > kDeepest) return wrong("groups are nested too deep");
    outer_.push_back(flags_);
    parts_.open();
    return Status();
  }

  Status group() {
    accept("(");
    if (!accept("?")) return open();
    if (peek() == '=' || peek() == '!' || (peek() == '<' && (peek(1) == '=' || peek(1) == '!')))
      return wrong("looking ahead or behind is not RE2's");
    if (accept("P<") || accept("<")) {
      const size_t end = text_.find('>', at_);
      if (end == text_.npos || !is_name(text_.substr(at_, end - at_)))
        return wrong("a group's name is no word, or not closed");
      at_ = end + 1;
      return open();
    }
    // Until the group around ends: the flags before "-" are set, those behind cleared.
    Flags flags = flags_;
    bool value = true, complete = true;
    for (;; complete = true) {
      if (accept("i")) {
        flags.fold = value;
      } else if (accept("m")) {
        flags.lines = value;
      } else if (accept("s")) {
        flags.newline = value;
      } else if (value && accept("-")) {
        value = complete = false;
        if (peek() == ':' || peek() == ')') break;
      } else if (!accept("U")) {
        break;
      }
    }
    if (complete && accept(":"))
      GANTRY_TRY(open());
    else if (!complete || !accept(")"))
      return wrong("behind '(?' RE2 knows i, m, s, U, ':' and 'P<name>' alone");
    flags_ = flags;
    return Status();
  }

  /// The next character as it is.
  Status character(char32_t& value) {
    const CodePoint point = code_point_at(text_, at_);
    if (point.bytes == 1 && point.value > 0x7f) return wrong("it is no UTF-8");
    value = point.value;
    at_ += point.bytes;
    return Status();
  }
  Status literal() {
    char32_t value = 0;
    GANTRY_TRY(character(value));
    return append(value), Status();
  }

  void append(char32_t value) {
    if (flags_.fold) {
      CodePointSet cases{{value, value}};
      folding().close(cases);
      if (cases != CodePointSet{{value, value}}) return parts_.append(std::move(cases));
    }
    parts_.append(Kind::kCodePoint, static_cast<int32_t>(value));
  }
  const CaseFolding& folding() {
    if (!folding_) folding_.emplace();
    return *folding_;
  }

  /// Digits in that base; false where there are not so many.
  bool number(int base, size_t least, size_t most, char32_t& value) {
    const std::string_view digits = text_.substr(at_, most);
    uint32_t read = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read, base);
    const auto length = static_cast<size_t>(stop - digits.data());
    if (error != std::errc() || length < least || read > kLastCodePoint) return false;
    at_ += length;
    value = read;
    return true;
  }

  /// What stands for one character behind a backslash.
  Status escaped(char32_t& value) {
    constexpr std::string_view kNames = "afnrtv", kValues = "\a\f\n\r\t\v";
    const char c = peek();
    bool known = false;
    if (const size_t found = kNames.find(c); at_ < text_.size() && found != kNames.npos) {
      value = static_cast<unsigned char>(kValues[found]);
      ++at_;
      known = true;
    } else if (accept("x{")) {
      known = number(16, 1, text_.npos, value) && accept("}");
    } else if (accept("x")) {
      known = number(16, 2, 2, value);
    } else if (c == '0' || (c >= '1' && c <= '7' && peek(1) >= '0' && peek(1) <= '7')) {
      known = number(8, 1, 3, value);
    } else if (c >= '1' && c <= '9') {
      return wrong("what a group matched is not RE2's to ask for");
    } else if (c == 'p' || c == 'P') {
      return wrong("classes of Unicode (\\p) are not known here");
    } else if (at_ < text_.size() && c >= 0 && (c == '_' || !is_name({&c, 1}))) {
      value = static_cast<unsigned char>(c);
      ++at_;
      known = true;
    }
    return known ? Status() : wrong("an escape that is none");
  }

  /// Adds a class, of which everything else if `inverted`.
  void add_class(CodePointSet& set, const NamedClass& known, bool inverted) {
    CodePointSet ranges;
    for (size_t i = 0; i < known.pairs.size(); i += 2)
      ranges.add(static_cast<unsigned char>(known.pairs[i]), static_cast<unsigned char>(known.pairs[i + 1]));
    ranges.normalize();
    // Everything else is no case of what the class has either.
    if (flags_.fold) folding().close(ranges);
    if (inverted) ranges.invert();
    set.add(ranges);
  }
  /// At a backslash: a class that one letter names, which is passed.
  bool short_class(CodePointSet& set) {
    for (const NamedClass& known : kShort) {
      if ((peek(1) | 0x20) != known.name[0]) continue;
      add_class(set, known, peek(1) != known.name[0]);
      at_ += 2;
      return true;
    }
    return false;
  }

  Status escape() {
    if (accept("\\A")) return parts_.append(Kind::kTextBegin), Status();
    if (accept("\\z")) return parts_.append(Kind::kTextEnd), Status();
    if (accept("\\b")) return parts_.append(Kind::kWordEdge), Status();
    if (accept("\\B")) return parts_.append(Kind::kNoWordEdge), Status();
    if (accept("\\Q")) {
      while (at_ < text_.size() && !accept("\\E")) GANTRY_TRY(literal());
      return Status();
    }
    if (accept("\\C")) return wrong("single bytes (\\C) are not known here");
    if (CodePointSet set; short_class(set)) {
      set.normalize();
      parts_.append(std::move(set));
      return Status();
    }
    accept("\\");
    char32_t value = 0;
    GANTRY_TRY(escaped(value));
    return append(value), Status();
  }

  Status bracket() {
    accept("[");
    const bool inverted = accept("^");
    CodePointSet set;
    for (bool first = true; first || peek() != ']'; first = false) {
      if (at_ >= text_.size()) return wrong("a class is not closed");
      GANTRY_TRY(bracket_item(set));
    }
    accept("]");
    set.normalize();
    if (flags_.fold) folding().close(set);
    if (inverted) set.invert();
    parts_.append(std::move(set));
    return Status();
  }

  Status bracket_item(CodePointSet& set) {
    const size_t end = text_.substr(at_).starts_with("[:") ? text_.find(":]", at_ + 2) : text_.npos;
    if (end != text_.npos) {
      accept("[:");
      const bool inverted = accept("^");
      const std::string_view name = text_.substr(at_, end - at_);
      const auto known = std::find_if(std::begin(kLong), std::end(kLong),
                                      [&](const NamedClass& each) { return each.name == name; });
      if (known == std::end(kLong)) return wrong("RE2 has no class of that name");
      add_class(set, *known, inverted);
      at_ = end + 2;
      return Status();
    }
    if (peek() == '\\' && short_class(set)) return Status();
    // Behind a class "-" is one, and so it is at the end; ranges are of two characters.
    char32_t first = 0, last = 0;
    GANTRY_TRY(bracket_character(first));
    last = first;
    if (peek() == '-' && peek(1) != ']' && at_ + 1 < text_.size()) {
      ++at_;
      GANTRY_TRY(bracket_character(last));
    }
    if (last < first) return wrong("a range ends before it begins");
    set.add(first, last);
    return Status();
  }
  Status bracket_character(char32_t& value) { return accept("\\") ? escaped(value) : character(value); }

  std::string_view text_;
  size_t at_ = 0;
  bool repeated_ = false;  ///< what was read last is a repetition
  Flags flags_;
  std::vector<Flags> outer_;  ///< of the groups around, from outside
  std::optional<CaseFolding> folding_;
  PatternParts parts_;
};

}  // namespace

Result<PatternProgram> compile_pattern(std::string_view re2) {
  return Reader(re2).run();
}

}  // namespace gantry::runtime
