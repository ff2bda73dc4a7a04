// Attributes from text.
#include <charconv>

#include "host/graph/text.h"
#include "host/support/error.h"

namespace gantry {
namespace {

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

class AttrReader : public AttrVisitor {
 public:
  explicit AttrReader(const std::map<std::string, std::string>& values) : unread_(values) {}

  void operator()(std::string_view name, int64_t& value) override {
    if (const auto text = take(name)) value = number<int64_t>(name, *text);
  }
  void operator()(std::string_view name, double& value) override {
    if (const auto text = take(name)) value = number<double>(name, *text);
  }
  void operator()(std::string_view name, bool& value) override {
    const auto text = take(name);
    if (!text) return;
    if (*text != "true" && *text != "false") fail(name, *text, "true or false");
    value = *text == "true";
  }
  void operator()(std::string_view name, std::string& value) override {
    if (const auto text = take(name)) value = unquote(*text);
  }
  void operator()(std::string_view name, DType& value) override {
    const auto text = take(name);
    if (!text) return;
    const auto dtype = parse_dtype(*text);
    if (!dtype) fail(name, *text, "a dtype");
    value = *dtype;
  }
  void operator()(std::string_view name, Dim& value) override {
    if (const auto text = take(name)) value = Dim::parse(*text);
  }
  void operator()(std::string_view name, std::vector<int64_t>& value) override { numbers(name, value); }
  void operator()(std::string_view name, std::vector<double>& value) override { numbers(name, value); }
  void operator()(std::string_view name, Shape& value) override {
    const auto text = take(name);
    if (!text) return;
    value.clear();
    for (const std::string& item : split_list(*text, '(', ')')) value.push_back(Dim::parse(item));
  }

  /// A user error if the text has attributes that the op has not.
  void finish() const {
    if (!unread_.empty()) user_error("there is no attribute '{}'", unread_.begin()->first);
  }

 protected:
  bool takes_usual(std::string_view name, bool) override { return !unread_.contains(std::string(name)); }
  void enumeration_index(std::string_view name, int64_t& index,
                         std::initializer_list<std::string_view> names) override {
    const auto text = take(name);
    if (!text) return;
    int64_t at = 0;
    for (const std::string_view candidate : names) {
      if (candidate == *text) {
        index = at;
        return;
      }
      ++at;
    }
    fail(name, *text, fmt::format("one of {}", fmt::join(names, ", ")));
  }

 private:
  [[noreturn]] static void fail(std::string_view name, std::string_view text, std::string_view wanted) {
    user_error("attribute '{}' is '{}' but must be {}", name, text, wanted);
  }

  std::optional<std::string> take(std::string_view name) {
    const auto found = unread_.find(std::string(name));
    if (found == unread_.end()) return std::nullopt;
    std::string text = std::move(found->second);
    unread_.erase(found);
    return text;
  }

  template <typename T>
  static T number(std::string_view name, std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail(name, text, "a number");
    return value;
  }

  template <typename T>
  void numbers(std::string_view name, std::vector<T>& value) {
    const auto text = take(name);
    if (!text) return;
    value.clear();
    for (const std::string& item : split_list(*text, '[', ']')) value.push_back(number<T>(name, item));
  }

  std::map<std::string, std::string> unread_;
};

}  // namespace

std::vector<std::string> split_list(std::string_view text, char open, char close) {
  text = trim(text);
  if (text.size() < 2 || text.front() != open || text.back() != close) {
    user_error("'{}' is no list in '{}' and '{}'", text, open, close);
  }
  text = trim(text.substr(1, text.size() - 2));
  std::vector<std::string> items;
  if (text.empty()) return items;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == ']') --depth;
    if (text[i] == ',' && depth == 0) {
      items.emplace_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  items.emplace_back(trim(text.substr(start)));
  return items;
}

std::string unquote(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') user_error("{} is no quoted text", text);
  std::string plain;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    ++i;
    if (text[i] == 'n') {
      plain += '\n';
    } else if (text[i] == 'x' && i + 3 < text.size()) {
      unsigned code = 0;
      std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16);
      plain += static_cast<char>(code);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

void read_attrs(Attrs& attrs, const std::map<std::string, std::string>& values) {
  AttrReader reader(values);
  attrs.fields(reader);
  reader.finish();
}

}  // namespace gantry
