// The builtins, a file a family, and what they share.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device_runtime/src/builtins.h"

namespace gantry::runtime {

// Each as the op of its name says (host/ops/text.h).
Status concat_texts(const BuiltinCall& call);
Status count_parts(const BuiltinCall& call);
Status split_texts(const BuiltinCall& call);
Status count_kept(const BuiltinCall& call);
Status normalize_texts(const BuiltinCall& call);
Status match_texts(const BuiltinCall& call);
Status count_tokens(const BuiltinCall& call);
Status put_tokens(const BuiltinCall& call);
Status format_numbers(const BuiltinCall& call);
Status parse_numbers(const BuiltinCall& call);
Status rank_texts(const BuiltinCall& call);
// As host/ops/encoded_image.h says.
Status measure_image(const BuiltinCall& call);
Status decode_image(const BuiltinCall& call);

/// INVALID_MODULE unless the call has at least so many inputs and outputs of these types, and so many
/// integers. Outputs are not checked against the shapes of inputs.
Status check_call(const BuiltinCall& call, std::initializer_list<ElementType> inputs,
                  std::initializer_list<ElementType> outputs, size_t integers = 0);
/// INVALID_MODULE: the builtin cannot be called so.
Status bad_call(const BuiltinCall& call);
/// The string of element `index`.
Result<std::string_view> text_at(const BuiltinCall& call, const BuiltinTensor& tensor, uint64_t index);
/// Gives the string a number and makes that element `index`.
Status put_text(const BuiltinCall& call, const BuiltinTensor& tensor, uint64_t index, std::string_view text);
/// The text in quotes for messages, cut where it is long, without control characters.
std::string shown(std::string_view text);

/// A code point of UTF-8 text, and how many bytes it takes: what is no UTF-8 is a byte each, as U+DC80 to
/// U+DCFF.
struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;
};
CodePoint code_point_at(std::string_view text, size_t at);
/// The inverse, of those bytes too.
void append_utf8(std::string& text, char32_t value);

/// Unicode's simple case mapping.
char32_t lower_case(char32_t value);
char32_t upper_case(char32_t value);
/// All code points that it changes, each with what it makes of it: first to lower, then to upper case.
std::vector<std::pair<char32_t, char32_t>> case_pairs();
/// Whether Python's str.split divides there.
bool is_white_space(char32_t value);

}  // namespace gantry::runtime
