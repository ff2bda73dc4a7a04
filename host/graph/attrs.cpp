#include "host/graph/attrs.h"

#include <bit>
#include <cmath>
#include <typeinfo>

#include "host/graph/text.h"
#include "host/support/error.h"

namespace gantry {
namespace {

struct FieldText {
  std::string_view name;
  std::string text;
  bool has_usual = false, is_usual = false;  ///< of filled() and always(): its default is no struct's
  bool is_choice = false;
};

/// Takes the text of every field, in order.
class FieldTexts : public AttrVisitor {
 public:
  void operator()(std::string_view name, int64_t& value) override { field(name, std::to_string(value)); }
  void operator()(std::string_view name, double& value) override { field(name, number(value)); }
  void operator()(std::string_view name, bool& value) override { field(name, value ? "true" : "false"); }
  void operator()(std::string_view name, std::string& value) override { field(name, quote(value)); }
  void operator()(std::string_view name, DType& value) override { field(name, name_of(value)); }
  void operator()(std::string_view name, Dim& value) override { field(name, value.str()); }
  void operator()(std::string_view name, std::vector<int64_t>& value) override {
    field(name, fmt::format("[{}]", fmt::join(value, ", ")));
  }
  void operator()(std::string_view name, std::vector<double>& value) override {
    std::vector<std::string> numbers;
    for (const double each : value) numbers.push_back(number(each));
    field(name, fmt::format("[{}]", fmt::join(numbers, ", ")));
  }
  void operator()(std::string_view name, Shape& value) override { field(name, to_string(value)); }

  std::vector<FieldText> fields;

 protected:
  bool takes_usual(std::string_view, bool is_usual) override {
    has_usual_ = true;
    is_usual_ = is_usual;
    return false;
  }
  void enumeration_index(std::string_view name, int64_t& index,
                         std::span<const std::string_view> names) override {
    internal_check(index >= 0 && index < static_cast<int64_t>(names.size()),
                   "attribute {} has no enumerator {}", name, index);
    field(name, names[static_cast<size_t>(index)]);
  }

 private:
  /// NaN by its bits, of which there are many.
  static std::string number(double value) {
    return std::isnan(value) ? fmt::format("{:#x}", std::bit_cast<uint64_t>(value)) : fmt::format("{}", value);
  }
  void field(std::string_view name, std::string_view value) {
    fields.push_back({name, std::string(value), has_usual_, is_usual_, in_choices()});
    has_usual_ = is_usual_ = false;
  }

  bool has_usual_ = false, is_usual_ = false;  ///< of the field that comes next
};

std::vector<FieldText> texts_of(const Attrs& attrs) {
  FieldTexts visitor;
  attrs.clone()->fields(visitor);  // visitors may assign, so fields() is not const
  return std::move(visitor.fields);
}

void append(std::string& text, const FieldText& field) {
  text += fmt::format("{}{}={}", text.empty() ? "" : ", ", field.name, field.text);
}

}  // namespace

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string to_string(const Attrs& attrs) {
  std::string text;
  for (const FieldText& field : texts_of(attrs)) append(text, field);
  return text;
}

AttrTexts texts(const Attrs& attrs, const Attrs& defaults) {
  const std::vector<FieldText> given = texts_of(attrs), untouched = texts_of(defaults);
  internal_check(given.size() == untouched.size(), "attributes of one op have {} and {} fields", given.size(),
                 untouched.size());
  AttrTexts texts;
  for (size_t i = 0; i < given.size(); ++i) {
    const bool at_default = given[i].has_usual ? given[i].is_usual : given[i].text == untouched[i].text;
    if (!at_default) append(given[i].is_choice ? texts.choices : texts.meaning, given[i]);
  }
  return texts;
}

std::vector<std::string> attr_names(const Attrs& attrs) {
  std::vector<std::string> names;
  for (const FieldText& field : texts_of(attrs)) names.emplace_back(field.name);
  return names;
}

bool equal(const Attrs& a, const Attrs& b) {
  return &a == &b || (typeid(a) == typeid(b) && to_string(a) == to_string(b));
}

}  // namespace gantry
