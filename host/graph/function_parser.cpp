#include "host/graph/function_parser.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry {
namespace {

constexpr int kMaxDepth = 16;

void expect_name(const std::string& name, size_t place) {
  if (name.empty()) TextCursor::fail_at(place, "a name cannot be empty");
}

}  // namespace

void FunctionParser::expect_size(const TensorType& type, size_t place) {
  at_place(place, [&] { return type.byte_size(); });
}

bool FunctionParser::says(const std::vector<DimConstraint>& constraints, const DimConstraint& wanted) {
  return std::ranges::any_of(constraints, [&](const DimConstraint& c) {
    return (c.left == wanted.left && c.right == wanted.right) ||
           (c.left == wanted.right && c.right == wanted.left);
  });
}

Function FunctionParser::parse_after_keyword() {
  if (depth_ > kMaxDepth) cursor_.fail("functions are nested too deeply");
  cursor_.expect("@");
  function_.name = cursor_.name("the function's name");
  parse_parameters();
  cursor_.expect("->");
  const size_t types_place = cursor_.place();
  const std::vector<TensorType> declared = parse_result_types();
  cursor_.expect("{");
  while (!cursor_.accept("return")) {
    if (cursor_.accept("where")) {
      parse_constraint();
    } else {
      if (cursor_.peek() != '%') cursor_.fail_expected("a node ('%name = op(…)'), 'where' or 'return'");
      parse_node();
    }
  }
  parse_return(declared, types_place);
  cursor_.expect("}");
  for (Value* constant : inline_) function_.rename(constant, "const");
  settle_constraints();
  return std::move(function_);
}

void FunctionParser::settle_constraints() {
  needed_.insert(needed_.begin(), function_.constraints.begin(), function_.constraints.end());
  if (context_.program == nullptr) {
    // Printed constraints are all there are; a text written by hand may leave them to the type rules. What
    // the body of a node needs, the function around it says.
    if (!stated_.empty() || depth_ > 0) function_.constraints = stated_;
    return;
  }
  function_.constraints = stated_;
  if (depth_ > 0) return;
  for (const DimConstraint& constraint : needed_) {
    if (!says(function_.constraints, constraint)) function_.constraints.push_back(constraint);
  }
}

void FunctionParser::need(const Dim& left, const Dim& right, const Node& node) {
  if (left == right) return;
  std::string origin;
  for (const std::string& name : node.origin) origin += (origin.empty() ? "" : ", ") + name;
  needed_.push_back({left, right, origin});
}

void FunctionParser::define(Value* value, const std::string& name, size_t place) {
  expect_name(name, place);
  if (value->name != name) TextCursor::fail_at(place, fmt::format("'{}' is defined twice", name));
  values_[name] = value;
}

Value* FunctionParser::lookup(char sigil, size_t place) {
  const std::string name = cursor_.name(sigil == '@' ? "a constant's name" : "a value's name");
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, value] : values_) names.push_back(known);
  TextCursor::fail_at(place, fmt::format("{}{} is not defined before this{}", sigil, name,
                                         did_you_mean(name, names)));
}

// --- types

Dim FunctionParser::parse_dim(std::string_view stops) {
  const size_t place = cursor_.place();
  const std::string_view text = cursor_.until(stops);
  return at_place(place, [&] {
    const Dim dim = Dim::parse(text);
    return context_.sizes.empty() ? dim : dim.substitute(context_.sizes);
  });
}

Shape FunctionParser::parse_shape(char open, char close) {
  const std::string stops = {',', close};
  Shape shape;
  cursor_.list(open, close, [&] {
    const size_t place = cursor_.place();
    shape.push_back(parse_dim(stops));
    if (shape.size() > kMaxRank)
      TextCursor::fail_at(place, fmt::format("a tensor has {} dimensions at most", kMaxRank));
    const auto size = shape.back().constant();
    if (size && *size < 0) TextCursor::fail_at(place, fmt::format("a dimension cannot be {}", *size));
  });
  return shape;
}

