#include "host/loops/custom_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "host/support/error.h"

namespace gantry {
namespace {

std::string text_of(int64_t value) {
  return std::to_string(value);
}

std::string text_of(double value) {
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string text_of(const std::string& value) {
  std::string text = "'";
  for (const char c : value) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      text += '\\';
      text += c;
    } else if (code < 0x20) {
      text += fmt::format("\\x{:02x}", code);
    } else {
      text += c;
    }
  }
  return text + "'";
}

std::string text_of(const CustomAttribute& attribute) {
  const auto join = [&](const auto& values) {
    std::string text;
    for (const auto& value : values) text += (text.empty() ? "" : ", ") + text_of(value);
    // A list of no floats is told from one of no integers.
    const char* of_none = attribute.values.index() == 0   ? ""
                          : attribute.values.index() == 1 ? "float"
                                                          : "string";
    return attribute.is_list ? fmt::format("[{}]", text.empty() ? of_none : text) : text;
  };
  return std::visit(join, attribute.values);
}

/// Reads values from a text, from the left.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' was expected", c));
  }
  std::string name() {
    skip_blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '=' && text_[at_] != ' ' && text_[at_] != ',') ++at_;
    if (begin == at_) fail("a name was expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  CustomAttribute value(std::string name) {
    CustomAttribute attribute{std::move(name), {}, accept('[')};
    if (!attribute.is_list) {
      add(attribute, true);
      return attribute;
    }
    bool first = true;
    for (; !accept(']'); first = false) {
      if (!first) expect(',');
      if (first && accept_word("float")) {
        attribute.values = std::vector<double>();
      } else if (first && accept_word("string")) {
        attribute.values = std::vector<std::string>();
      } else {
        add(attribute, first);
      }
    }
    return attribute;
  }
  [[noreturn]] void fail(std::string_view what) const {
    user_error("attributes '{}': at character {}: {}", text_, at_ + 1, what);
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  template <typename T>
  void put(CustomAttribute& attribute, bool first, T value) {
    if (first) attribute.values = std::vector<T>();
    auto* values = std::get_if<std::vector<T>>(&attribute.values);
    if (values == nullptr) fail("the values of a list are of one kind");
    values->push_back(std::move(value));
  }
  void add(CustomAttribute& attribute, bool first) {
    if (accept('\'')) return put(attribute, first, quoted('\''));
    if (accept('"')) return put(attribute, first, quoted('"'));
    skip_blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && std::string_view(",] \t\n").find(text_[at_]) == std::string_view::npos)
      ++at_;
    const std::string_view token = text_.substr(begin, at_ - begin);
    const char *first_char = token.data(), *last = token.data() + token.size();
    int64_t integer = 0;
    if (const auto [end, code] = std::from_chars(first_char, last, integer);
        code == std::errc() && end == last)
      return put(attribute, first, integer);
    double number = 0;
    if (const auto [end, code] = std::from_chars(first_char, last, number);
        code == std::errc() && end == last)
      return put(attribute, first, number);
    at_ = begin;
    fail("a number or a quoted string was expected");
  }
  std::string quoted(char quote) {
    std::string value;
    while (!accept_raw(quote)) {
      if (at_ == text_.size()) fail("a string has no end");
      if (!accept_raw('\\')) {
        value += text_[at_++];
      } else if (accept_raw('x')) {
        unsigned code = 0;
        const std::string_view digits = text_.substr(at_, 2);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
        if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2)
          fail("two hexadecimal digits were expected");
        value += static_cast<char>(code);
        at_ += 2;
      } else {
        if (at_ == text_.size()) fail("a string has no end");
        value += text_[at_++];
      }
    }
    return value;
  }
  bool accept_raw(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string text_of(const CustomCall::Tensor& tensor) {
  if (!tensor.present) return "none";
  if (tensor.buffer >= 0) return fmt::format("buffer {}: {}", tensor.buffer, tensor.type.str());
  std::string bytes;
  for (const char c : tensor.immediate) bytes += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return fmt::format("bytes 0x{}: {}", bytes, tensor.type.str());
}

}  // namespace

std::string to_string(const std::vector<CustomAttribute>& attributes) {
  std::string text;
  for (const CustomAttribute& attribute : attributes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", attribute.name, text_of(attribute));
  return text;
}

std::vector<CustomAttribute> parse_custom_attributes(std::string_view text) {
  ValueReader reader(text);
  std::vector<CustomAttribute> attributes;
  while (!reader.at_end()) {
    if (!attributes.empty()) reader.expect(',');
    std::string name = reader.name();
    reader.expect('=');
    attributes.push_back(reader.value(std::move(name)));
  }
  return attributes;
}

CustomAttribute parse_custom_value(std::string name, std::string_view text) {
  ValueReader reader(text);
  CustomAttribute attribute = reader.value(std::move(name));
  if (!reader.at_end()) reader.fail("nothing more was expected");
  return attribute;
}

std::string to_string(const CustomCall& call) {
  std::string text = fmt::format("  custom {}, function {}, code {}\n", call.code->op, call.code->function,
                                 call.code->digest);
  for (const CustomCall::Tensor& input : call.inputs) text += "    input " + text_of(input) + "\n";
  for (const CustomCall::Tensor& output : call.outputs) text += "    output " + text_of(output) + "\n";
  if (!call.attributes.empty()) text += "    " + to_string(call.attributes) + "\n";
  if (call.scratch >= 0)
    text += fmt::format("    scratch buffer {}: {} bytes\n", call.scratch, call.scratch_bytes.str());
  return text;
}

}  // namespace gantry
