// Signatures from text.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "host/custom_ops/signature.h"
#include "host/support/error.h"
#include "host/support/words.h"

namespace gantry {
namespace {

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, [&](char c) {
    return letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

/// Split at commas outside of parentheses; none for an empty text.
std::vector<std::string_view> split_outside(std::string_view text) {
  std::vector<std::string_view> parts;
  if (trim(text).empty()) return parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] != ',' || depth != 0) continue;
    parts.push_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  parts.push_back(trim(text.substr(begin)));
  return parts;
}

/// "NAME: REST"; of "NAME" alone no rest.
std::pair<std::string, std::string_view> split_name(std::string_view text, const char* what) {
  const size_t colon = text.find(':');
  const std::string_view name = trim(text.substr(0, colon));
  if (!is_identifier(name)) user_error("'{}': {} begins with a name of letters, digits and _", text, what);
  return {std::string(name),
          colon == std::string_view::npos ? std::string_view() : trim(text.substr(colon + 1))};
}

bool take_end(std::string_view& text, char c) {
  if (text.empty() || text.back() != c) return false;
  text = trim(text.substr(0, text.size() - 1));
  return true;
}

Shape parse_dims(std::string_view text, std::string_view whole, bool& leading) {
  Shape dims;
  const std::vector<std::string_view> parts = split_outside(text);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "...") {
      if (i != 0) user_error("'{}': ... stands in front of the other dimensions", whole);
      leading = true;
      continue;
    }
    if (parts[i].empty()) user_error("'{}': a dimension is missing", whole);
    try {
      dims.push_back(Dim::parse(parts[i]));
    } catch (const Error& error) {
      user_error("'{}': {}", whole, error.what());
    }
  }
  return dims;
}

const std::map<std::string_view, std::pair<AttributeSpec::Kind, bool>>& kinds() {
  using Kind = AttributeSpec::Kind;
  static const std::map<std::string_view, std::pair<Kind, bool>> all = {
      {"int", {Kind::kInteger, false}},   {"ints", {Kind::kInteger, true}},
      {"float", {Kind::kFloat, false}},   {"floats", {Kind::kFloat, true}},
      {"string", {Kind::kString, false}}, {"strings", {Kind::kString, true}}};
  return all;
}

/// The value as one of that kind: an integer is a float as well, and an empty list is one of anything.
CustomAttribute value_of_kind(const AttributeSpec& spec, std::string_view text, std::string_view whole) {
  CustomAttribute value = parse_custom_value(spec.name, text);
  const auto* integers = std::get_if<std::vector<int64_t>>(&value.values);
  if (integers != nullptr && spec.kind == AttributeSpec::Kind::kFloat)
    value.values = std::vector<double>(integers->begin(), integers->end());
  if (integers != nullptr && spec.kind == AttributeSpec::Kind::kString && value.is_list && integers->empty())
    value.values = std::vector<std::string>();
  if (value.values.index() != static_cast<size_t>(spec.kind) || value.is_list != spec.is_list)
    user_error("'{}': its value is of another kind than {}", whole, spec.kind_text());
  return value;
}

/// Symbols that the signature gives values to, as far as they are known.
class KnownSymbols {
 public:
  explicit KnownSymbols(const Signature& signature) {
    for (const AttributeSpec& spec : signature.attributes) {
      const bool has_value = spec.required || spec.otherwise.has_value();
      if (spec.kind == AttributeSpec::Kind::kInteger && !spec.is_list && has_value) names_.insert(spec.name);
    }
  }
  /// An input's dimensions: names become known, expressions are of what is.
  void read_input(const TensorPattern& input) {
    for (const Dim& dim : input.dims) {
      if (!dim.is_symbol()) {
        expect_known(dim, "input " + input.name);
      } else if (!input.optional) {
        names_.insert(dim.str());
      } else {
        optional_names_.insert(dim.str());
      }
    }
  }
  void expect_known(const Dim& dim, const std::string& where) const {
    for (const std::string& symbol : dim.symbols()) {
      if (names_.contains(symbol)) continue;
      const char* why =
          optional_names_.contains(symbol)
              ? "is only the size of an input that may be left out"
              : "is neither the size of an input before it nor an attribute that is an int with a value: "
                "sizes that only the kernel knows cannot be said";
      user_error("{}: {} {}", where, symbol, why);
    }
  }

 private:
  std::set<std::string> names_, optional_names_;
};