DType FunctionParser::parse_dtype_name() {
  const size_t place = cursor_.place();
  const std::string name = cursor_.name("an element type, such as f32 or i64");
  const auto dtype = parse_dtype(name);
  if (!dtype) {
    std::string all;
    for (int i = 0; i < kDTypeCount; ++i) {
      all += fmt::format("{}{}",
                         i == 0                ? ""
                         : i + 1 < kDTypeCount ? ", "
                                               : " and ",
                         name_of(static_cast<DType>(i)));
    }
    TextCursor::fail_at(place, fmt::format("'{}' is no element type; there are {}", name, all));
  }
  return *dtype;
}

TensorType FunctionParser::parse_type() {
  if (!cursor_.accept("Tensor")) cursor_.fail_expected("a type, such as Tensor[(N, 4), f32]");
  cursor_.expect("[");
  TensorType type;
  type.shape = parse_shape('(', ')');
  cursor_.expect(",");
  type.dtype = parse_dtype_name();
  cursor_.expect("]");
  return type;
}

void FunctionParser::parse_parameters() {
  std::vector<size_t> places;
  cursor_.list('(', ')', [&] {
    cursor_.expect("%");
    const size_t place = cursor_.place();
    const std::string name = cursor_.name("a parameter's name");
    cursor_.expect(":");
    define(function_.add_parameter(name, parse_type()), name, place);
    places.push_back(place);
  });
  fix_sizes();
  for (size_t i = 0; i < places.size(); ++i) expect_size(function_.parameters[i]->type, places[i]);
}

void FunctionParser::fix_sizes() {
  if (depth_ > 0 || context_.program == nullptr || !context_.program->fix_sizes) return;
  context_.sizes = context_.program->fix_sizes(function_.parameters);
  for (Value* parameter : function_.parameters) {
    for (Dim& dim : parameter->type.shape) dim = dim.substitute(context_.sizes);
  }
}

std::vector<TensorType> FunctionParser::parse_result_types() {
  if (cursor_.peek() != '(') return {parse_type()};
  std::vector<TensorType> types;
  cursor_.list('(', ')', [&] { types.push_back(parse_type()); });
  return types;
}

void FunctionParser::expect_symbol_of_inputs(const std::string& symbol, size_t place) {
  if (!ranged_.insert(symbol).second)
    TextCursor::fail_at(place, fmt::format("{} has a range already", symbol));
  if (context_.sizes.contains(symbol)) return;  // a size that is given stands in its place
  std::vector<std::string> symbols;
  for (const Value* parameter : function_.parameters) {
    for (const Dim& dim : parameter->type.shape)
      std::ranges::move(dim.symbols(), std::back_inserter(symbols));
  }
  if (std::ranges::find(symbols, symbol) == symbols.end())
    TextCursor::fail_at(place,
                        fmt::format("no input has a dimension {}{}", symbol, did_you_mean(symbol, symbols)));
}

/// N in 1..8, behind which dimensions of that name have the range.
void FunctionParser::parse_range(std::string_view symbol, std::string_view range, size_t place) {
  const auto number = [&](std::string_view text) {
    const std::optional<int64_t> value = at_place(place, [&] { return Dim::parse(text).constant(); });
    if (!value || *value < 0) TextCursor::fail_at(place, fmt::format("'{}' is no end of a range", text));
    return *value;
  };
  const size_t dots = range.find("..");
  DimRange limits{number(range.substr(0, dots)), DimRange().high};
  if (const std::string_view high = range.substr(dots + 2); !high.empty()) limits.high = number(high);
  if (limits.low > limits.high) TextCursor::fail_at(place, fmt::format("the range {} is empty", range));
  if (depth_ > 0) TextCursor::fail_at(place, "ranges are those of @main's parameters");
  expect_symbol_of_inputs(std::string(symbol), place);
  const Dim limited = at_place(place, [&] { return Dim::symbol(symbol, limits); });
  if (context_.sizes.contains(std::string(symbol))) {
    const Dim& given = context_.sizes.at(std::string(symbol));
    const auto size = given.constant();
    if (size && (*size < limits.low || *size > limits.high))
      TextCursor::fail_at(place, fmt::format("the size {} that {} is given is not in {}", *size, symbol, range));
    return;
  }
  context_.sizes.emplace(symbol, limited);
  for (Value* parameter : function_.parameters) {
    for (Dim& dim : parameter->type.shape) dim = dim.substitute(context_.sizes);
  }
}

