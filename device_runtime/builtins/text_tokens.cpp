// Strings in tokens, as com.microsoft's Tokenizer finds them.
#include <algorithm>
#include <vector>

#include "device_runtime/builtins/functions.h"
#include "device_runtime/builtins/pattern.h"

namespace gantry::runtime {
namespace {

constexpr auto kString = ElementType::kString, kI64 = ElementType::kI64;
// What stands in front of the tokens of a text, and behind them, where they are marked.
constexpr std::string_view kBegin = "\x02", kEnd = "\x03";

using Tokens = std::vector<std::string_view>;

/// Calls `take` with each text's number and its tokens, without marks.
template <typename Take>
Status for_each_text(const BuiltinCall& call, Take take) {
  Result<const Pattern*> pattern = pattern_of(call.text);
  if (!pattern.ok()) return pattern.status();
  const auto least = static_cast<size_t>(std::max<int64_t>(call.integers[0], 1));
  for (uint64_t i = 0; i < call.inputs[0].elements; ++i) {
    Result<std::string_view> text = text_at(call, call.inputs[0], i);
    if (!text.ok()) return text.status();
    GANTRY_TRY(take(i, (*pattern)->find(*text, least)));
  }
  return Status();
}

}  // namespace

Status count_tokens(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString}, {kI64}, 2));
  if (call.outputs[0].elements != 1) return bad_call(call);
  size_t most = 0;
  GANTRY_TRY(for_each_text(call, [&](uint64_t, const Tokens& tokens) {
    most = std::max(most, tokens.size());
    return Status();
  }));
  const bool marked = call.integers[1] != 0 && most > 0;
  *call.outputs[0].as<int64_t>() = static_cast<int64_t>(most) + (marked ? 2 : 0);
  return Status();
}

Status put_tokens(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kString, kString}, {kString}, 2));
  const BuiltinTensor& result = call.outputs[0];
  if (result.shape.empty() || call.inputs[1].elements != 1) return bad_call(call);
  const auto width = static_cast<uint64_t>(result.shape.back());
  uint64_t wanted = 0;
  if (__builtin_mul_overflow(call.inputs[0].elements, width, &wanted) || result.elements != wanted)
    return bad_call(call);
  Result<std::string_view> pad = text_at(call, call.inputs[1], 0);
  if (!pad.ok()) return pad.status();
  const bool marked = call.integers[1] != 0;
  Tokens row;
  return for_each_text(call, [&](uint64_t i, const Tokens& tokens) -> Status {
    row.assign(tokens.begin(), tokens.end());
    if (marked) {
      row.insert(row.begin(), kBegin);
      row.push_back(kEnd);
    }
    row.resize(width, *pad);
    for (uint64_t k = 0; k < width; ++k) GANTRY_TRY(put_text(call, result, i * width + k, row[k]));
    return Status();
  });
}

}  // namespace gantry::runtime
