// Strings in parts, as Python's str.split divides them.
#include <algorithm>
#include <string>
#include <vector>

#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {
namespace {

constexpr auto kString = ElementType::kString, kI64 = ElementType::kI64;
using Parts = std::vector<std::string_view>;

size_t skip_white_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = code_point_at(text, at);
    if (!is_white_space(c.value)) break;
    at += c.bytes;
  }
  return at;
}

size_t end_of_word(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = code_point_at(text, at);
    if (is_white_space(c.value)) break;
    at += c.bytes;
  }
  return at;
}

/// What stands between white space; after `most` divisions the rest without white space in front, but with
/// that behind it.
void split_words(std::string_view text, int64_t most, Parts& parts) {
  for (size_t at = skip_white_space(text, 0); at < text.size();) {
    if (most >= 0 && parts.size() == static_cast<uint64_t>(most)) {
      parts.push_back(text.substr(at));
      return;
    }
    const size_t end = end_of_word(text, at);
    parts.push_back(text.substr(at, end - at));
    at = skip_white_space(text, end);
  }
}

void split(std::string_view text, std::string_view delimiter, int64_t most, Parts& parts) {
  parts.clear();
  if (delimiter.empty()) return split_words(text, most, parts);
  for (size_t at = 0;;) {
    const bool goes_on = most < 0 || parts.size() < static_cast<uint64_t>(most);
    const size_t end = goes_on ? text.find(delimiter, at) : std::string_view::npos;
    parts.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    if (end == std::string_view::npos) return;
    at = end + delimiter.size();
  }
}

}  // namespace

Status count_parts(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString}, {kI64, kI64}, 1));
  const uint64_t count = call.inputs[0].elements;
  if (call.outputs[0].elements != count || call.outputs[1].elements != 1) return bad_call(call);
  Parts parts;
  int64_t most = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Result<std::string_view> text = text_at(call, call.inputs[0], i);
    if (!text.ok()) return text.status();
    split(*text, call.text, call.integers[0], parts);
    const auto found = static_cast<int64_t>(parts.size());
    call.outputs[0].as<int64_t>()[i] = found;
    most = std::max(most, found);
  }
  *call.outputs[1].as<int64_t>() = most;
  return Status();
}

Status split_texts(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString}, {kString}, 1));
  const BuiltinTensor& result = call.outputs[0];
  const uint64_t count = call.inputs[0].elements;
  if (result.shape.empty()) return bad_call(call);
  const auto width = static_cast<uint64_t>(result.shape.back());
  uint64_t wanted = 0;
  if (__builtin_mul_overflow(count, width, &wanted) || result.elements != wanted) return bad_call(call);
  Parts parts;
  for (uint64_t i = 0; i < count; ++i) {
    Result<std::string_view> text = text_at(call, call.inputs[0], i);
    if (!text.ok()) return text.status();
    split(*text, call.text, call.integers[0], parts);
    for (uint64_t k = 0; k < width; ++k)
      GANTRY_TRY(put_text(call, result, i * width + k, k < parts.size() ? parts[k] : std::string_view()));
  }
  return Status();
}

}  // namespace gantry::runtime
