// The trials of a tuning run: kept as records, and read again by who goes on with it.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "host/records/store.h"
#include "host/tune/measurer.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// What all records of a run have in common.
struct RunFacts {
  records::Setting setting;
  std::string model, board, source;  ///< as of records::Record
  /// network_digest() of each question, by NetworkQuestion; empty: nothing of the network is kept.
  std::array<std::string, 3> network = {};
  /// The run began with what the compiler takes by itself: else nothing of it is kept as a confirmation.
  bool of_compiler = true;
};

/// What is tried of the network as a whole.
struct NetworkTrial {
  NetworkQuestion question{};
  Decision decision;  ///< as of records::Record, with the parts
  std::vector<NumberedDecision> parts = {};
  std::vector<std::string> nodes = {};  ///< of the model, that it concerns

  bool operator==(const NetworkTrial&) const = default;
};

/// What is known of a decision for a task from earlier runs.
struct Remembered {
  Decision decision;
  std::optional<double> cost;  ///< its time over that of the untuned decision; none: it has failed
};

/// What became of it in earlier runs.
struct RememberedTrial {
  std::optional<Ratio> whole;  ///< to the network without; none: it has failed
  std::optional<Failure> failure;
};

/// Of records of one key, oldest first: costs along the chain of what was compared with what, from the
/// untuned decision on, which is not among them. What was compared with something of unknown cost is left
/// out.
std::vector<Remembered> costs_of(std::span<const records::Record> of_work, const Decision& untuned);

/// Of runs that are tuned by time (Metric::kTime): records are of that. Writes the outcomes of a batch at
/// once. Where the store cannot take them (another program has locked it, the disk is full), they are kept
/// and written with the next ones; warn() is told once, and finish() throws what is wrong if it still is.
/// What no store takes (records::check), such as what a machine calls itself with control characters in it,
/// is left out by itself, and warn() is told of the first.
class Notebook {
 public:
  using Warn = std::function<void(const std::string&)>;
  /// `store`: null: nothing is kept. It must outlive the notebook.
  Notebook(records::Store* store, RunFacts facts, Warn warn);

  /// `confirmation`: left out where the run is not of_compiler.
  void measured(const Task& task, const Decision& decision, const Decision& base, const Ratio& ratio,
                bool confirmation);
  void failed(const Task& task, const Decision& decision, const Decision& base, const Failure& failure);
  /// The same of the network, compared with itself as it was otherwise.
  void measured(const NetworkTrial& trial, const Ratio& whole, bool confirmation);
  void failed(const NetworkTrial& trial, const Failure& failure);
  /// Writes what was told since the last time, if that can be.
  void flush();

  // A store that cannot be read is warned of once, and not asked again: each time a lock, or a server, might
  // be waited for until patience is over.

  /// Of the same setting, in the order in which they were tried, each decision once. Costs are those over
  /// `base`, which is not among them. Empty without a store, or where that cannot be read.
  std::vector<Remembered> recall(const Task& task, const Decision& base);
  std::vector<Remembered> recall(const Task& task) { return recall(task, task.untuned); }
  /// What records of the setting decide by (records::best_of), where that was compared with the untuned
  /// decision.
  std::optional<Decision> confirmed(const Task& task);
  /// The last outcome; none where nothing is known, as above.
  std::optional<RememberedTrial> recall(const NetworkTrial& trial);

  /// Writes what is left; a user error where it cannot be.
  void finish();
  size_t written() const { return written_; }

 private:
  records::Record record_of(const Task& task, const Decision& decision, const Decision& base) const;
  records::Record record_of(const NetworkTrial& trial) const;
  const std::string& work_of(const NetworkTrial& trial) const {
    return facts_.network[static_cast<size_t>(trial.question)];
  }
  /// What gains beside given decisions alone is no confirmation.
  bool takes(bool confirmation) const { return !confirmation || facts_.of_compiler; }
  bool keeps(const NetworkTrial& trial) const { return store_ != nullptr && !work_of(trial).empty(); }
  std::vector<records::Record> all(const std::string& work);

  void add(const Task& task, records::Record record);
  /// False: it is left out.
  bool keep(records::Record record);
  /// Of a record or a program: one that a store refuses would keep out all that is written with it.
  template <typename Kept>
  bool is_fit(const Kept& one, const std::string& what);
  void write();

  records::Store* store_;
  RunFacts facts_;
  Warn warn_;
  std::vector<records::Record> pending_;
  std::vector<records::WorkProgram> programs_;  ///< of works of what is pending
  std::set<std::string> known_;                 ///< works whose program is among them, or no store takes
  bool doubtful_ = false;                       ///< some of what is pending may be written: the store threw
  bool warned_ = false;
  std::set<std::string> unfit_;  ///< kinds of which one was left out, which was said
  bool unreadable_ = false;      ///< found so once
  size_t written_ = 0;
};

}  // namespace gantry::tune