void expect_types(const Signature& signature, const TensorPattern& pattern) {
  const bool variable =
      std::ranges::any_of(signature.types, [&](const auto& type) { return type.name == pattern.type; });
  if (!variable && !parse_dtype(pattern.type)) {
    user_error(
        "{}: '{}' is neither an element type, such as f32 or i64, nor one of the types that are listed",
        pattern.name, pattern.type);
  }
}

}  // namespace

std::string AttributeSpec::kind_text() const {
  for (const auto& [text, what] : kinds()) {
    if (what == std::pair(kind, is_list)) return std::string(text);
  }
  internal_error("unknown kind of attribute");
}

TensorPattern parse_tensor_pattern(std::string_view text) {
  TensorPattern pattern;
  std::string_view rest = trim(text);
  pattern.optional = take_end(rest, '?');
  auto [name, type] = split_name(rest, "a tensor");
  pattern.name = std::move(name);
  if (rest.find(':') == std::string_view::npos) return pattern;
  const size_t bracket = type.find('[');
  if (bracket == std::string_view::npos || !take_end(type, ']'))
    user_error("'{}': a tensor is written as \"x: f32[N, C]\"", text);
  pattern.type = trim(type.substr(0, bracket));
  if (!is_identifier(pattern.type)) user_error("'{}': the element type is missing", text);
  pattern.dims = parse_dims(type.substr(bracket + 1), text, pattern.leading);
  return pattern;
}

TypeVariable parse_type_variable(std::string_view text) {
  auto [name, list] = split_name(trim(text), "a type");
  TypeVariable variable{std::move(name), {}};
  if (parse_dtype(variable.name)) user_error("'{}': {} is an element type itself", text, variable.name);
  for (const std::string_view part : split_outside(list)) {
    const auto dtype = parse_dtype(part);
    if (!dtype) user_error("'{}': '{}' is no element type, such as f32 or i64", text, part);
    variable.types.push_back(*dtype);
  }
  if (variable.types.empty()) user_error("'{}': it stands for no element type; write \"T: f32, f64\"", text);
  return variable;
}

AttributeSpec parse_attribute_spec(std::string_view text) {
  auto [name, rest] = split_name(trim(text), "an attribute");
  AttributeSpec spec;
  spec.name = std::move(name);
  const size_t equals = rest.find('=');
  std::string_view kind = trim(rest.substr(0, equals));
  spec.required = !take_end(kind, '?') && equals == std::string_view::npos;
  const auto found = kinds().find(kind);
  if (found == kinds().end())
    user_error("'{}': an attribute is an int, float, string, ints, floats or strings: \"axis: int = -1\"",
               text);
  std::tie(spec.kind, spec.is_list) = found->second;
  if (equals != std::string_view::npos)
    spec.otherwise = value_of_kind(spec, trim(rest.substr(equals + 1)), text);
  return spec;
}

void check_signature(const Signature& signature) {
  std::set<std::string> names;
  const auto expect_new = [&](const std::string& name) {
    if (!names.insert(name).second) user_error("{} stands for two things", name);
  };
  for (const auto* patterns : {&signature.inputs, &signature.outputs}) {
    for (const TensorPattern& pattern : *patterns) expect_new(pattern.name);
  }
  for (const AttributeSpec& spec : signature.attributes) expect_new(spec.name);
  if (signature.outputs.empty()) user_error("it has no outputs");
  KnownSymbols known(signature);
  bool optional = false, leading = false;
  for (const TensorPattern& input : signature.inputs) {
    if (optional && !input.optional)
      user_error("{}: inputs that may be left out stand behind the others", input.name);
    optional = input.optional;
    leading = leading || (input.leading && !input.optional);
    if (input.type.empty()) continue;
    expect_types(signature, input);
    known.read_input(input);
  }
  for (const TensorPattern& output : signature.outputs) {
    if (output.optional)
      user_error("{}: a node may leave out any output, so that none is marked with ?", output.name);
    if (output.type.empty()) continue;
    expect_types(signature, output);
    for (const Dim& dim : output.dims) known.expect_known(dim, "output " + output.name);
    if (output.leading && !leading)
      user_error("{}: no input that must be there has ... in front", output.name);
    const auto says_type = [&](const TensorPattern& input) {
      return input.type == output.type && !input.optional;
    };
    if (!parse_dtype(output.type) && std::ranges::none_of(signature.inputs, says_type))
      user_error("{}: no input that must be there is of type {}", output.name, output.type);
  }
  if (signature.scratch) known.expect_known(*signature.scratch, "scratch");
  for (const Dim& dim : signature.blocks) known.expect_known(dim, "blocks");
  for (const Dim& dim : signature.sizes) known.expect_known(dim, "sizes");
}

}  // namespace gantry
