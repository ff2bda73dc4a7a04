#include "device_runtime/builtins/pattern_parts.h"

namespace gantry::runtime {

using Kind = PatternStep::Kind;

void PatternParts::begin_part(uint32_t copies) {
  Group& group = groups_.back();
  group.part = size();
  group.part_copies = copies;
  group.copies = std::max(group.copies, copies);
}

void PatternParts::append(Kind kind, int32_t value) {
  begin_part(1);
  program_.steps.push_back({kind, value});
}

void PatternParts::append(CodePointSet set) {
  append(Kind::kSet, static_cast<int32_t>(program_.sets.size()));
  program_.sets.push_back(std::move(set));
}

/// Puts a step at `from`, whose other way is to the step that is `to` by then.
void PatternParts::put(Kind kind, size_t from, size_t to) {
  const auto distance = static_cast<int32_t>(static_cast<ptrdiff_t>(to) - static_cast<ptrdiff_t>(from));
  program_.steps.insert(program_.steps.begin() + static_cast<ptrdiff_t>(from), {kind, distance});
}

bool PatternParts::repeat(uint32_t least, uint32_t most) {
  Group& group = groups_.back();
  const uint32_t times = std::max(most == kNoLimit ? least : most, uint32_t{1});
  if (uint64_t{group.part_copies} * times > kMostRepeats) return false;
  const auto part = program_.steps.begin() + static_cast<ptrdiff_t>(group.part);
  const std::vector<PatternStep> steps(part, program_.steps.end());
  if ((steps.size() + 1) * times + group.part > kMostSteps) return false;
  program_.steps.resize(group.part);
  const auto put_copy = [&] { program_.steps.insert(program_.steps.end(), steps.begin(), steps.end()); };
  for (uint32_t i = 0; i < least; ++i) put_copy();
  if (most == kNoLimit && least == 0) {
    put(Kind::kSplit, size(), size() + steps.size() + 2);
    put_copy();
    put(Kind::kJump, size(), size() - steps.size() - 1);
  } else if (most == kNoLimit) {
    put(Kind::kSplit, size(), size() - steps.size());
  } else {
    const size_t end = size() + (most - least) * (steps.size() + 1);
    for (uint32_t i = least; i < most; ++i) {
      put(Kind::kSplit, size(), end);
      put_copy();
    }
  }
  group.part_copies *= times;
  group.copies = std::max(group.copies, group.part_copies);
  return true;
}

void PatternParts::alternate() {
  Group& group = groups_.back();
  put(Kind::kSplit, group.alternative, size() + 2);
  program_.steps.push_back({Kind::kJump, group.exits});
  group.exits = static_cast<int32_t>(size() - 1);
  group.alternative = size();
  group.part = kNone;
}

void PatternParts::open() {
  groups_.push_back({.begin = size(), .alternative = size()});
}

void PatternParts::close() {
  const Group group = groups_.back();
  groups_.pop_back();
  for (int32_t exit = group.exits; exit >= 0;) {
    const auto step = static_cast<size_t>(exit);
    exit = program_.steps[step].value;
    program_.steps[step].value = static_cast<int32_t>(size() - step);
  }
  if (groups_.empty()) return;
  begin_part(group.copies);
  groups_.back().part = group.begin;
}

PatternProgram PatternParts::finish() {
  close();
  program_.steps.push_back({Kind::kMatch});
  return std::move(program_);
}

}  // namespace gantry::runtime
