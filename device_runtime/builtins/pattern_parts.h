// The program of a pattern while it is read: what was read last can be repeated or be one of alternatives.
#pragma once

#include "device_runtime/builtins/pattern_program.h"

namespace gantry::runtime {

class PatternParts {
 public:
  static constexpr uint32_t kMostSteps = 100'000;
  static constexpr uint32_t kMostRepeats = 1000;  ///< RE2's own limit, of repetitions in repetitions too
  static constexpr uint32_t kNoLimit = UINT32_MAX;

  PatternParts() { open(); }

  /// Appends a part of one step.
  void append(PatternStep::Kind kind, int32_t value = 0);
  /// Appends a part that takes a code point of the set.
  void append(CodePointSet set);
  /// The part that was read last `least` to `most` times. False: more steps or repetitions than there may be.
  bool repeat(uint32_t least, uint32_t most);
  /// Whether there is such a part.
  bool can_repeat() const { return groups_.back().part != kNone; }
  /// Begins the next alternative of the group.
  void alternate();
  /// A group, which is a part of the one around it.
  void open();
  void close();
  /// How many groups are open, with the whole pattern.
  size_t depth() const { return groups_.size(); }
  size_t size() const { return program_.steps.size(); }
  /// Closes the whole pattern.
  PatternProgram finish();

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Group {
    size_t begin = 0;
    size_t alternative = 0;    ///< where the one that is read begins
    size_t part = kNone;       ///< where the last part begins
    uint32_t copies = 1;       ///< of what is repeated most in it,
    uint32_t part_copies = 1;  ///< in its last part
    int32_t exits = -1;        ///< the last jump behind the group; until it closes, each has the one before
  };

  void begin_part(uint32_t copies);
  void put(PatternStep::Kind kind, size_t from, size_t to);

  PatternProgram program_;
  std::vector<Group> groups_;
};

}  // namespace gantry::runtime
