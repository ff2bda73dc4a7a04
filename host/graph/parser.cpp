// Parser of the text form; its grammar is in text.h.
#include <cstring>
#include <set>

#include "host/graph/graph.h"
#include "host/graph/text.h"
#include "host/support/error.h"

namespace gantry {
namespace {

constexpr std::string_view kLinePrefix = "line ";

/// Characters of the text, with the line for messages.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(std::string_view what) const {
    size_t line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    user_error("{}{} of the graph text: {}", kLinePrefix, line, what);
  }

  /// Skips blanks, line ends and comments.
  void skip() {
    for (;;) {
      while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
      if (text_.substr(at_, 2) != "//") return;
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
  }
  bool at_end() {
    skip();
    return at_ >= text_.size();
  }
  bool accept(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    const char last = token.back(),
               next = at_ + token.size() < text_.size() ? text_[at_ + token.size()] : ' ';
    if (std::isalpha(static_cast<unsigned char>(last)) != 0 && is_plain_name_char(next)) return false;
    at_ += token.size();
    return true;
  }
  /// As accept, but not beyond the end of the line or into a comment.
  bool accept_in_line(std::string_view token) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return text_.substr(at_, token.size()) == token && accept(token);
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("expected '{}'", token));
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  /// A plain or quoted name.
  std::string name() {
    if (peek() == '"') return unquote(quoted());
    const size_t start = at_;
    while (at_ < text_.size() && is_plain_name_char(text_[at_])) ++at_;
    if (at_ == start) fail("expected a name");
    return std::string(text_.substr(start, at_ - start));
  }
  /// A string with its quotes.
  std::string_view quoted() {
    skip();
    const size_t start = at_;
    if (at_ >= text_.size() || text_[at_] != '"') fail("expected a text in quotes");
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) fail("a quote is not closed");
    ++at_;
    return text_.substr(start, at_ - start);
  }
  /// Everything up to an outermost character of `stops`, which is not taken.
  std::string_view until(std::string_view stops) {
    skip();
    const size_t start = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (depth == 0 && stops.find(c) != std::string_view::npos) return text_.substr(start, at_ - start);
      if (c == '"') {
        quoted();
        continue;
      }
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      ++at_;
    }
    fail("the text ends too early");
  }
  /// The comment in the rest of this line, without its slashes; empty if there is none.
  std::string_view trailing_comment() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    if (text_.substr(at_, 2) != "//") return {};
    const size_t start = at_ + 2;
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    return text_.substr(start, at_ - start);
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

std::vector<std::string> parse_origin(std::string_view comment) {
  std::vector<std::string> names;
  size_t at = 0;
  while (at < comment.size()) {
    if (comment[at] == ' ' || comment[at] == ',' || comment[at] == '\r') {
      ++at;
      continue;
    }
    size_t end = at;
    if (comment[at] == '"') {
      for (++end; end < comment.size() && comment[end] != '"'; ++end) end += comment[end] == '\\';
      if (end >= comment.size()) return names;  // a remark of a person, not an origin
      names.push_back(unquote(comment.substr(at, ++end - at)));
    } else {
      end = std::min(comment.find(',', at), comment.size());
      std::string_view name = comment.substr(at, end - at);
      while (name.back() == ' ' || name.back() == '\r') name.remove_suffix(1);
      names.emplace_back(name);
    }
    at = end;
  }
  return names;
}

TensorType parse_type(Cursor& cursor) {
  cursor.expect("Tensor");
  cursor.expect("[");
  TensorType type;
  for (const std::string& dim : split_list(cursor.until(",]"), '(', ')'))
    type.shape.push_back(Dim::parse(dim));
  cursor.expect(",");
  const std::string dtype = cursor.name();
  const auto parsed = parse_dtype(dtype);
  if (!parsed) cursor.fail(fmt::format("'{}' is no dtype", dtype));
  type.dtype = *parsed;
  cursor.expect("]");
  return type;
}

class FunctionParser {
 public:
  FunctionParser(Cursor& cursor, const OpTable& ops, const std::map<std::string, ConstantPtr>& constants,
                 int depth)
      : cursor_(cursor), ops_(ops), constants_(constants), depth_(depth) {}

  /// From behind "fn" to the closing brace.
  Function parse_after_keyword() {
    if (depth_ > kMaxDepth) cursor_.fail("functions are nested too deeply");
    cursor_.expect("@");
    function_.name = cursor_.name();
    parse_parameters();
    const std::vector<TensorType> declared = parse_result_types();
    cursor_.expect("{");
    while (!cursor_.accept("return")) {
      if (cursor_.accept("where")) {
        parse_constraint();
      } else {
        parse_node();
      }
    }
    parse_return(declared);
    cursor_.expect("}");
    for (Value* constant : inline_) function_.rename(constant, "const");
    // Printed constraints are all there are; a text written by hand may leave them to the type rules. What
    // the body of a node needs, the function around it says.
    if (!stated_.empty() || depth_ > 0) function_.constraints = stated_;
    return std::move(function_);
  }

