// Words in one case, without stopwords.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {
namespace {

constexpr auto kString = ElementType::kString, kI64 = ElementType::kI64;

enum class Case : int64_t { kNone, kLower, kUpper };

std::string in_case(std::string_view text, Case wanted) {
  if (wanted == Case::kNone) return std::string(text);
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    append_utf8(result, wanted == Case::kLower ? lower_case(c.value) : upper_case(c.value));
    at += c.bytes;
  }
  return result;
}

/// What the call keeps, in the case that it asks for.
Status kept_words(const BuiltinCall& call, std::vector<std::string>& kept) {
  const auto change = static_cast<Case>(call.integers[0]);
  const bool is_case_sensitive = call.integers[1] != 0;
  const auto key = [&](std::string_view word) {
    return in_case(word, is_case_sensitive ? Case::kNone : Case::kLower);
  };
  std::unordered_set<std::string> stopwords;
  if (call.inputs.size() > 1) {
    if (call.inputs[1].type != kString) return bad_call(call);
    for (uint64_t i = 0; i < call.inputs[1].elements; ++i) {
      Result<std::string_view> word = text_at(call, call.inputs[1], i);
      if (!word.ok()) return word.status();
      stopwords.insert(key(*word));
    }
  }
  for (uint64_t i = 0; i < call.inputs[0].elements; ++i) {
    Result<std::string_view> word = text_at(call, call.inputs[0], i);
    if (!word.ok()) return word.status();
    if (!stopwords.contains(key(*word))) kept.push_back(in_case(*word, change));
  }
  if (kept.empty()) kept.emplace_back();
  return Status();
}

}  // namespace

Status count_kept(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString}, {kI64}, 2));
  if (call.outputs[0].elements != 1) return bad_call(call);
  std::vector<std::string> kept;
  GANTRY_TRY(kept_words(call, kept));
  *call.outputs[0].as<int64_t>() = static_cast<int64_t>(kept.size());
  return Status();
}

Status normalize_texts(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString}, {kString}, 2));
  std::vector<std::string> kept;
  GANTRY_TRY(kept_words(call, kept));
  if (call.outputs[0].elements != kept.size()) return bad_call(call);
  for (uint64_t i = 0; i < kept.size(); ++i) GANTRY_TRY(put_text(call, call.outputs[0], i, kept[i]));
  return Status();
}

}  // namespace gantry::runtime
