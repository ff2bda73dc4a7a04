// From RE2's syntax to ECMAScript's.
#include <charconv>

#include "device_runtime/builtins/functions.h"
#include "device_runtime/builtins/pattern.h"

namespace gantry::runtime {
namespace {

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : text_(pattern) {}

  Status run() {
    while (at_ < text_.size()) GANTRY_TRY(next());
    if (depth_ > 0) return wrong("a parenthesis is not closed");
    return Status();
  }
  std::wstring take() { return std::move(result_); }

 private:
  static constexpr int kMostRepeats = 1000;  ///< RE2's own limit
  static constexpr int kDeepest = 200;       ///< std::regex compiles groups by recursion

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
  void put(std::string_view ascii) { result_.append(ascii.begin(), ascii.end()); }

  /// The character itself, escaped where it would mean something.
  void put_literal(char32_t value, bool in_class = false) {
    const std::string_view special = in_class ? R"(\]^-[)" : R"(\^$.|?*+()[]{})";
    if (value < 0x80 && special.find(static_cast<char>(value)) != special.npos) result_ += L'\\';
    result_ += static_cast<wchar_t>(value);
  }

  Status next() {
    switch (peek()) {
      case '\\':
        return escape();
      case '[':
        return bracket();
      case '(':
        return open_group();
      case ')':
        if (depth_-- == 0) return wrong("a parenthesis closes nothing");
        ++at_;
        put(")");
        return Status();
      case '.':
        ++at_;
        put(dot_takes_all_ ? "[^]" : "[^\n]");
        return Status();
      case '^':
      case '$':
        // Of the whole text's begin and end, as where nothing asks for lines.
        put(accept("^") ? "^" : (++at_, "$"));
        return Status();
      case '{':
        return repeat();
      case '*':
      case '+':
      case '?':
      case '|': {
        result_ += static_cast<wchar_t>(peek());
        ++at_;
        if (peek() == '+' && result_.back() != L'|') return wrong("possessive repetition is not RE2's");
        return Status();
      }
      default: {
        const CodePoint c = code_point_at(text_, at_);
        put_literal(c.value);
        at_ += c.bytes;
        return Status();
      }
    }
  }

  /// "{3}", "{3,}" and "{3,5}" repeat; all else is the brace itself.
  Status repeat() {
    const size_t end = text_.find('}', at_);
    const std::string_view inside = end == text_.npos ? "" : text_.substr(at_ + 1, end - at_ - 1);
    const bool counts = !inside.empty() && inside.front() != ',' &&
                        inside.find_first_not_of("0123456789,") == inside.npos &&
                        inside.find(',') == inside.rfind(',');
    if (!counts) {
      ++at_;
      put_literal('{');
      return Status();
    }
    for (size_t begin = 0; begin < inside.size();) {
      int value = 0;
      const auto [stop, error] = std::from_chars(inside.data() + begin, inside.data() + inside.size(), value);
      if (error != std::errc() || value > kMostRepeats) return wrong("it repeats more than 1000 times");
      begin = static_cast<size_t>(stop - inside.data()) + 1;
    }
    put(text_.substr(at_, end + 1 - at_));
    at_ = end + 1;
    return Status();
  }

  Status open_group() {
    ++at_;
    if (++depth_ > kDeepest) return wrong("groups are nested too deep");
    if (peek() != '?') {
      put("(?:");  // what groups hold is of no matter
      return Status();
    }
    if (accept("?:")) {
      put("(?:");
      return Status();
    }
    if (accept("?P<")) {
      at_ = text_.find('>', at_);
      if (at_ == text_.npos) {
        at_ = text_.size();
        return wrong("a group's name is not closed");
      }
      ++at_;
      put("(?:");
      return Status();
    }
    if (accept("?s)")) {  // to the end of the group around it, which is the pattern where it stands in front
      if (depth_ != 1 || !result_.empty()) return wrong("(?s) is known in front of the whole pattern alone");
      --depth_;
      dot_takes_all_ = true;
      return Status();
    }
    return wrong(peek(1) == '=' || peek(1) == '!' || peek(1) == '<' ? "looking ahead or behind is not RE2's"
                                                                    : "flags are not known here");
  }

  /// A number in that base; false where there are no digits.
  bool number(int base, size_t most, char32_t& value) {
    const std::string_view digits = text_.substr(at_, most);
    uint32_t read = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read, base);
    if (error != std::errc()) return false;
    at_ += static_cast<size_t>(stop - digits.data());
    value = read;
    return value <= 0x10ffff;
  }

