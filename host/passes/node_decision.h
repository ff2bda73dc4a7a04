// Decisions of a graph's nodes, by the names that the nodes have in the model.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/graph/graph.h"
#include "host/passes/network_decision.h"

namespace gantry {

/// A way of computing a node that was looked at, and what became of it.
struct Candidate {
  Decision decision;
  /// Predicted: cycles of one core of a CPU, milliseconds of a GPU. None where no model looks at it.
  std::optional<double> cycles, ms;
  std::string why;  ///< it was not taken; empty: it was
  /// Expected of its arithmetic beyond what sums in f32 are off by, largest difference by largest result.
  double error = 0;
  /// Predicted, in the unit of the others, of converting the images that it reads and writes to and from the order in
  /// which they lie around it; 0 where they lie so.
  double conversions = 0;
  bool in_ms = false;  ///< they are milliseconds, else cycles
};

struct NodeDecision {
  const OpBase* op = nullptr;
  std::vector<std::string> origin;
  Decision decision;
  std::vector<Candidate> candidates;  ///< where PassContext asks for them and the target has a model of them
  std::string work = {};              ///< work_digest() of the node (host/passes/work_digest.h)
  /// The record of tuning that decided it, "lab.db: record 17"; empty: none did.
  std::string record = {};
  /// By which that record was found: `work`, or a network_digest().
  std::string record_key = {};
  /// Records of its work that do not decide it, and why.
  std::vector<std::string> unused_records = {};
};

/// Says of each candidate what it has of conversions, and of each that fits why it was not taken, by what is predicted;
/// adds the decision where it is none of them.
std::vector<Candidate> compared(std::vector<Candidate> candidates, const Decision& taken,
                                const std::function<double(const Decision&)>& conversions);

/// Decisions made by somebody else, each for one node of an op and origin. Where several nodes have the same, the
/// first line is for the first of them.
class GivenDecisions {
 public:
  struct Line {
    NodeDecision node;
    std::string place;  ///< "mine.txt:7", for messages
    bool taken = false;
  };
  explicit GivenDecisions(std::vector<Line> lines) : lines_(std::move(lines)) {}

  /// The next one for the node, which is then used up; null if there is none.
  const Line* take(const Node& node);
  /// The first that was not taken and is not left out; null if there is none.
  const Line* left_over(const std::function<bool(const NodeDecision&)>& left_out = {}) const;
  /// One for the same node that was taken; null if there is none.
  const Line* taken_like(const Line& line) const;
  /// Adds the places of what was taken; what stands at one of the others was taken, too: by another program.
  void share_taken(std::set<std::string>& places);

 private:
  std::vector<Line> lines_;
};

/// Of given decisions, what the programs of one target use: of a graph for some sizes alone, other nodes may
/// be there.
struct UsedDecisions {
  std::set<std::string> places;  ///< "mine.txt:7", of lines that a program has used
  bool last = false;             ///< no other program follows: what none has used is an error
};

/// Decisions that were recorded for whatever does the same work, on the machine that is compiled for.
class RecordedDecisions {
 public:
  struct Answer {
    std::optional<Decision> decision;
    std::string place;                ///< of its record, for messages
    std::vector<std::string> unused;  ///< what there is beside it that may not decide, and why
  };
  virtual ~RecordedDecisions() = default;
  /// By work_digest() (host/passes/work_digest.h).
  virtual Answer find(const std::string& work) = 0;

  struct NetworkAnswer {
    /// The form says what it is ("layouts", "combined", "apart"), its parts of which nodes.
    std::optional<Decision> decision;
    std::vector<NumberedDecision> parts;
    std::string place;
    std::vector<std::string> unused;
  };
  /// By network_digest(), of that question.
  virtual NetworkAnswer find_network(const std::string& network) = 0;
};

/// Decisions that were recorded for nodes of a function together: all are taken, or none.
struct RecordedLayouts {
  std::string key;    ///< network_digest()
  std::string place;  ///< of their record
  std::vector<std::pair<const Node*, Decision>> decisions;
  std::string misfit = {};  ///< why none is taken; empty: they are
};

}  // namespace gantry
