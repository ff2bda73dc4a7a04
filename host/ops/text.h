// Ops that make strings or look into them. Kernels know a string by its number, and can move and compare it;
// these are calls of the runtime's builtins (device_runtime/src/builtins.h), on the CPU.
#pragma once

#include <string>

#include "host/graph/attrs.h"
#include "host/graph/graph.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// How a text is divided: at each `delimiter`; where that is empty, at runs of white space, of which those at
/// the ends go. `most`: divisions from the left; -1: all.
struct SplitAttrs : AttrsOf<SplitAttrs> {
  std::string delimiter;
  int64_t most = -1;
  void fields(AttrVisitor& visit) override {
    visit("delimiter", delimiter);
    visit("most", most);
  }
};
struct SplitIntoAttrs : AttrsOf<SplitIntoAttrs> {
  std::string delimiter;
  int64_t most = -1;
  Dim parts = 0;
  void fields(AttrVisitor& visit) override {
    visit("delimiter", delimiter);
    visit("most", most);
    visit("parts", parts);
  }
};

enum class CaseChange : uint8_t { kNone, kLower, kUpper };
/// Words of a vector without stopwords, in another case. `is_case_sensitive`: stopwords are compared before
/// the case is changed, else regardless of it.
struct NormalizeAttrs : AttrsOf<NormalizeAttrs> {
  CaseChange change = CaseChange::kNone;
  bool is_case_sensitive = false;
  Dim kept = 0;  ///< of text.normalize alone: how many words stay
  void fields(AttrVisitor& visit) override {
    visit.enumeration("change", change, {"none", "lower", "upper"});
    visit("is_case_sensitive", is_case_sensitive);
    visit("kept", kept);
  }
};

struct MatchAttrs : AttrsOf<MatchAttrs> {
  std::string pattern;  ///< a regular expression in RE2's syntax, which the whole of a text is to match
  void fields(AttrVisitor& visit) override { visit.always("pattern", pattern); }
};

/// The tokens of a text: what matches the pattern (of RE2's syntax) from left to right, each as long as it
/// can be, of at least `least` characters. `mark`: with U+0002 in front of them and U+0003 behind.
struct TokenAttrs : AttrsOf<TokenAttrs> {
  std::string pattern;
  int64_t least = 1;
  bool mark = false;
  Dim width = 0;  ///< of text.tokens alone: the extent of its last axis
  void fields(AttrVisitor& visit) override {
    visit.always("pattern", pattern);
    visit("least", least);
    visit("mark", mark);
    visit("width", width);
  }
};

/// The shortest decimal number from which a value of so many significand bits is read back, where those are
/// not the element type's own; 0: they are. `least`: exponent of the type's smallest step.
struct FormatAttrs : AttrsOf<FormatAttrs> {
  int64_t bits = 0, least = 0;
  void fields(AttrVisitor& visit) override {
    visit("bits", bits);
    visit("least", least);
  }
};

struct ParseAttrs : AttrsOf<ParseAttrs> {
  DType to = DType::kF32;
  void fields(AttrVisitor& visit) override { visit.always("to", to); }
};

namespace text {
/// concat(a, b): one behind the other, broadcast as NumPy does.
inline constexpr Op<NoAttrs> concat{"text.concat"};
/// split_counts(x): into how many parts each is divided, i64 of x's shape, and the most of them, i64 (1).
inline constexpr Op<SplitAttrs> split_counts{"text.split_counts"};
/// split(x): the parts along a new last axis of extent `parts`, filled up with empty strings.
inline constexpr Op<SplitIntoAttrs> split{"text.split"};
/// kept_count(x, stopwords?): how many words of the vector stay, i64 (1).
inline constexpr Op<NormalizeAttrs> kept_count{"text.kept_count"};
/// normalize(x, stopwords?): those words; where none stays, one that is empty.
inline constexpr Op<NormalizeAttrs> normalize{"text.normalize"};
/// matches(x): bool of x's shape.
inline constexpr Op<MatchAttrs> matches{"text.matches"};
/// token_count(x): the most tokens that a text has, i64 (1), and 2 more for marks where that is not 0.
inline constexpr Op<TokenAttrs> token_count{"text.token_count"};
/// tokens(x, pad): those along a new last axis of extent `width`, filled up with the one string of `pad`.
inline constexpr Op<TokenAttrs> tokens{"text.tokens"};
/// format(x): numbers as text, as NumPy prints them.
inline constexpr Op<FormatAttrs> format{"text.format"};
/// parse(x): the numbers that texts say. A text that says none ends the run with an error.
inline constexpr Op<ParseAttrs> parse{"text.parse"};
/// ranks(x): i64 of x's shape that compare as the texts do, byte by byte.
inline constexpr Op<NoAttrs> ranks{"text.ranks"};
}  // namespace text

/// Whether an op takes strings as inputs, or gives them: those that move elements, compare them for equality,
/// or are builtins.
bool takes_strings(const OpBase& op);

}  // namespace gantry