  /// Of an escape that stands for one character. False: it is none.
  bool character(char32_t& value) {
    constexpr std::string_view kNames = "afnrtv", kValues = "\a\f\n\r\t\v";
    const char c = peek();
    if (const size_t found = kNames.find(c); c != '\0' && found != kNames.npos) {
      value = static_cast<unsigned char>(kValues[found]);
      ++at_;
      return true;
    }
    if (accept("x{")) return number(16, 8, value) && accept("}");
    if (accept("x")) return number(16, 2, value);
    if (c == '0' || (c >= '1' && c <= '7' && peek(1) >= '0' && peek(1) <= '7')) return number(8, 3, value);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || c == '\0') return false;
    const CodePoint point = code_point_at(text_, at_);
    value = point.value;
    at_ += point.bytes;
    return true;
  }

  /// The classes that both know: of ASCII.
  bool shorthand() {
    constexpr std::string_view kClasses = "dDsSwW";
    if (peek() == '\0' || kClasses.find(peek()) == kClasses.npos) return false;
    // RE2's \s has no \v, ECMAScript's more than ASCII.
    const char c = peek();
    ++at_;
    if (c == 's') put("\t\n\f\r ");
    if (c == 'd') put("0-9");
    if (c == 'w') put("0-9A-Za-z_");
    if (c == 'S') put(R"(\u0001-\u0008\u000b\u000e-\u001f\u0021-)"), result_ += kLast;
    if (c == 'D') put(R"(\u0001-\u002f\u003a-)"), result_ += kLast;
    if (c == 'W') put(R"(\u0001-\u002f\u003a-\u0040\u005b-\u005e\u0060\u007b-)"), result_ += kLast;
    return true;
  }

  Status escape() {
    ++at_;
    if (accept("A")) return put("^"), Status();
    if (accept("z")) return put("$"), Status();
    if (accept("b")) return put("\\b"), Status();
    if (accept("B")) return put("\\B"), Status();
    if (accept("Q")) return quoted();
    if (accept("C")) return wrong("\\C is not known here");
    if (peek() == 'p' || peek() == 'P') return wrong("classes of Unicode are not known here");
    const size_t begin = result_.size();
    put("[");
    if (shorthand()) {
      put("]");
      return Status();
    }
    result_.resize(begin);
    if (peek() >= '1' && peek() <= '9' && !(peek(1) >= '0' && peek(1) <= '7'))
      return wrong("what a group matched is not RE2's to ask for");
    char32_t value = 0;
    if (!character(value)) return wrong("an escape that is none");
    put_literal(value);
    return Status();
  }

  /// Literally up to \E.
  Status quoted() {
    while (at_ < text_.size() && !accept("\\E")) {
      const CodePoint c = code_point_at(text_, at_);
      put_literal(c.value);
      at_ += c.bytes;
    }
    return Status();
  }

  Status bracket() {
    ++at_;
    put("[");
    if (accept("^")) put("^");
    for (bool first = true; first || peek() != ']'; first = false) {
      if (at_ >= text_.size()) return wrong("a class is not closed");
      GANTRY_TRY(bracket_item());
    }
    ++at_;
    put("]");
    return Status();
  }

  Status bracket_item() {
    if (text_.substr(at_).starts_with("[:")) {
      const size_t end = text_.find(":]", at_);
      if (end == text_.npos || text_.substr(at_).starts_with("[:^"))
        return wrong("a class of that name is not known here");
      put(text_.substr(at_, end + 2 - at_));
      at_ = end + 2;
      return Status();
    }
    // Behind a class "-" is one, and so it is at the end; ranges are of two characters.
    if (peek() == '\\' && peek(1) != '\0' && std::string_view("dDsSwW").find(peek(1)) != std::string_view::npos) {
      ++at_;
      shorthand();
      return Status();
    }
    GANTRY_TRY(class_character());
    if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) return Status();
    ++at_;
    result_ += L'-';
    return class_character();
  }

  /// One character of a class.
  Status class_character() {
    char32_t value = 0;
    if (accept("\\")) {
      if (peek() == 'p' || peek() == 'P') return wrong("classes of Unicode are not known here");
      if (!character(value)) return wrong("an escape that is none");
    } else {
      const CodePoint c = code_point_at(text_, at_);
      value = c.value;
      at_ += c.bytes;
    }
    put_literal(value, true);
    return Status();
  }

  static constexpr wchar_t kLast = 0x10ffff;

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool dot_takes_all_ = false;
  std::wstring result_;
};

}  // namespace

Result<std::wstring> ecmascript_of(std::string_view re2) {
  Rewriter rewriter(re2);
  GANTRY_TRY(rewriter.run());
  return rewriter.take();
}

}  // namespace gantry::runtime
