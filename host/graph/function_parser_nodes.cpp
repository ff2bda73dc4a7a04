// Nodes of graph text, and the constants and values that are their inputs.
#include <cstring>

#include "host/graph/function_parser.h"
#include "host/support/suggest.h"

namespace gantry {
namespace {

/// Of constants that parse_graph() fills with zeros.
constexpr int64_t kMaxZeros = int64_t{4} << 30;
/// Of values that the text gives no name, or not yet: one that no text can hold.
constexpr const char* kTemporaryName = "\x01";

}  // namespace

// --- constants

ConstantPtr FunctionParser::parse_inline_constant() {
  cursor_.expect("(");
  TensorType type;
  type.dtype = parse_dtype_name();
  cursor_.expect(",");
  const size_t shape_place = cursor_.place();
  type.shape = parse_shape('[', ']');
  cursor_.expect(",");
  const size_t place = cursor_.place();
  std::vector<std::byte> bytes;
  const auto width = static_cast<size_t>(byte_width(type.dtype));
  int64_t count = 0;
  cursor_.list('[', ']', [&] {
    const size_t element_place = cursor_.place();
    const std::string_view element = cursor_.until(",]");
    bytes.resize(bytes.size() + width);
    if (!parse_element(element, type.dtype, bytes.data() + bytes.size() - width)) {
      const bool by_bits =
          type.dtype == DType::kF16 || type.dtype == DType::kBF16 || is_small_float(type.dtype);
      TextCursor::fail_at(element_place, fmt::format("'{}' is no {}{}", element, name_of(type.dtype),
                                                     by_bits ? "; it is written as its bits: 0x3c" : ""));
    }
    ++count;
  });
  cursor_.expect(")");
  if (!constant_shape(type.shape)) TextCursor::fail_at(shape_place, "a constant has no symbolic dimensions");
  const Dim wanted = at_place(shape_place, [&] { return element_count(type.shape); });
  if (!(wanted == Dim(count))) {
    TextCursor::fail_at(place, fmt::format("{} elements are given for a constant of shape {}, which has {}",
                                           count, to_string(type.shape), wanted.str()));
  }
  return make_constant(type, bytes.data());
}

ConstantPtr FunctionParser::referred_constant(const std::string& entry, const TensorType& type,
                                              size_t place) {
  if (!constant_shape(type.shape))
    TextCursor::fail_at(place, fmt::format("the constant @{} has a symbolic shape", entry));
  const Dim bytes = at_place(place, [&] { return type.byte_size(); });
  if (context_.program != nullptr && type.dtype == DType::kString)
    TextCursor::fail_at(
        place, fmt::format("the strings of @{} stand in the text: const(string, …, [\"…\"])", entry));
  if (context_.program != nullptr) {
    ConstantPtr& known = context_.entries[entry];
    if (known == nullptr || !(known->type == type))
      known = at_place(place, [&] { return context_.program->weights->find(entry, type); });
    return known;
  }
  if (const auto found = context_.constants->find(entry); found != context_.constants->end()) {
    if (!(found->second->type == type)) {
      TextCursor::fail_at(place,
                          fmt::format("@{} is a {}, not a {}", entry, found->second->type.str(), type.str()));
    }
    return found->second;
  }
  if (bytes.value() > kMaxZeros)
    TextCursor::fail_at(place, fmt::format("the constant @{} is not given, and too large for zeros", entry));
  std::byte* storage = nullptr;
  auto data = at_place(place, [&] { return allocate_constant(type, &storage); });
  if (data->size > 0) std::memset(storage, 0, data->size);
  return data;
}

Value* FunctionParser::parse_named_constant(size_t place) {
  const TextCursor before = cursor_;
  const std::string name = cursor_.name("a constant's name");
  if (!cursor_.accept(":")) {
    cursor_ = before;
    return lookup('@', place);
  }
  ConstantPtr data;
  if (cursor_.accept("const")) {
    data = parse_inline_constant();
  } else {
    const TensorType type = parse_type();
    data = referred_constant(cursor_.accept("from") ? cursor_.string() : name, type, place);
  }
  Value* value = function_.add_constant(name, data);
  define(value, name, place);
  return value;
}

// --- nodes

Value* FunctionParser::add_inline_constant() {
  inline_.push_back(function_.add_constant(kTemporaryName, parse_inline_constant()));
  return inline_.back();
}

Value* FunctionParser::parse_value() {
  const size_t place = cursor_.place();
  if (cursor_.accept("%")) return lookup('%', place);
  if (cursor_.accept("@")) return parse_named_constant(place);
  if (cursor_.accept_call("const")) return add_inline_constant();
  cursor_.fail_expected("a value (%name, @name or const(…))");
}

void FunctionParser::add_input(Node& node, Value* value, size_t place, bool behind_attributes) {
  if (behind_attributes) TextCursor::fail_at(place, "inputs stand before attributes");
  node.inputs.push_back(value);
}

void FunctionParser::parse_argument(Node& node, std::map<std::string, AttrText>& attrs) {
  const size_t place = cursor_.place();
  const char next = cursor_.peek();
  if (next == '%' || next == '@') return add_input(node, parse_value(), place, !attrs.empty());
  const std::string name = cursor_.name("an input, an attribute or ')'");
  if (name == "none" && cursor_.peek() != '=') return add_input(node, nullptr, place, !attrs.empty());
  if (name == "const" && cursor_.peek() == '(')
    return add_input(node, add_inline_constant(), place, !attrs.empty());
  parse_attr(name, place, false, attrs);
}

void FunctionParser::parse_choice(std::map<std::string, AttrText>& attrs) {
  const size_t place = cursor_.place();
  parse_attr(cursor_.name("an attribute or ')'"), place, true, attrs);
}

void FunctionParser::parse_attr(const std::string& name, size_t place, bool is_choice,
                                std::map<std::string, AttrText>& attrs) {
  cursor_.expect("=");
  const size_t value_place = cursor_.place();
  const std::string_view text = cursor_.until(",)");
  if (!attrs.emplace(name, AttrText{std::string(text), value_place, place, is_choice}).second)
    TextCursor::fail_at(place, fmt::format("'{}' is given twice", name));
}

FunctionParser::Declared FunctionParser::parse_result() {
  Declared result;
  cursor_.expect("%");
  result.place = cursor_.place();
  result.name = cursor_.name("a value's name");
  if (!cursor_.accept(":")) return result;
  result.type_place = cursor_.place();
  result.type = parse_type();
  return result;
}

void FunctionParser::parse_node() {
  std::vector<Declared> results;
  do results.push_back(parse_result());
  while (cursor_.accept(","));
  cursor_.expect("=");
  Node node;  // what the type rule looks at
  const size_t place = cursor_.place();
  const std::string op = cursor_.name("the name of an op");
  node.op = ops_.find(op);
  if (node.op == nullptr)
    TextCursor::fail_at(place, fmt::format("there is no op '{}'{}", op, did_you_mean(op, ops_.names())));
  std::map<std::string, AttrText> attr_texts;
  cursor_.list('(', ')', [&] { parse_argument(node, attr_texts); });
  if (cursor_.accept_in_line("by")) cursor_.list('(', ')', [&] { parse_choice(attr_texts); });
  auto attrs = node.op->handle->make_attrs();
  if (attrs == nullptr) attrs = std::make_shared<NoAttrs>();
  read_attrs(*attrs, attr_texts, op, context_.sizes);
  node.attrs = attrs;
  while (cursor_.accept_in_line("fn")) {
    FunctionParser body(context_, depth_ + 1);
    node.bodies.push_back(std::make_unique<Function>(body.parse_after_keyword()));
    for (const DimConstraint& needed : body.needed()) {
      if (!says(node.bodies.back()->constraints, needed)) needed_.push_back(needed);
    }
  }
  if (cursor_.accept_in_line("on")) node.placement = parse_placement();
  node.decision = parse_decision_in_line();
  node.origin = parse_origin(cursor_.trailing_comment());
  add_node(node, results, place);
}

Placement FunctionParser::parse_placement() {
  if (cursor_.accept_in_line("cpu")) return Placement::kCpu;
  if (cursor_.accept_in_line("gpu")) return Placement::kGpu;
  cursor_.fail("a node runs 'on cpu' or 'on gpu'");
}

std::optional<Decision> FunctionParser::parse_decision_in_line() {
  if (!cursor_.accept_in_line("{")) return std::nullopt;
  const size_t place = cursor_.place();
  const size_t line = cursor_.line();
  const std::string text(cursor_.until("}\n"));
  cursor_.expect("}");
  Decision decision = at_place(place, [&] { return parse_decision("{" + text + "}"); });
  if (context_.program != nullptr) decision.place = fmt::format("{}:{}", context_.program->name, line);
  return decision;
}

std::vector<TensorType> FunctionParser::inferred_types(const Node& node, size_t place) {
  try {
    return ops_.infer(node, function_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    const std::string op = node.op->name, what = error.what();
    TextCursor::fail_at(place, what.starts_with(op) ? what : op + ": " + what);
  }
}

TensorType FunctionParser::agreed_type(const Declared& result, const TensorType& inferred, const Node& node) {
  if (!result.type || *result.type == inferred) return inferred;
  if (!may_be_equal(*result.type, inferred)) {
    TextCursor::fail_at(result.type_place, fmt::format("%{} is declared a {}, but {} gives a {}", result.name,
                                                       result.type->str(), node.op->name, inferred.str()));
  }
  for (size_t i = 0; i < inferred.shape.size(); ++i) need(result.type->shape[i], inferred.shape[i], node);
  return *result.type;
}

void FunctionParser::add_node(Node& node, std::vector<Declared>& results, size_t place) {
  std::vector<TensorType> types = inferred_types(node, place);
  if (types.size() != results.size()) {
    TextCursor::fail_at(results.front().place, fmt::format("the op {} has {} results, not {}", node.op->name,
                                                           types.size(), results.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    types[i] = agreed_type(results[i], types[i], node);
    expect_size(types[i], results[i].place);
  }
  Node* added = function_.add_node(node.op, node.attrs, node.inputs, std::move(types), node.origin, nullptr,
                                   kTemporaryName);
  added->bodies = std::move(node.bodies);
  added->placement = node.placement;
  added->decision = node.decision;
  for (size_t i = 0; i < results.size(); ++i) {
    function_.rename(added->results[i], results[i].name);
    define(added->results[i], results[i].name, results[i].place);
  }
}

}  // namespace gantry
