#include "host/tune/space.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "host/driver/ask_rule.h"
#include "host/forms/choose.h"
#include "host/forms/product.h"
#include "host/tune/search.h"

namespace gantry::tune {
namespace {

using Misfits = std::function<Misfit(const Decision&)>;

constexpr int64_t kMostValues = 16;

void add(std::vector<int64_t>& values, int64_t value) {
  const auto place = std::ranges::lower_bound(values, value);
  if (place == values.end() || *place != value) values.insert(place, value);
}

KnobValues values_of_knob(const forms::Knob& knob, const forms::FormCase& given,
                          const std::vector<Decision>& proposed) {
  KnobValues values{std::string(knob.name), knob.otherwise, knob.of_schedule, {}};
  // How exact the arithmetic is, is not for the tuner to choose.
  if (!forms::says_product(knob.name)) {
    const forms::KnobRange range = knob.range != nullptr ? knob.range(given) : forms::KnobRange{};
    values.values = values_of(range);
    for (const int64_t value : knob.even != nullptr ? knob.even(given) : std::vector<int64_t>())
      if (value >= range.least && value <= range.most) add(values.values, value);
  }
  // What is proposed is a value, wherever the range's steps fall.
  for (const Decision& one : proposed) {
    if (one.form != given.decision.form) continue;
    if (const auto value = knob_value(one, values)) add(values.values, *value);
  }
  if (values.values.empty()) values.values.push_back(knob.otherwise);
  return values;
}

/// What a form's knobs begin with where it proposes nothing.
const Decision* proposed_by(const forms::Form& form, const std::vector<Decision>& proposed) {
  const auto found = std::ranges::find(proposed, form.name, &Decision::form);
  return found == proposed.end() ? nullptr : &*found;
}

/// Leaves out the values of a form's knobs that fit nowhere: of a knob of the schedule, beside none of the
/// values that the others have, of which each is looked at alone, and where the rule chooses the other knobs
/// of the schedule. Of the other knobs those are left out, too, that are not worth a try.
class FittingValues {
 public:
  /// `misfit`: of the space; `refused`: a part of it that takes less time; `hopeless`: forms::hopeless.
  FittingValues(FormKnobs& form, const std::vector<Decision>& proposed, const Misfits& misfit,
                const Misfits& refused, const Misfits& hopeless)
      : form_(form), misfit_(misfit), refused_(refused), hopeless_(hopeless) {
    for (const Decision& one : proposed)
      if (one.form == form.form) proposed_.push_back(one);
  }

  void keep() {
    for (const Decision& one : proposed_) add_packed(left_to_the_rule(one));
    for (KnobValues& knob : form_.knobs)
      if (!knob.of_schedule) keep_of_packing(knob);
    for (KnobValues& knob : form_.knobs)
      if (knob.of_schedule) keep_of_schedule(knob);
    std::erase_if(form_.knobs, [](const KnobValues& knob) { return knob.values.empty(); });
  }

 private:
  Decision left_to_the_rule(Decision decision) const {
    for (const KnobValues& knob : form_.knobs)
      if (knob.of_schedule) decision = with_knob(decision, form_, knob, std::nullopt);
    return decision;
  }

  void add_packed(Decision decision) {
    if (std::ranges::find(packed_, decision) == packed_.end()) packed_.push_back(std::move(decision));
  }

  bool is_proposed(const KnobValues& knob, int64_t value) const {
    return std::ranges::any_of(proposed_,
                               [&](const Decision& one) { return knob_value(one, knob) == value; });
  }

  /// What is proposed stays.
  void keep_of_packing(KnobValues& knob) {
    std::vector<int64_t> kept;
    for (const int64_t value : knob.values) {
      bool fits = is_proposed(knob, value);
      for (const Decision& one : proposed_) {
        Decision changed = with_knob(left_to_the_rule(one), form_, knob, value);
        if (misfit_(changed) || (!fits && hopeless_(changed))) continue;
        fits = true;
        add_packed(std::move(changed));
      }
      if (fits) kept.push_back(value);
    }
    knob.values = std::move(kept);
  }

  void keep_of_schedule(KnobValues& knob) {
    std::erase_if(knob.values, [&](int64_t value) {
      return !is_proposed(knob, value) && std::ranges::none_of(packed_, [&](const Decision& one) {
        const Decision changed = with_knob(one, form_, knob, value);
        return !refused_(changed) && !misfit_(changed);
      });
    });
  }