 private:
  static constexpr int kMaxDepth = 16;
  /// Of values that the text gives no name, or not yet: one that no text can hold.
  static constexpr const char* kTemporaryName = "\x01";

  void define(Value* value, const std::string& name) {
    if (value->name != name) cursor_.fail(fmt::format("'{}' is defined twice", name));
    values_[name] = value;
  }

  void parse_parameters() {
    cursor_.expect("(");
    while (!cursor_.accept(")")) {
      if (!function_.parameters.empty()) cursor_.expect(",");
      cursor_.expect("%");
      const std::string name = cursor_.name();
      cursor_.expect(":");
      define(function_.add_parameter(name, parse_type(cursor_)), name);
    }
  }

  std::vector<TensorType> parse_result_types() {
    cursor_.expect("->");
    std::vector<TensorType> types;
    if (cursor_.peek() != '(') return {parse_type(cursor_)};
    cursor_.expect("(");
    while (!cursor_.accept(")")) {
      if (!types.empty()) cursor_.expect(",");
      types.push_back(parse_type(cursor_));
    }
    return types;
  }

  void parse_constraint() {
    DimConstraint constraint;
    constraint.left = Dim::parse(cursor_.until("="));
    cursor_.expect("==");
    std::string right(cursor_.until("\"\n"));
    if (const size_t from = right.rfind(" from"); from != std::string::npos) right.resize(from);
    constraint.right = Dim::parse(right);
    if (cursor_.peek() == '"') constraint.origin = unquote(cursor_.quoted());
    stated_.push_back(std::move(constraint));
  }

  ConstantPtr parse_inline_constant() {
    cursor_.expect("(");
    TensorType type;
    const std::string dtype = cursor_.name();
    const auto parsed = parse_dtype(dtype);
    if (!parsed) cursor_.fail(fmt::format("'{}' is no dtype", dtype));
    type.dtype = *parsed;
    cursor_.expect(",");
    for (const std::string& dim : split_list(cursor_.until(","), '[', ']'))
      type.shape.push_back(Dim::parse(dim));
    cursor_.expect(",");
    const std::vector<std::string> elements = split_list(cursor_.until(")"), '[', ']');
    cursor_.expect(")");
    if (!(element_count(type.shape) == Dim(static_cast<int64_t>(elements.size())))) {
      cursor_.fail(
          fmt::format("a constant of shape {} has {} elements", to_string(type.shape), elements.size()));
    }
    std::byte* at = nullptr;
    auto data = allocate_constant(type, &at);
    for (const std::string& element : elements) {
      if (!parse_element(element, type.dtype, at)) cursor_.fail(fmt::format("'{}' is no {}", element, dtype));
      at += byte_width(type.dtype);
    }
    return data;
  }

  ConstantPtr referred_constant(const std::string& name, const TensorType& type) {
    if (const auto found = constants_.find(name); found != constants_.end()) {
      if (!(found->second->type == type)) {
        cursor_.fail(fmt::format("@{} is a {}, not a {}", name, found->second->type.str(), type.str()));
      }
      return found->second;
    }
    if (!constant_shape(type.shape)) cursor_.fail(fmt::format("the constant @{} has a symbolic shape", name));
    std::byte* bytes = nullptr;
    auto data = allocate_constant(type, &bytes);
    std::memset(bytes, 0, data->size);
    return data;
  }

  Value* parse_named_constant() {
    const std::string name = cursor_.name();
    if (!cursor_.accept(":")) return lookup(name);
    ConstantPtr data = cursor_.accept("const") ? parse_inline_constant() : nullptr;
    if (data == nullptr) {
      const TensorType type = parse_type(cursor_);
      data = referred_constant(name, type);
    }
    Value* value = function_.add_constant(name, data);
    define(value, name);
    return value;
  }

  Value* lookup(const std::string& name) {
    const auto found = values_.find(name);
    if (found == values_.end()) cursor_.fail(fmt::format("'{}' is not defined", name));
    return found->second;
  }

  Value* parse_value() {
    if (cursor_.accept("%")) return lookup(cursor_.name());
    if (cursor_.accept("@")) return parse_named_constant();
    if (cursor_.accept("const")) {
      Value* value = function_.add_constant(kTemporaryName, parse_inline_constant());
      inline_.push_back(value);
      return value;
    }
    cursor_.fail("expected a value");
  }

