#include "host/tune/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gantry::tune {
namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();
/// Parents of the next generation.
constexpr size_t kParents = 6;
/// Of a pool beyond the neighbours of the best, the share that is evolved; the others are random.
constexpr double kEvolved = 0.7;
/// Of random decisions, the share that begins with what a form proposes: it knows sensible knobs.
constexpr double kFromProposed = 0.5;
/// Tries to find something new, for each that is wanted; before the search is taken to be over, more.
constexpr size_t kPatience = 8, kLastPatience = 80;

}  // namespace

std::optional<int64_t> knob_value(const Decision& decision, const KnobValues& knob) {
  for (const auto& [name, value] : decision.knobs) {
    if (name == knob.name) return value;
  }
  return knob.of_schedule ? std::nullopt : std::optional(knob.otherwise);
}

Decision with_knob(const Decision& decision, const FormKnobs& form, const KnobValues& knob,
                   std::optional<int64_t> value) {
  Decision changed{decision.form, {}};
  for (const KnobValues& one : form.knobs) {
    const std::optional<int64_t> own = one.name == knob.name ? value : knob_value(decision, one);
    if (!own) continue;
    // A knob of the schedule at its default is not one that is left out.
    if (one.of_schedule) {
      changed.knobs.emplace_back(one.name, *own);
    } else {
      changed.set(one.name, *own, one.otherwise);
    }
  }
  return changed;
}

Search::Search(const Space& space, const Decision& start, uint64_t seed)
    : space_(&space), best_(start), random_(seed, to_string(start)) {
  tell(start, 1);
}

void Search::tell(const Decision& decision, double cost) {
  known_[to_string(decision)] = {decision, cost};
}

void Search::tell_failed(const Decision& decision) {
  tell(decision, kFailed);
}

std::optional<double> Search::cost_of(const Decision& decision) const {
  const auto known = known_.find(to_string(decision));
  if (known == known_.end() || !std::isfinite(known->second.cost)) return std::nullopt;
  return known->second.cost;
}

const FormKnobs* Search::form_of(const Decision& decision) const {
  const auto found = std::ranges::find(space_->forms, decision.form, &FormKnobs::form);
  return found == space_->forms.end() ? nullptr : &*found;
}

bool Search::is_new(const Decision& decision) const {
  return !knows(decision) && form_of(decision) != nullptr && (!space_->misfit || !space_->misfit(decision));
}

std::vector<Decision> Search::pool(size_t count) {
  std::vector<Decision> candidates;
  for (const Decision& decision : space_->proposed) candidates.push_back(decision);
  add_neighbours(candidates);
  std::vector<Decision> pool;
  std::set<std::string> taken;
  const auto offer = [&](const Decision& decision) {
    if (pool.size() < count && is_new(decision) && taken.insert(to_string(decision)).second)
      pool.push_back(decision);
  };
  // Neighbours leave half of the pool to others.
  for (const Decision& decision : candidates) {
    if (pool.size() < std::max<size_t>(count / 2, 1)) offer(decision);
  }
  for (size_t tries = 0; tries < (pool.empty() ? kLastPatience : kPatience) * count && pool.size() < count;
       ++tries)
    offer(random_.uniform() < kEvolved ? evolved() : random_decision());
  for (const Decision& decision : candidates) offer(decision);
  return pool;
}

/// In random order: there may be more than a pool takes.
void Search::add_neighbours(std::vector<Decision>& pool) const {
  const FormKnobs* form = form_of(best_);
  if (form == nullptr) return;
  std::vector<Decision> found;
  for (const KnobValues& knob : form->knobs) {
    const std::optional<int64_t> value = knob_value(best_, knob);
    if (!value) {
      // What the rule has chosen is not known: every value is a neighbour, a few of them are looked at.
      const size_t step = std::max<size_t>(knob.values.size() / 4, 1);
      for (size_t i = 0; i < knob.values.size(); i += step)
        found.push_back(with_knob(best_, *form, knob, knob.values[i]));
      continue;
    }
    const auto above = std::ranges::upper_bound(knob.values, *value);
    if (above != knob.values.end()) found.push_back(with_knob(best_, *form, knob, *above));
    const auto at = std::ranges::lower_bound(knob.values, *value);
    if (at != knob.values.begin()) found.push_back(with_knob(best_, *form, knob, *std::prev(at)));
    if (knob.of_schedule) found.push_back(with_knob(best_, *form, knob, std::nullopt));
  }
  Random order = random_;
  for (size_t i = found.size(); i > 1; --i)
    std::swap(found[i - 1], found[static_cast<size_t>(order.uniform() * static_cast<double>(i))]);
  std::ranges::move(found, std::back_inserter(pool));
}

const Decision& Search::parent() {
  std::vector<const Known*> best;
  for (const auto& [text, known] : known_) {
    if (std::isfinite(known.cost)) best.push_back(&known);
  }
  std::ranges::sort(best, {}, &Known::cost);
  if (best.empty()) return best_;
  // The square makes the first ones likely.
  const double draw = random_.uniform();
  const size_t most = std::min(best.size(), kParents);
  return best[std::min(static_cast<size_t>(draw * draw * static_cast<double>(most)), most - 1)]->decision;
}

void Search::mutate(Decision& decision, const FormKnobs& form) {
  if (form.knobs.empty()) return;
  const KnobValues& knob = form.knobs[below(form.knobs.size())];
  if (knob.of_schedule && random_.uniform() < 0.25) {
    decision = with_knob(decision, form, knob, std::nullopt);
  } else {
    decision = with_knob(decision, form, knob, knob.values[below(knob.values.size())]);
  }
}

Decision Search::evolved() {
  Decision child = parent();
  const FormKnobs* form = form_of(child);
  if (form == nullptr) return random_decision();
  const Decision& other = parent();
  if (other.form == child.form) {
    for (const KnobValues& knob : form->knobs) {
      if (random_.uniform() < 0.5) child = with_knob(child, *form, knob, knob_value(other, knob));
    }
  }
  for (size_t i = 0, times = 1 + below(2); i < times; ++i) mutate(child, *form);
  return child;
}

Decision Search::random_decision() {
  if (!space_->proposed.empty() && random_.uniform() < kFromProposed) {
    Decision decision = space_->proposed[below(space_->proposed.size())];
    if (const FormKnobs* form = form_of(decision)) {
      for (size_t i = 0, times = 1 + below(3); i < times; ++i) mutate(decision, *form);
    }
    return decision;
  }
  if (space_->forms.empty()) return best_;
  const FormKnobs& form = space_->forms[below(space_->forms.size())];
  Decision decision{form.form, {}};
  for (const KnobValues& knob : form.knobs) {
    if (knob.of_schedule && random_.uniform() < 0.5) continue;
    decision = with_knob(decision, form, knob, knob.values[below(knob.values.size())]);
  }
  return decision;
}

}  // namespace gantry::tune
