// Attributes from text.
#include <charconv>
#include <type_traits>

#include "host/graph/text.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry {
namespace {

class AttrReader : public AttrVisitor {
 public:
  AttrReader(const std::map<std::string, AttrText>& values, const std::map<std::string, Dim>& sizes)
      : unread_(values), sizes_(sizes) {}

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
    if (!dtype) fail(name, *text, "an element type, such as f32 or i64");
    value = *dtype;
  }
  void operator()(std::string_view name, Dim& value) override {
    if (const auto text = take(name)) value = dim(*text);
  }
  void operator()(std::string_view name, std::vector<int64_t>& value) override { numbers(name, value); }
  void operator()(std::string_view name, std::vector<double>& value) override { numbers(name, value); }
  void operator()(std::string_view name, Shape& value) override {
    const auto text = take(name);
    if (!text) return;
    value.clear();
    for (const std::string& item : split_list(*text, '(', ')')) value.push_back(dim(item));
  }

  /// What the op has no attributes for.
  const std::map<std::string, AttrText>& unread() const { return unread_; }
  /// Of the value that was read last.
  size_t place() const { return place_; }

 protected:
  bool takes_usual(std::string_view name, bool) override { return !unread_.contains(std::string(name)); }
  void enumeration_index(std::string_view name, int64_t& index,
                         std::span<const std::string_view> names) override {
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
    if (found->second.is_choice && !in_choices())
      throw TextError(found->second.name_place,
                      fmt::format("attribute '{}' says what the op means: it stands with its "
                                  "inputs, not behind 'by', where it says how it is computed",
                                  name));
    std::string text = std::move(found->second.text);
    place_ = found->second.place;
    unread_.erase(found);
    return text;
  }

  Dim dim(std::string_view text) const { return Dim::parse(text).substitute(sizes_); }

  template <typename T>
  static T number(std::string_view name, std::string_view text) {
    T value{};
    if constexpr (std::is_floating_point_v<T>) {
      if (text.starts_with("0x") && parse_element(text, DType::kF64, reinterpret_cast<std::byte*>(&value)))
        return value;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) fail(name, text, "a number that fits into 64 bits");
    if (error != std::errc() || end != text.data() + text.size())
      fail(name, text, std::is_floating_point_v<T> ? "a number" : "a whole number");
    return value;
  }

  template <typename T>
  void numbers(std::string_view name, std::vector<T>& value) {
    const auto text = take(name);
    if (!text) return;
    value.clear();
    for (const std::string& item : split_list(*text, '[', ']')) value.push_back(number<T>(name, item));
  }

  std::map<std::string, AttrText> unread_;
  const std::map<std::string, Dim>& sizes_;
  size_t place_ = 0;
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
    if (text[i] == '"') user_error("{} is more than one quoted text", text);
    if (text[i] != '\\') {
      plain += text[i];
      continue;
    }
    const std::string_view escape = text.substr(i + 1, text.size() - i - 2);
    if (escape.starts_with('"') || escape.starts_with('\\')) {
      plain += escape[0];
      i += 1;
    } else if (escape.starts_with('n')) {
      plain += '\n';
      i += 1;
    } else {
      unsigned code = 0;
      const char* digits = escape.data() + 1;
      if (escape.size() < 3 || escape[0] != 'x' || std::from_chars(digits, digits + 2, code, 16).ptr != digits + 2)
        user_error("a \\ in a quoted text stands before \", \\, n, or x and two hexadecimal digits");
      plain += static_cast<char>(code);
      i += 3;
    }
  }
  return plain;
}

void read_attrs(Attrs& attrs, const std::map<std::string, AttrText>& values, std::string_view op,
                const std::map<std::string, Dim>& sizes) {
  AttrReader reader(values, sizes);
  try {
    attrs.fields(reader);
  } catch (const TextError&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    throw TextError(reader.place(), error.what());
  }
  if (reader.unread().empty()) return;
  const auto& [name, text] = *reader.unread().begin();
  const std::vector<std::string> known = attr_names(attrs);
  const std::string all = known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "));
  const std::string hint = did_you_mean(name, known);
  throw TextError(text.name_place, fmt::format("{} has no attribute '{}'{} it has {}", op, name,
                                               hint.empty() ? ";" : hint, all));
}

}  // namespace gantry
