// Which decisions of a task are tried next.
//
// A pool of candidates is drawn from three sources: coordinate descent (the best decision with one knob moved
// to a neighbouring value), evolution (two of the best crossed, one or two knobs mutated; as in Zheng et al.,
// "Ansor: generating high-performance tensor programs for deep learning", OSDI 2020), and random decisions,
// so that no form is forgotten. Which of a pool is measured is for a cost model to say
// (host/tune/cost_model.h).
//
// The same seed and the same outcomes give the same candidates.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/support/random.h"
#include "host/tune/task.h"

namespace gantry::tune {

class Search {
 public:
  /// `space` must outlive it. `start`: what is the best so far, whose cost is 1.
  Search(const Space& space, const Decision& start, uint64_t seed);

  /// At most `count` decisions of the space of which no outcome is known, each once; those that the forms
  /// propose come first. None: no other was found, and the search is over.
  std::vector<Decision> pool(size_t count);

  /// `cost`: its time over that of the start.
  void tell(const Decision& decision, double cost);
  /// It cannot be measured: it fits no kernel, is wrong, crashes or hangs.
  void tell_failed(const Decision& decision);
  /// What candidates are neighbours of.
  void move_to(const Decision& decision) { best_ = decision; }

  bool knows(const Decision& decision) const { return known_.contains(to_string(decision)); }
  /// None where it is not known, or has failed.
  std::optional<double> cost_of(const Decision& decision) const;
  /// Decisions with an outcome, failures included, but for the start.
  size_t tried() const { return known_.size() - 1; }

 private:
  struct Known {
    Decision decision;
    double cost = 0;  ///< infinite: it has failed
  };
  const FormKnobs* form_of(const Decision& decision) const;
  bool is_new(const Decision& decision) const;
  void add_neighbours(std::vector<Decision>& pool) const;
  Decision evolved();
  Decision random_decision();
  /// One of the cheaper ones, the cheapest most often.
  const Decision& parent();
  void mutate(Decision& decision, const FormKnobs& form);
  size_t below(size_t count) { return static_cast<size_t>(random_.uniform() * static_cast<double>(count)); }

  const Space* space_;
  Decision best_;
  std::map<std::string, Known> known_;
  Random random_;
};

/// The decision with the knob at a value; of a knob of the schedule `none` leaves it out. Knobs keep the
/// form's order.
Decision with_knob(const Decision& decision, const FormKnobs& form, const KnobValues& knob,
                   std::optional<int64_t> value);
/// The value that a decision gives a knob; none: the schedule's rule chooses.
std::optional<int64_t> knob_value(const Decision& decision, const KnobValues& knob);

}  // namespace gantry::tune
