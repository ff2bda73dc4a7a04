#include "host/tune/space.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "host/forms/choose.h"
#include "host/forms/product.h"
#include "host/tune/search.h"

namespace gantry::tune {
namespace {

constexpr int64_t kMostValues = 16;

void add(std::vector<int64_t>& values, int64_t value) {
  const auto place = std::ranges::lower_bound(values, value);
  if (place == values.end() || *place != value) values.insert(place, value);
}

KnobValues values_of_knob(const forms::Knob& knob, const forms::FormCase& given,
                          const std::vector<Decision>& proposed) {
  KnobValues values{std::string(knob.name), knob.otherwise, knob.of_schedule, {}};
  // How exact the arithmetic is, is not for the tuner to choose.
  if (!forms::says_product(knob.name))
    values.values = values_of(knob.range != nullptr ? knob.range(given) : forms::KnobRange{});
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
  Space space;
  space.misfit = [set, &question, orders](const Decision& decision) -> std::optional<std::string> {
    if (Misfit why = set->misfit(question, decision)) return why;
    if (set->orders(question, decision) != orders) return "images would lie otherwise";
    return std::nullopt;
  };
  std::vector<Decision> proposed{untuned};
  for (const forms::Bid& bid : forms::all_bids(question, context)) {
    // Not what a form itself holds for too inexact.
    if (bid.no.empty() && std::ranges::find(proposed, bid.decision) == proposed.end())
      proposed.push_back(bid.decision);
  }
  for (const forms::ListedForm& listed : forms::all_forms()) {
    const forms::Form& form = *listed.form;
    const Decision* own = proposed_by(form, proposed);
    if (own == nullptr || !forms::is_for(form, context.target) || !form.possible(question, context)) continue;
    FormKnobs knobs{std::string(form.name), {}};
    // Ranges may depend on other knobs: those of what is proposed.
    for (const forms::Knob& knob : form.knobs)
      knobs.knobs.push_back(values_of_knob(knob, {question, *own, context}, proposed));
    space.forms.push_back(std::move(knobs));
  }
  for (Decision& decision : proposed) {
    if (!space.misfit(decision)) space.proposed.push_back(std::move(decision));
  }
  return space;
}

}  // namespace gantry::tune
