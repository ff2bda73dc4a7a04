#include "device_runtime/builtins/pattern.h"

#include <new>
#include <optional>
#include <regex>

#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {

struct Pattern::Compiled {
  std::wregex regex;
};

Pattern::Pattern() = default;
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

// std::regex throws: here alone exceptions are known, and none goes on.
Result<Pattern> Pattern::compile(std::string_view re2) {
  Result<std::wstring> text = ecmascript_of(re2);
  if (!text.ok()) return text.status();
  Pattern pattern;
  try {
    using namespace std::regex_constants;
    pattern.compiled_ =
        std::make_unique<Compiled>(Compiled{std::wregex(*text, ECMAScript | nosubs | __polynomial)});
  } catch (const std::regex_error& error) {
    return failure(GANTRY_INVALID_ARGUMENT, "the pattern %s: %s", shown(re2).c_str(), error.what());
  } catch (const std::bad_alloc&) {
    return failure(GANTRY_OUT_OF_MEMORY, "the pattern %s is too large", shown(re2).c_str());
  }
  return pattern;
}

Result<bool> Pattern::matches(std::string_view text) const {
  constexpr size_t kMostBytes = size_t{1} << 20;
  if (text.size() > kMostBytes)
    return failure(GANTRY_INVALID_ARGUMENT, "a text of %s is longer than patterns are looked for in",
                   byte_text(static_cast<double>(text.size())).c_str());
  std::wstring points;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    points += static_cast<wchar_t>(c.value);
    at += c.bytes;
  }
  try {
    return std::regex_match(points, compiled_->regex);
  } catch (const std::exception& error) {
    return failure(GANTRY_OUT_OF_MEMORY, "a pattern and %s: %s", shown(text).c_str(), error.what());
  }
}

Status match_texts(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {ElementType::kString}, {ElementType::kBool}));
  if (call.outputs[0].elements != call.inputs[0].elements) return bad_call(call);
  // A thread runs one plan at a time, over and over: its last pattern is the next one, most often.
  thread_local std::string known;
  thread_local std::optional<Pattern> pattern;
  if (!pattern || known != call.text) {
    Result<Pattern> compiled = Pattern::compile(call.text);
    if (!compiled.ok()) return compiled.status();
    pattern = std::move(*compiled);
    known = call.text;
  }
  for (uint64_t i = 0; i < call.inputs[0].elements; ++i) {
    Result<std::string_view> text = text_at(call, call.inputs[0], i);
    if (!text.ok()) return text.status();
    Result<bool> hit = pattern->matches(*text);
    if (!hit.ok()) return hit.status();
    call.outputs[0].as<uint8_t>()[i] = *hit ? 1 : 0;
  }
  return Status();
}

}  // namespace gantry::runtime
