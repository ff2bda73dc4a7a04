// One function of graph text; its nodes are in function_parser_nodes.cpp, what stands around in parser.cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/graph/parse.h"
#include "host/graph/text_cursor.h"

namespace gantry {

/// What all functions of a text share.
struct ParseContext {
  TextCursor cursor;
  const OpTable& ops;
  /// Of parse_graph(): constants beside the text, by name; those that it lacks are zeros.
  const std::map<std::string, ConstantPtr>* constants = nullptr;
  /// Of parse_program().
  const ProgramSource* program = nullptr;
  /// Of parse_program(): what the text may have been through.
  const std::vector<std::string>* passes = nullptr;
  std::map<std::string, Dim> sizes;             ///< of symbols that are fixed
  std::map<std::string, ConstantPtr> entries;  ///< of the weights, as far as they were read
};

class FunctionParser {
 public:
  FunctionParser(ParseContext& context, int depth)
      : context_(context), cursor_(context.cursor), ops_(context.ops), depth_(depth) {}

  /// From behind "fn" to the closing brace.
  Function parse_after_keyword();
  /// Constraints of type rules in it and its bodies, for who has a function around it.
  const std::vector<DimConstraint>& needed() const { return needed_; }

 private:
  struct Declared {
    std::string name;
    size_t place = 0;
    std::optional<TensorType> type;
    size_t type_place = 0;
  };

  /// Refuses one that does not fit into 64 bits where it stands, and not where its size is asked for first.
  static void expect_size(const TensorType& type, size_t place);
  /// Whether it is among them, either way round.
  static bool says(const std::vector<DimConstraint>& constraints, const DimConstraint& wanted);
  void define(Value* value, const std::string& name, size_t place);
  Value* lookup(char sigil, size_t place);
  Dim parse_dim(std::string_view stops);
  TensorType parse_type();
  Shape parse_shape(char open, char close);
  DType parse_dtype_name();
  void parse_parameters();
  void fix_sizes();
  std::vector<TensorType> parse_result_types();
  void parse_constraint();
  /// Fails where no input has it, or where it has a range already.
  void expect_symbol_of_inputs(const std::string& symbol, size_t place);
  void parse_range(std::string_view symbol, std::string_view range, size_t place);
  ConstantPtr parse_inline_constant();
  ConstantPtr referred_constant(const std::string& entry, const TensorType& type, size_t place);
  Value* parse_named_constant(size_t place);
  Value* add_inline_constant();
  Value* parse_value();
  static void add_input(Node& node, Value* value, size_t place, bool behind_attributes);
  void parse_argument(Node& node, std::map<std::string, AttrText>& attrs);
  void parse_choice(std::map<std::string, AttrText>& attrs);
  /// What stands behind the name.
  void parse_attr(const std::string& name, size_t place, bool is_choice,
                  std::map<std::string, AttrText>& attrs);
  Declared parse_result();
  void parse_node();
  Placement parse_placement();
  /// What stands behind the node in braces, if anything.
  std::optional<Decision> parse_decision_in_line();
  std::vector<TensorType> inferred_types(const Node& node, size_t place);
  void add_node(Node& node, std::vector<Declared>& results, size_t place);
  TensorType agreed_type(const Declared& result, const TensorType& inferred, const Node& node);
  void parse_return(const std::vector<TensorType>& declared, size_t declared_place);
  void check_output_names(size_t place) const;
  void settle_constraints();
  void need(const Dim& left, const Dim& right, const Node& node);

  ParseContext& context_;
  TextCursor& cursor_;
  const OpTable& ops_;
  int depth_;
  Function function_;
  std::map<std::string, Value*> values_;
  std::vector<Value*> inline_;
  std::set<std::string> ranged_;  ///< symbols
  std::vector<DimConstraint> stated_;
  std::vector<DimConstraint> needed_;
};

}  // namespace gantry