void FunctionParser::parse_constraint() {
  DimConstraint constraint;
  const size_t place = cursor_.place();
  const std::string_view left = cursor_.until("=/\n");
  if (const size_t in = left.find(" in "); in != std::string_view::npos && left.find("..", in) != std::string_view::npos)
    return parse_range(trim(left.substr(0, in)), left.substr(in + 4), place);
  constraint.left = at_place(place, [&] { return Dim::parse(left).substitute(context_.sizes); });
  cursor_.expect("==");
  const size_t right_place = cursor_.place();
  std::string_view right = cursor_.until("\"/\n");  // the origin, a comment, or the line's end
  const bool has_origin = cursor_.peek() == '"' && right.ends_with(" from");
  if (has_origin) right.remove_suffix(std::strlen(" from"));
  constraint.right =
      at_place(right_place, [&] { return Dim::parse(right).substitute(context_.sizes); });
  if (has_origin) constraint.origin = cursor_.string();
  if (!context_.sizes.empty()) {  // it may be settled by sizes that somebody gives
    if (constraint.left == constraint.right) return;
    if (provably_different(constraint.left, constraint.right)) {
      TextCursor::fail_at(place, fmt::format("the sizes given do not fit: {} is not {} here{}",
                                             constraint.left.str(), constraint.right.str(),
                                             constraint.origin.empty() ? "" : ", for " + constraint.origin));
    }
  }
  stated_.push_back(std::move(constraint));
}

// --- what it returns

void FunctionParser::check_output_names(size_t place) const {
  std::vector<std::string> names = function_.output_names;
  if (names.empty()) {
    if (context_.program == nullptr || depth_ > 0) return;
    for (const Value* output : function_.outputs) names.push_back(output->name);
  }
  if (names.size() != function_.outputs.size())
    TextCursor::fail_at(place, "some of the returned values have names (as \"…\"), others not");
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    TextCursor::fail_at(place, fmt::format("two returned values are called {}", quote(*twice)));
}

void FunctionParser::parse_return(const std::vector<TensorType>& declared, size_t declared_place) {
  const size_t place = cursor_.place();
  while (cursor_.peek() != '}') {
    if (!function_.outputs.empty() && !cursor_.accept(",")) cursor_.fail_expected("',' or '}'");
    function_.outputs.push_back(parse_value());
    if (!cursor_.accept("as")) continue;
    const size_t name_place = cursor_.place();
    function_.output_names.push_back(cursor_.string());
    expect_name(function_.output_names.back(), name_place);
  }
  check_output_names(place);
  if (context_.program != nullptr && depth_ == 0 && function_.outputs.empty())
    TextCursor::fail_at(place, "a program returns at least one value");
  if (declared.size() != function_.outputs.size()) {
    TextCursor::fail_at(declared_place, fmt::format("the function declares {} results, but returns {}",
                                                    declared.size(), function_.outputs.size()));
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    const TensorType& type = function_.outputs[i]->type;
    if (declared[i] == type) continue;
    TextCursor::fail_at(declared_place,
                        fmt::format("the function declares its result {} to be a {}, but returns a {}", i,
                                    declared[i].str(), type.str()));
  }
}

}  // namespace gantry
