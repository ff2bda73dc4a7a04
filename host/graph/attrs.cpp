#include "host/graph/attrs.h"

#include <typeinfo>

#include "host/graph/text.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// Writes "name=value" for every field, in order.
class AttrPrinter : public AttrVisitor {
 public:
  void operator()(std::string_view name, int64_t& value) override { field(name, std::to_string(value)); }
  void operator()(std::string_view name, double& value) override { field(name, fmt::format("{}", value)); }
  void operator()(std::string_view name, bool& value) override { field(name, value ? "true" : "false"); }
  void operator()(std::string_view name, std::string& value) override { field(name, quote(value)); }
  void operator()(std::string_view name, DType& value) override { field(name, name_of(value)); }
  void operator()(std::string_view name, Dim& value) override { field(name, value.str()); }
  void operator()(std::string_view name, std::vector<int64_t>& value) override {
    field(name, fmt::format("[{}]", fmt::join(value, ", ")));
  }
  void operator()(std::string_view name, std::vector<double>& value) override {
    field(name, fmt::format("[{}]", fmt::join(value, ", ")));
  }
  void operator()(std::string_view name, Shape& value) override { field(name, to_string(value)); }

  std::string text;

 protected:
  void enumeration_index(std::string_view name, int64_t& index,
                         std::initializer_list<std::string_view> names) override {
    internal_check(index >= 0 && index < static_cast<int64_t>(names.size()),
                   "attribute {} has no enumerator {}", name, index);
    field(name, names.begin()[index]);
  }

 private:
  void field(std::string_view name, std::string_view value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
};

}  // namespace

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string to_string(const Attrs& attrs) {
  AttrPrinter printer;
  attrs.clone()->fields(printer);  // visitors may assign, so fields() is not const
  return printer.text;
}

bool equal(const Attrs& a, const Attrs& b) {
  return &a == &b || (typeid(a) == typeid(b) && to_string(a) == to_string(b));
}

}  // namespace gantry
