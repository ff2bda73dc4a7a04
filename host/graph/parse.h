// Reading and writing graph text that comes from a file: what graph.h's print() and parse_graph() do not
// need for tests and dumps.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// Constants that stand beside a text.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// The text names this file for them, relative to itself. Throws a user error if it cannot be read.
  virtual void open(const std::string& file) = 0;
  /// The entry of that name, which the text says is of that type. Throws a user error if there is none, or it
  /// is of another type.
  virtual ConstantPtr find(const std::string& entry, const TensorType& type) = 0;
};

/// How a whole program is read, which somebody may have written by hand, or made to do harm.
struct ProgramSource {
  std::string name;                 ///< of the text in messages: "m.gir"
  WeightSource* weights = nullptr;  ///< never null
  /// With which names of symbols begin that others have put into the text; messages leave it out, wherever it
  /// stands.
  std::string mark;
  /// Sizes that symbols get, asked once the parameters of @main are known; may be empty.
  std::function<std::map<std::string, Dim>(const std::vector<Value*>& parameters)> fix_sizes;
};

/// Parses a program of the ops of `ops`, that may say that it has been through those of `passes`, by their names.
/// Beyond what parse_graph() checks: it returns at least one value, each under a name of its
/// own; every constraint that its type rules and declared types need is one of the graph's,
/// whatever the text states; constants beside it are those of `source.weights`. User errors name the text,
/// line and column, show the line, and say what was expected.
Graph parse_program(std::string_view text, const OpTable& ops, const std::vector<std::string>& passes,
                    const ProgramSource& source);

/// Constants of a printed program that stand beside it, in the order of their first use: entry, bytes. Equal
/// pointers are one entry.
using WeightEntries = std::vector<std::pair<std::string, ConstantPtr>>;
/// The program so that parse_program() makes the same graph of it: with names for all constants, and with
/// the types of results that their rules would not infer just so. `weights_file` is named in it if there are
/// `weights`.
std::string print_program(const Graph& graph, const OpTable& ops, const std::string& weights_file,
                          WeightEntries& weights);

/// Whether the bytes begin as the text form does: with one of its words, behind blanks and comments.
bool is_graph_text(std::string_view bytes);

/// "m.gir:2:8: WHAT", or "line 2, column 8 of the graph text: WHAT" without a name; then the line and a caret
/// below its place. Columns count characters from 1.
std::string located(std::string_view text, const std::string& name, size_t place, std::string_view what);

}  // namespace gantry
