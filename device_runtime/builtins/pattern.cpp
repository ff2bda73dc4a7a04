#include "device_runtime/builtins/pattern.h"

#include <new>
#include <optional>
#include <regex>

#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {

struct Pattern::Compiled {
  std::wregex regex;
};

namespace {

/// The code points of a text, and the byte at which each begins; behind them the text's size.
struct Points {
  std::wstring values;
  std::vector<size_t> bytes;
};

Result<Points> points_of(std::string_view text) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  if (text.size() > kMostBytes)
    return failure(GANTRY_INVALID_ARGUMENT, "a text of %s is longer than patterns are looked for in",
                   byte_text(static_cast<double>(text.size())).c_str());
  Points points;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    points.values += static_cast<wchar_t>(c.value);
    points.bytes.push_back(at);
    at += c.bytes;
  }
  points.bytes.push_back(text.size());
  return points;
}

Status search_failed(std::string_view text, const char* what) {
  return failure(GANTRY_OUT_OF_MEMORY, "a pattern and %s: %s", shown(text).c_str(), what);
}

}  // namespace

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
  Result<Points> points = points_of(text);
  if (!points.ok()) return points.status();
  try {
    return std::regex_match(points->values, compiled_->regex);
  } catch (const std::exception& error) {
    return search_failed(text, error.what());
  }
}

Status Pattern::find(std::string_view text, size_t least, std::vector<std::string_view>& found) const {
  Result<Points> points = points_of(text);
  if (!points.ok()) return points.status();
  const auto begin = points->values.cbegin(), end = points->values.cend();
  try {
    std::wsmatch match;
    for (auto at = begin; at < end;) {
      using namespace std::regex_constants;
      const match_flag_type flags = at == begin ? match_default : match_prev_avail | match_not_bol;
      if (!std::regex_search(at, end, match, compiled_->regex, flags)) break;
      const auto first = static_cast<size_t>(match[0].first - begin);
      const auto length = static_cast<size_t>(match[0].length());
      at = match[0].first + static_cast<std::ptrdiff_t>(length < least ? 1 : length);
      if (length < least) continue;
      const size_t from = points->bytes[first];
      found.push_back(text.substr(from, points->bytes[first + length] - from));
      if (match[0].second == end) break;
    }
  } catch (const std::exception& error) {
    return search_failed(text, error.what());
  }
  return Status();
}

Result<const Pattern*> pattern_of(std::string_view re2) {
  // A thread runs one plan at a time, over and over: its last pattern is the next one, most often.
  thread_local std::string known;
  thread_local std::optional<Pattern> pattern;
  if (!pattern || known != re2) {
    Result<Pattern> compiled = Pattern::compile(re2);
    if (!compiled.ok()) return compiled.status();
    pattern = std::move(*compiled);
    known = re2;
  }
  return &*pattern;
}

Status match_texts(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {ElementType::kString}, {ElementType::kBool}));
  if (call.outputs[0].elements != call.inputs[0].elements) return bad_call(call);
  Result<const Pattern*> pattern = pattern_of(call.text);
  if (!pattern.ok()) return pattern.status();
  for (uint64_t i = 0; i < call.inputs[0].elements; ++i) {
    Result<std::string_view> text = text_at(call, call.inputs[0], i);
    if (!text.ok()) return text.status();
    Result<bool> hit = (*pattern)->matches(*text);
    if (!hit.ok()) return hit.status();
    call.outputs[0].as<uint8_t>()[i] = *hit ? 1 : 0;
  }
  return Status();
}

}  // namespace gantry::runtime
