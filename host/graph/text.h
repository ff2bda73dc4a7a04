// What printer and parser of the text form share.
//
//   gir 1                                                 // optional: the version of the form
//   model "tiny"                                          // optional
//   weights "tiny.gir.weights"                            // optional: where constants are that stand beside it
//   passes simplify_inference, fold_constant              // optional: what it has been through
//   fn @main(%x: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {
//     where N in 1..8                                     // optional: what a symbol of the inputs may be
//     where N == M from "Add_0"                           // constraints
//     %0 = nn.dense(%x, @w: Tensor[(4, 4), f32])  // Gemm_0
//     %1, %2 = split(%0, axis=1)                          // several results
//     %3: Tensor[(N, 2), f32] = nn.relu(%1)               // with its type, which the rule must not contradict
//     %4 = clip(%3, none, const(f32, [], [6]))            // absent input, inline constant
//     %5 = fused(%4, @w) fn @add(%a: …, %b: …) -> … {     // bodies follow the arguments
//       …
//     } on gpu  // Add_1, Relu_1                          // where it runs, if that is decided
//     %6 = nn.conv(%5, @k, …) {form=direct, block=32}     // how it is computed, if that is (host/graph/decision.h)
//     %7 = nn.dense(%6, @p, units=10) by (weight_block=8) // what was made of it for that (AttrVisitor::choices())
//     return %5 as "y"
//   }
//
// A constant is declared where it is used first: `@name: Tensor[…]` refers to bytes held elsewhere, there
// under the same name or, with `from "entry"` behind it, under another; `@name: const(dtype, [dims],
// [elements])` holds them; later uses are `@name`. Small ones used once need no name. Names with characters
// other than letters, digits and _ . $ / - stand in quotes: %"my input". The comment behind a node holds its
// origin. docs/ir.md has the grammar.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "host/graph/graph.h"
#include "host/support/error.h"

namespace gantry {

/// Constants with at most this many elements, and all that are strings, stand inline in the text form.
constexpr int kMaxInlineElements = 16;
/// The version of the form that `gir 1` names.
constexpr int kTextVersion = 1;

/// The text in double quotes, with ", \, line ends and control characters escaped.
std::string quote(std::string_view text);
/// True for characters of names that need no quotes.
bool is_plain_name_char(char c);

/// Names of the model's nodes as they stand in the comment behind a node, and back. What a person has written there
/// instead may be read as names, or end them.
std::string origin_text(const std::vector<std::string>& names);
std::vector<std::string> parse_origin(std::string_view comment);

/// "const(f32, [2], [1, 2])". Floats print with the fewest digits that read back as the same bits; NaN, f16
/// and bf16 as bit patterns ("0x7fc00000"); strings in quotes.
std::string print_constant(const ConstantData& constant);
/// Stores one element as printed by print_constant at `target`; false if the text does not fit the dtype.
bool parse_element(std::string_view text, DType dtype, std::byte* target);

/// A user error at a place of a text, which who knows the text and its name makes a message of (located()).
class TextError : public Error {
 public:
  TextError(size_t place, const std::string& what) : Error(ErrorKind::kUser, what), place_(place) {}
  /// Offset into the text.
  size_t place() const { return place_; }

 private:
  size_t place_;
};

/// A value of an attribute, and where it stands.
struct AttrText {
  std::string text;
  size_t place = 0;       ///< of the value in the text
  size_t name_place = 0;  ///< of its name
  bool is_choice = false;  ///< it stands in `by (…)`, where only choices do; these may stand among the others, too
};

/// Assigns fields from their printed values ("[1, 2]", "true", …), dimensions under `sizes` of symbols.
/// Throws TextError that names the attribute, and those that there are where there is none of that name; `op`
/// is for that message.
void read_attrs(Attrs& attrs, const std::map<std::string, AttrText>& values, std::string_view op,
                const std::map<std::string, Dim>& sizes);
/// Inside of "[…]" or "(…)" split at its outermost commas, trimmed. A user error if the brackets are not
/// there.
std::vector<std::string> split_list(std::string_view text, char open, char close);
/// Undoes quote(); a user error if it is not a quoted string.
std::string unquote(std::string_view text);

}  // namespace gantry