  void parse_arguments(Node& node, std::map<std::string, std::string>& attrs) {
    cursor_.expect("(");
    bool first = true;
    while (!cursor_.accept(")")) {
      if (!first) cursor_.expect(",");
      first = false;
      if (cursor_.accept("none")) {
        node.inputs.push_back(nullptr);
        continue;
      }
      const char next = cursor_.peek();
      if (next == '%' || next == '@' || cursor_is_constant()) {
        if (!attrs.empty()) cursor_.fail("inputs stand before attributes");
        node.inputs.push_back(parse_value());
        continue;
      }
      const std::string name = cursor_.name();
      cursor_.expect("=");
      if (!attrs.emplace(name, cursor_.until(",)")).second)
        cursor_.fail(fmt::format("'{}' is given twice", name));
    }
  }

  bool cursor_is_constant() {
    const Cursor saved = cursor_;
    const bool constant = cursor_.accept("const") && cursor_.peek() == '(';
    cursor_ = saved;
    return constant;
  }

  void parse_node() {
    std::vector<std::string> names;
    do {
      cursor_.expect("%");
      names.push_back(cursor_.name());
    } while (cursor_.accept(","));
    cursor_.expect("=");
    Node node;  // what the type rule looks at
    const std::string op = cursor_.name();
    node.op = ops_.find(op);
    if (node.op == nullptr) cursor_.fail(fmt::format("there is no op '{}'", op));
    std::map<std::string, std::string> attr_texts;
    parse_arguments(node, attr_texts);
    auto attrs = node.op->handle->make_attrs();
    if (attrs == nullptr) attrs = std::make_shared<NoAttrs>();
    read_attrs(*attrs, attr_texts);
    node.attrs = attrs;
    while (cursor_.accept_in_line("fn")) {
      FunctionParser body(cursor_, ops_, constants_, depth_ + 1);
      node.bodies.push_back(std::make_unique<Function>(body.parse_after_keyword()));
    }
    if (cursor_.accept_in_line("on")) node.placement = parse_placement();
    node.origin = parse_origin(cursor_.trailing_comment());
    add_node(node, names);
  }

  Placement parse_placement() {
    if (cursor_.accept_in_line("cpu")) return Placement::kCpu;
    if (cursor_.accept_in_line("gpu")) return Placement::kGpu;
    cursor_.fail("a node runs 'on cpu' or 'on gpu'");
  }

  void add_node(Node& node, const std::vector<std::string>& names) {
    const std::vector<TensorType> types = ops_.infer(node, function_);
    if (types.size() != names.size()) {
      cursor_.fail(
          fmt::format("the op {} has {} results, not {}", node.op->name, types.size(), names.size()));
    }
    Node* added =
        function_.add_node(node.op, node.attrs, node.inputs, types, node.origin, nullptr, kTemporaryName);
    added->bodies = std::move(node.bodies);
    added->placement = node.placement;
    for (size_t i = 0; i < names.size(); ++i) {
      function_.rename(added->results[i], names[i]);
      define(added->results[i], names[i]);
    }
  }

  void parse_return(const std::vector<TensorType>& declared) {
    while (cursor_.peek() != '}') {
      if (!function_.outputs.empty()) cursor_.expect(",");
      function_.outputs.push_back(parse_value());
      if (cursor_.accept("as")) function_.output_names.push_back(unquote(cursor_.quoted()));
    }
    bool match = declared.size() == function_.outputs.size();
    for (size_t i = 0; match && i < declared.size(); ++i) match = declared[i] == function_.outputs[i]->type;
    if (!match) cursor_.fail("the returned values are not of the types that the function declares");
  }

  Cursor& cursor_;
  const OpTable& ops_;
  const std::map<std::string, ConstantPtr>& constants_;
  int depth_;
  Function function_;
  std::map<std::string, Value*> values_;
  std::vector<Value*> inline_;
  std::vector<DimConstraint> stated_;
};

Graph parse_all(Cursor& cursor, const OpTable& ops, const std::map<std::string, ConstantPtr>& constants) {
  Graph graph;
  if (cursor.accept("model")) graph.model_name = unquote(cursor.quoted());
  cursor.expect("fn");
  graph.main = FunctionParser(cursor, ops, constants, 0).parse_after_keyword();
  if (!cursor.at_end()) cursor.fail("unexpected text behind the function");
  return graph;
}

}  // namespace

Graph parse_graph(std::string_view text, const OpTable& ops,
                  const std::map<std::string, ConstantPtr>& constants) {
  Cursor cursor(text);
  try {
    return parse_all(cursor, ops, constants);
  } catch (const Error& error) {
    // Dimensions, attributes and type rules do not know the line.
    if (error.kind() != ErrorKind::kUser || std::string_view(error.what()).starts_with(kLinePrefix)) throw;
    cursor.fail(error.what());
  }
}

}  // namespace gantry
