#include "host/forms/choose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "host/costs/conversion_cost.h"
#include "host/forms/exact_weights.h"
#include "host/graph/choices.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry::forms {

// Each form's file defines it.
#define GANTRY_FORM(ops, form, says, file) extern const Form form##_form;
#include "host/forms/forms.def"
#undef GANTRY_FORM

namespace {

constexpr ListedForm kForms[] = {
#define GANTRY_FORM(ops, form, says, file) {&form##_form, ops, says, file},
#include "host/forms/forms.def"
#undef GANTRY_FORM
};

/// Whether the op is one of those that the list names for it.
bool is_of(const ListedForm& listed, std::string_view op) {
  for (std::string_view rest = listed.ops; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (trim(rest.substr(0, comma)) == op) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

double cost_of(const Bid& bid) {
  if (bid.weighed) return *bid.weighed;
  return bid.cycles ? *bid.cycles : bid.ms.value_or(0);
}

double promised(const Bid& bid) {
  return cost_of(bid) / bid.promise;
}

int highest_claim(std::span<const Bid> bids) {
  int claim = 0;
  for (const Bid& bid : bids) {
    if (bid.no.empty()) claim = std::max(claim, bid.claim);
  }
  return claim;
}

/// The first of the least.
template <typename Cost>
const Bid* least_of(const std::vector<const Bid*>& bids, const Cost& cost) {
  const auto found = std::ranges::min_element(bids, {}, [&](const Bid* bid) { return cost(*bid); });
  return found == bids.end() ? nullptr : *found;
}

std::vector<std::string> names_of(std::span<const Knob> knobs) {
  std::vector<std::string> names;
  for (const Knob& knob : knobs) names.emplace_back(knob.name);
  return names;
}

/// "; did you mean 'direct'? there are plain, direct"; where nothing is near, ", only plain, direct".
std::string what_there_is(std::string_view wrong, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::string hint = did_you_mean(wrong, names);
  return fmt::format("{}{}", hint.empty() ? ", only " : hint + " there are ", fmt::join(names, ", "));
}

Misfit unknown_knob(const Form& form, const Decision& decision) {
  for (const auto& [name, value] : decision.knobs) {
    if (std::ranges::find(form.knobs, name, &Knob::name) != form.knobs.end()) continue;
    return fmt::format("form {} has no knob '{}'{}", form.name, name,
                       what_there_is(name, names_of(form.knobs)));
  }
  return std::nullopt;
}

bool has_knob(const Decision& decision, std::string_view name) {
  return std::ranges::find(decision.knobs, name, &std::pair<std::string, int64_t>::first) != decision.knobs.end();
}

Misfit out_of_range(const Form& form, const Knob& knob, const FormCase& given) {
  if (knob.of_schedule && !has_knob(given.decision, knob.name)) return std::nullopt;
  const KnobRange range = knob.range != nullptr ? knob.range(given) : KnobRange{};
  const int64_t value = given.decision.knob(knob.name, knob.otherwise);
  if (value >= range.least && value <= range.most && value % range.step == 0) return std::nullopt;
  const std::string is = fmt::format("{} of form {} is ", knob.name, form.name);
  const std::string otherwise =
      has_knob(given.decision, knob.name) ? fmt::format(", not {}", value) : "; it is not given";
  if (range.step > 1)
    return is + fmt::format("a multiple of {} up to {}", range.step, range.most) + otherwise;
  if (range.least == range.most) return is + fmt::format("{} here", range.least) + otherwise;
  return is + fmt::format("{} to {}", range.least, range.most) + otherwise;
}

Misfit misfit_of(const Form& form, const FormCase& given) {
  if (Misfit no = unknown_knob(form, given.decision)) return no;
  if (!is_for(form, given.context.target))
    return fmt::format("form {} is for {}", form.name, form.devices == Devices::kGpus ? "GPUs" : "CPUs");
  if (form.misfit != nullptr) {
    if (Misfit no = form.misfit(given)) return no;
  }
  for (const Knob& knob : form.knobs) {
    if (Misfit no = out_of_range(form, knob, given)) return no;
  }
  return std::nullopt;
}

class TargetForms : public FormSet {
 public:
  explicit TargetForms(FormContext context) : context_(std::move(context)) {}

  bool has_choice(const FormQuestion& question) const override {
    return std::ranges::any_of(kForms, [&](const ListedForm& listed) {
      return listed.form->bids != nullptr && is_for(*listed.form, context_.target) && possible(*listed.form, question);
    });
  }

  /// Networks repeat their layers, and a model may look at hundreds of plans for an answer: what depends on a node's
  /// attributes and types alone is asked once.
  std::vector<FormOption> options(const FormQuestion& question) const override {
    if (looks_beyond_types(question)) return found(question);
    const auto [known, is_new] = known_.try_emplace(key_of(question));
    if (is_new) known->second = found(question);
    return known->second;
  }

  NodeOrders orders(const FormQuestion& question, const Decision& decision) const override {
    const Form* form = find(question, decision.form);
    internal_check(form != nullptr, "no form {} for {}", decision.form, question.node.op->name);
    return form->orders != nullptr ? form->orders({question, decision, context_}) : NodeOrders{};
  }

  double conversion(const TensorType& type) const override {
    return costs::conversion_cost(type, context_.target);
  }

  std::vector<Candidate> candidates(const FormQuestion& question) const override {
    std::vector<Candidate> candidates;
    for (Bid& bid : all_bids(question, context_))
      candidates.push_back({.decision = std::move(bid.decision),
                            .cycles = bid.cycles,
                            .ms = bid.ms,
                            .why = std::move(bid.no),
                            .error = bid.error,
                            .in_ms = context_.target.for_gpu()});
    return candidates;
  }

  Misfit misfit(const FormQuestion& question, const Decision& decision) const override {
    const Form* form = find(question, decision.form);
    if (form != nullptr) return misfit_of(*form, {question, decision, context_});
    std::vector<std::string> names;
    for (const ListedForm& listed : kForms) {
      if (is_for(*listed.form, context_.target) && possible(*listed.form, question))
        names.emplace_back(listed.form->name);
    }
    return fmt::format("there is no form '{}' for it here{}", decision.form,
                       what_there_is(decision.form, names));
  }

  FormedNode apply(const FormQuestion& question, const Decision& decision, WeightPacker& packer) const override {
    const Form* form = find(question, decision.form);
    internal_check(form != nullptr, "no form {} for {}", decision.form, question.node.op->name);
    return form->apply != nullptr ? form->apply({question, decision, context_}, packer) : FormedNode{};
  }

 private:
  std::vector<FormOption> found(const FormQuestion& question) const {
    const std::vector<Bid> bids = all_bids(question, context_);
    std::vector<NodeOrders> orders;
    for (const Bid& bid : bids) orders.push_back(this->orders(question, bid.decision));
    std::vector<FormOption> options = options_of(bids, orders);
    if (options.empty()) options.push_back({.decision = {"plain", {}}});
    return options;
  }

  bool looks_beyond_types(const FormQuestion& question) const {
    return std::ranges::any_of(kForms, [&](const ListedForm& listed) {
      return listed.form->looks_beyond_types && is_for(*listed.form, context_.target) &&
             possible(*listed.form, question);
    });
  }

  /// All of a question but the values of constants.
  static std::string key_of(const FormQuestion& question) {
    const Node& node = question.node;
    std::string key = fmt::format("{} {} {} ", node.op->name, question.plain_data, question.may_split);
    if (node.attrs) key += to_string(*node.attrs);
    const auto add = [&](const Value* value) {
      key += value == nullptr ? "\n-" : fmt::format("\n{} {}", value->is_constant(), value->type.str());
    };
    for (const Value* input : node.inputs) add(input);
    for (const Value* result : node.results) add(result);
    add(question.weight);
    return key;
  }

  bool possible(const Form& form, const FormQuestion& question) const { return form.possible(question, context_); }

  const Form* find(const FormQuestion& question, std::string_view name) const {
    return find_form(name, question, context_);
  }

  FormContext context_;
  mutable std::unordered_map<std::string, std::vector<FormOption>> known_;  ///< one thread asks
};

}  // namespace

std::span<const ListedForm> all_forms() {
  return kForms;
}

bool has_forms(const OpBase& op) {
  return std::ranges::any_of(kForms, [&](const ListedForm& listed) { return is_of(listed, op.name); });
}

bool is_to_be_made(const Node& node, const Decision& decision) {
  return !has_choices(node) && std::ranges::any_of(kForms, [&](const ListedForm& listed) {
    return listed.form->name == decision.form && is_of(listed, node.op->name) && listed.form->apply != nullptr;
  });
}

bool is_made_by(const Node& node, const Decision& decision) {
  if (!has_choices(node)) return true;
  return std::ranges::any_of(kForms, [&](const ListedForm& listed) {
    const Form& form = *listed.form;
    if (form.name != decision.form || !(is_of(listed, "any") || is_of(listed, node.op->name))) return false;
    return form.made == nullptr || form.made(node, decision);
  });
}

Misfit unknown_form(const OpBase& op, const Decision& decision) {
  std::vector<std::string> names;
  for (const ListedForm& listed : kForms) {
    if (!is_of(listed, "any") && !is_of(listed, op.name)) continue;
    if (listed.form->name == decision.form) return unknown_knob(*listed.form, decision);
    names.emplace_back(listed.form->name);
  }
  return fmt::format("there is no form '{}' for it{}", decision.form, what_there_is(decision.form, names));
}

std::vector<Bid> all_bids(const FormQuestion& question, const FormContext& context) {
  std::vector<Bid> bids;
  for (const ListedForm& listed : kForms) {
    const Form& form = *listed.form;
    if (form.bids == nullptr || !is_for(form, context.target) || !form.possible(question, context)) continue;
    std::ranges::move(form.bids(question, context), std::back_inserter(bids));
  }
  return bids;
}

const Form* find_form(std::string_view name, const FormQuestion& question, const FormContext& context) {
  for (const ListedForm& listed : kForms) {
    if (listed.form->name == name && listed.form->possible(question, context)) return listed.form;
  }
  return nullptr;
}

Misfit hopeless(const FormQuestion& question, const Decision& decision, const FormContext& context) {
  const Form* form = find_form(decision.form, question, context);
  return form != nullptr && form->hopeless != nullptr ? form->hopeless({question, decision, context})
                                                      : std::nullopt;
}

const Bid* best_of(std::span<const Bid> bids) {
  const int claim = highest_claim(bids);
  std::vector<const Bid*> others, on_tiles;
  for (const Bid& bid : bids) {
    if (bid.no.empty() && bid.claim == claim) (bid.on_tiles ? on_tiles : others).push_back(&bid);
  }
  const Bid* best = least_of(others, promised);
  const Bid* tiles = least_of(on_tiles, promised);
  if (tiles == nullptr) return best;
  const bool faster = best == nullptr || cost_of(*tiles) < tiles->promise * cost_of(*best);
  return faster ? tiles : best;
}

std::vector<FormOption> options_of(std::span<const Bid> bids, std::span<const NodeOrders> orders) {
  std::vector<FormOption> options;
  const int claim = highest_claim(bids);
  // Of those for which `is_one` is true; their cost is `least` at least, since those of that cost are taken before them.
  const auto add_best = [&](const auto& is_one, double least) {
    std::vector<Bid> some;
    std::vector<size_t> places;
    for (size_t i = 0; i < bids.size(); ++i) {
      if (bids[i].claim != claim || !is_one(orders[i])) continue;
      some.push_back(bids[i]);
      places.push_back(i);
    }
    const Bid* best = best_of(some);
    if (best == nullptr) return;
    const NodeOrders& its = orders[places[static_cast<size_t>(best - some.data())]];
    options.push_back({best->decision, std::max(promised(*best), least), its});
  };
  for (size_t i = 0; i < bids.size(); ++i) {
    const auto alike = [&](const NodeOrders& one) { return one.data == orders[i].data && one.result == orders[i].result; };
    if (std::ranges::any_of(options, [&](const FormOption& option) { return alike(option.orders); })) continue;
    add_best(alike, 0);
    if (options.empty() || !alike(options.back().orders) || options.back().orders.stages_data) continue;
    add_best([&](const NodeOrders& one) { return alike(one) && one.stages_data; }, options.back().cost);
  }
  return options;
}

std::unique_ptr<FormSet> make_forms(FormContext context) {
  return std::make_unique<TargetForms>(std::move(context));
}

std::unique_ptr<FormSet> make_forms(const Target& target, bool small_weights, const Function* network,
                                    SpillFile* spill) {
  FormContext context{target, small_weights, {}, spill};
  if (network != nullptr) context.exact_kinds = kinds_for_exact_weights(*network, {.target = target});
  return make_forms(std::move(context));
}

}  // namespace gantry::forms