  FormKnobs& form_;
  const Misfits &misfit_, &refused_, &hopeless_;
  std::vector<Decision> proposed_;  ///< of the form
  std::vector<Decision> packed_;    ///< without knobs of the schedule; all but the first ones fit
};

bool lie_alike(const NodeOrders& a, const NodeOrders& b) {
  return a.data == b.data && a.result == b.result;
}

std::string text_of(const NodeOrders& orders) {
  const auto words = [](ImageOrder order) {
    return std::string(order == ImageOrder::kModel ? "as the model has them" : "channels-last");
  };
  if (orders.data == orders.result) return "images " + words(orders.data);
  return "images read " + words(orders.data) + ", written " + words(orders.result);
}

/// Found out once for each decision.
Misfits remembered(Misfits misfit) {
  return [misfit = std::move(misfit),
          known = std::make_shared<std::map<std::string, Misfit>>()](const Decision& decision) {
    const auto [entry, is_new] = known->try_emplace(to_string(decision));
    if (is_new) entry->second = misfit(decision);
    return entry->second;
  };
}

}  // namespace

std::vector<int64_t> values_of(const forms::KnobRange& range) {
  std::vector<int64_t> values;
  if (range.step <= 0 || range.most < range.least) return values;
  const int64_t count = (range.most - range.least) / range.step + 1;
  for (int64_t i = 0; i < count;) {
    values.push_back(range.least + i * range.step);
    i += count <= kMostValues ? 1 : std::max<int64_t>(1, i / 4);
  }
  if (values.back() != range.least + (count - 1) * range.step)
    values.push_back(range.least + (count - 1) * range.step);
  return values;
}

Space space_of(const FormQuestion& question, const forms::FormContext& context, const Decision& untuned) {
  std::shared_ptr<const FormSet> set = forms::make_forms(context);
  const NodeOrders orders = set->orders(question, untuned);
  const Misfits refused = remembered([&question, &context](const Decision& decision) {
    return refused_by_rule(question, decision, context);
  });
  const Misfits hopeless = [&question, &context](const Decision& decision) {
    return forms::hopeless(question, decision, context);
  };
  Space space;
  space.misfit = remembered([set, &question, orders, refused](const Decision& decision) -> Misfit {
    if (Misfit why = set->misfit(question, decision)) return why;
    if (!lie_alike(set->orders(question, decision), orders)) return "images would lie otherwise";
    return refused(decision);
  });
  std::vector<Decision> proposed{untuned};
  for (const forms::Bid& bid : forms::all_bids(question, context)) {
    // Not what a form itself holds for too inexact.
    if (bid.no.empty() && std::ranges::find(proposed, bid.decision) == proposed.end())
      proposed.push_back(bid.decision);
  }
  // Whoever made the untuned decision: all that is of other orders is none of the space.
  std::erase_if(proposed,
                [&](const Decision& decision) { return decision != untuned && space.misfit(decision); });
  for (const forms::ListedForm& listed : forms::all_forms()) {
    const forms::Form& form = *listed.form;
    const Decision* own = proposed_by(form, proposed);
    if (own == nullptr || !forms::is_for(form, context.target) || !form.possible(question, context)) continue;
    FormKnobs knobs{std::string(form.name), {}};
    // Ranges may depend on other knobs: those of what is proposed.
    for (const forms::Knob& knob : form.knobs)
      knobs.knobs.push_back(values_of_knob(knob, {question, *own, context}, proposed));
    FittingValues(knobs, proposed, space.misfit, refused, hopeless).keep();
    space.forms.push_back(std::move(knobs));
  }
  for (Decision& decision : proposed) {
    if (!space.misfit(decision)) space.proposed.push_back(std::move(decision));
  }
  return space;
}

std::vector<OtherLayout> layouts_of(const FormQuestion& question, const forms::FormContext& context,
                                    const Decision& untuned) {
  const std::unique_ptr<FormSet> set = forms::make_forms(context);
  std::vector<NodeOrders> seen{set->orders(question, untuned)};
  std::vector<OtherLayout> layouts;
  for (const FormOption& option : set->options(question)) {
    const auto is_alike = [&](const NodeOrders& one) { return lie_alike(one, option.orders); };
    if (std::ranges::any_of(seen, is_alike)) continue;
    seen.push_back(option.orders);
    layouts.push_back(
        {text_of(option.orders), option.decision, space_of(question, context, option.decision)});
  }
  return layouts;
}

}  // namespace gantry::tune
