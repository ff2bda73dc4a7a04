#include "device_runtime/builtins/pattern.h"

#include <optional>
#include <string>

#include "device_runtime/builtins/functions.h"

namespace gantry::runtime {
namespace {

using Kind = PatternStep::Kind;

/// Runs a program over a text.
class Search {
 public:
  Search(const PatternProgram& program, std::string_view text)
      : program_(program), text_(text), reached_(program.steps.size(), 0) {}

  /// The bytes of what matches; of all that do the one that begins first, and of those the longest. It begins
  /// at `from`, or with `anywhere` there or later.
  struct Match {
    size_t begin = 0, end = 0;
  };
  std::optional<Match> next(size_t from, bool anywhere) {
    std::optional<Match> match;
    now_.clear();
    ++place_;
    for (size_t at = from;;) {
      if (!match && (at == from || anywhere)) follow(now_, 0, at, at);
      if (now_.empty() && (match || !anywhere)) return match;
      const CodePoint point = at < text_.size() ? code_point_at(text_, at) : CodePoint{kNone, 0};
      // No UTF-8: its bytes are given as surrogates, which UTF-8 has not.
      const bool valid = point.value < 0xd800 || point.value > 0xdfff;
      ++place_;
      later_.clear();
      for (const Thread& thread : now_) {
        if (match && thread.begin > match->begin) break;
        if (program_.steps[thread.step].kind == Kind::kMatch)
          match = {thread.begin, at};
        else if (valid && takes(program_.steps[thread.step], point.value))
          follow(later_, thread.step + 1, thread.begin, at + point.bytes);
      }
      if (point.bytes == 0) return match;
      at += point.bytes;
      std::swap(now_, later_);
    }
  }

 private:
  static constexpr char32_t kNone = kLastCodePoint + 1;
  /// A step that waits for a code point, and where what would match by it begins. In ascending order of the
  /// latter.
  struct Thread {
    size_t step = 0, begin = 0;
  };

  bool takes(PatternStep step, char32_t value) const {
    if (step.kind == Kind::kCodePoint) return value == static_cast<char32_t>(step.value);
    return program_.sets[static_cast<size_t>(step.value)].contains(value);
  }

  /// Appends the steps that are reached from this one without taking anything.
  void follow(std::vector<Thread>& threads, size_t first, size_t begin, size_t at) {
    open_.push_back(first);
    while (!open_.empty()) {
      const size_t step = open_.back();
      open_.pop_back();
      if (reached_[step] == place_) continue;
      reached_[step] = place_;
      const auto [kind, value] = program_.steps[step];
      const size_t other = step + static_cast<size_t>(static_cast<ptrdiff_t>(value));
      if (kind == Kind::kMatch || kind == Kind::kCodePoint || kind == Kind::kSet) {
        threads.push_back({step, begin});
      } else if (kind == Kind::kJump) {
        open_.push_back(other);
      } else if (kind == Kind::kSplit) {
        open_.push_back(other);
        open_.push_back(step + 1);
      } else if (holds(kind, at)) {
        open_.push_back(step + 1);
      }
    }
  }

  bool holds(Kind kind, size_t at) const {
    const bool begins = at == 0, ends = at == text_.size();
    switch (kind) {
      case Kind::kTextBegin:
        return begins;
      case Kind::kTextEnd:
        return ends;
      case Kind::kLineBegin:
        return begins || text_[at - 1] == '\n';
      case Kind::kLineEnd:
        return ends || text_[at] == '\n';
      default: {
        const bool edge = (!begins && is_word(text_[at - 1])) != (!ends && is_word(text_[at]));
        return edge == (kind == Kind::kWordEdge);
      }
    }
  }
  static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  const PatternProgram& program_;
  const std::string_view text_;
  std::vector<Thread> now_, later_;
  std::vector<size_t> open_;
  std::vector<size_t> reached_;  ///< of each step: the place where it was reached last
  size_t place_ = 0;             ///< counts the places of all searches
};

}  // namespace

Result<Pattern> Pattern::compile(std::string_view re2) {
  Result<PatternProgram> program = compile_pattern(re2);
  if (!program.ok()) return program.status();
  Pattern pattern;
  pattern.program_ = std::move(*program);
  return pattern;
}

bool Pattern::matches(std::string_view text) const {
  // The longest from the text's begin is all of it, or nothing is.
  const auto match = Search(program_, text).next(0, false);
  return match && match->end == text.size();
}

std::vector<std::string_view> Pattern::find(std::string_view text, size_t least) const {
  std::vector<std::string_view> found;
  Search search(program_, text);
  for (size_t from = 0; from < text.size();) {
    const auto match = search.next(from, true);
    if (!match || match->begin == text.size()) break;
    size_t points = 0;
    for (size_t at = match->begin; at < match->end; ++points) at += code_point_at(text, at).bytes;
    if (points < least) {
      from = match->begin + code_point_at(text, match->begin).bytes;
    } else {
      found.push_back(text.substr(match->begin, match->end - match->begin));
      from = match->end;
    }
  }
  return found;
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
    call.outputs[0].as<uint8_t>()[i] = (*pattern)->matches(*text) ? 1 : 0;
  }
  return Status();
}

}  // namespace gantry::runtime
