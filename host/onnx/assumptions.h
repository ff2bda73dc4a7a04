// What an import takes for granted where a model leaves the rank of a value to its data: gantry's values have
// one rank each.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// Answers to an import's questions, in the order in which it asks them: whether an open dimension that Squeeze may drop is 1.
/// Each answer is a constraint too, so that data that contradict it are refused.
class Assumptions {
 public:
  Assumptions() = default;
  explicit Assumptions(std::vector<bool> answers) : answers_(std::move(answers)) {}
  /// The answer to the next question: `likely` where none was given before.
  bool answer(bool likely) {
    if (next_ == answers_.size()) answers_.push_back(likely);
    return answers_[next_++];
  }
  /// Those given so far, or before.
  const std::vector<bool>& answers() const { return answers_; }

 private:
  std::vector<bool> answers_;
  size_t next_ = 0;
};

/// How many constraints cannot hold because others say what size a symbol must have.
size_t broken_constraints(const Function& function);

/// What came of an import with some answers.
struct Attempt {
  std::optional<Graph> graph;           ///< empty: it failed
  std::vector<bool> answers;            ///< to all questions that it asked
  size_t contradictions = 0;            ///< by what the model declares, and by its own constraints
  std::function<void()> conclude = {};  ///< tells what the import warned of; throws its error where it failed
};

/// The import that contradicts itself least, of those whose answers differ from the likely ones in a question
/// after the other; the first one of several. Few imports ask at all, and most of those only once.
Attempt best_attempt(const std::function<Attempt(std::vector<bool> answers)>& import);

}  // namespace gantry
