#include "host/passes/choose_forms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "host/graph/choices.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/layout_behaviour.h"
#include "host/passes/pass.h"
#include "host/passes/pbqp.h"
#include "host/passes/work_digest.h"

namespace gantry {
namespace {

std::string name_text(const Node& node) {
  return node.origin.empty() ? node.op->name
                             : fmt::format("{} ({})", fmt::join(node.origin, ", "), node.op->name);
}

[[noreturn]] void refuse(const Node& node, const Decision& decision, const std::string& why) {
  user_error("{}{}{} of {} does not fit: {}", decision.place, decision.place.empty() ? "" : ": ",
             to_string(decision), name_text(node), why);
}

/// A copy of the node's weight, its input 1, in another form would be one more.
bool shares_weight(const Node& node) {
  if (node.is(op::matmul) || !node.inputs[1]->is_constant()) return false;
  return std::ranges::any_of(node.inputs[1]->users, [&](const Node* user) {
    return user->op != node.op || std::ranges::count(user->inputs, node.inputs[1]) != 1 ||
           user->inputs[1] != node.inputs[1];
  });
}

/// What a node wants of an input.
enum class Want : uint8_t { kNothing, kModel, kLast };

Want want_of(ImageOrder order) {
  return order == ImageOrder::kModel ? Want::kModel : Want::kLast;
}

/// A way in which a node may be.
struct Behaviour {
  double cost = 0;
  std::vector<Want> wants = {};  ///< by input
  ImageOrder result = ImageOrder::kModel;
  bool channels_last = false;    ///< of those that take images in either order
  std::optional<Decision> decision = {};

  Want wants_of(size_t input) const { return input < wants.size() ? wants[input] : Want::kModel; }
};

/// In which orders a value is there: as its node makes it, or that and converted.
enum State : uint8_t { kPlain, kLast, kPlainAndLast, kLastAndPlain, kStates };

ImageOrder made(size_t state) {
  return state == kPlain || state == kPlainAndLast ? ImageOrder::kModel : ImageOrder::kChannelsLast;
}
bool is_converted(size_t state) {
  return state == kPlainAndLast || state == kLastAndPlain;
}

/// Of a value to the other order.
struct Conversion {
  double cost = 0;
  bool moves = true;  ///< elements; else it is another name of the value
};

class Chooser {
 public:
  Chooser(const Function& function, const FormSet& forms, PassContext& context)
      : function_(function), forms_(forms), context_(context) {}

  FormChoices run() {
    leave_unfit_layouts();
    for (const Node* node : function_.nodes()) behaviours_.emplace(node, behaviours_of(*node));
    const bool may_differ = std::ranges::any_of(behaviours_, [](const auto& entry) {
      const auto& [node, some] = entry;
      if (node->is(op::transpose)) return some.front().result == ImageOrder::kChannelsLast;
      return may_be_last(some) && !is_follower(some);
    });
    if (may_differ) state_problem();
    const std::vector<size_t> solution = problem_.solve();
    for (const Node* node : function_.nodes()) take(*node, solution);
    if (context_.candidates) add_candidates();
    return std::move(choices_);
  }

 private:
  using Behaviours = std::vector<Behaviour>;

  /// Recorded layouts were measured together: without one of them the others are something else.
  void leave_unfit_layouts() {
    RecordedLayouts* layouts = context_.recorded_layouts;
    if (layouts == nullptr) return;
    for (const auto& [node, decision] : layouts->decisions) {
      const Misfit why = misfit_of(*node, decision);
      if (!why) continue;
      layouts->misfit = fmt::format("{}: {} of {} does not fit: {}", layouts->place, to_string(decision),
                                    name_text(*node), *why);
      context_.recorded_layouts = nullptr;
      return;
    }
  }

  Misfit misfit_of(const Node& node, const Decision& decision) const {
    if (node.inputs.empty()) return "nothing is decided for it";
    const FormQuestion question{.node = node, .weight = node.inputs.size() > 1 ? node.inputs[1] : nullptr};
    if (!has_choice(question)) return "nothing is decided for it";
    return forms_.misfit(question, decision);
  }

  bool has_choice(const FormQuestion& question) const {
    return forms_.has_choice(question) && !(context_.small && shares_weight(question.node));
  }

  static bool may_be_last(const Behaviours& some) {
    return std::ranges::any_of(some, [](const Behaviour& one) {
      return one.result == ImageOrder::kChannelsLast || std::ranges::count(one.wants, Want::kLast) > 0;
    });
  }
  static bool is_follower(const Behaviours& some) { return some.back().channels_last; }

  // --- what a node may be

  Behaviours behaviours_of(const Node& node) {
    if (const auto either = either_order(node)) return followed(*either, node);
    switch (order_change(node)) {
      case OrderChange::kToPlain:
        return {{.wants = {Want::kModel}, .result = ImageOrder::kChannelsLast}};
      case OrderChange::kToLast:
        return {{.wants = {Want::kLast}}, {.cost = forms_.conversion(node.inputs[0]->type), .wants = {Want::kModel}}};
      case OrderChange::kNone:
        break;
    }
    if (node.inputs.empty()) return {{}};
    FormQuestion question{.node = node, .weight = node.inputs.size() > 1 ? node.inputs[1] : nullptr};
    if (!has_choice(question)) {
      // Nobody would read it later.
      if (node.decision && node.decision->form != "plain" && !has_choices(node))
        refuse(node, *node.decision, "nothing is decided for it here; leave the decision out");
      return {{}};
    }
    Behaviours formed;
    for (FormOption& option : options_of(node, question)) formed.push_back(formed_by(std::move(option), node));
    choices_[&node].question = std::make_unique<FormQuestion>(std::move(question));
    return formed;
  }

  static Behaviours followed(const EitherOrder& either, const Node& node) {
    Behaviour last{.result = either.image_result ? ImageOrder::kChannelsLast : ImageOrder::kModel, .channels_last = true};
    for (size_t i = 0; i < node.inputs.size(); ++i) last.wants.push_back(either.images[i] ? Want::kLast : Want::kModel);
    return {{}, last};
  }

  /// The node's own decision or one that is given or recorded for it, if it fits, else what the forms propose.
  std::vector<FormOption> options_of(const Node& node, const FormQuestion& question) {
    const auto* line = context_.given == nullptr ? nullptr : context_.given->take(node);
    std::optional<Decision> decision = line != nullptr ? line->node.decision : node.decision;
    if (decision) {
      if (line != nullptr) decision->place = line->place;
      if (const Misfit why = forms_.misfit(question, *decision)) refuse(node, *decision, *why);
    } else {
      decision = recorded(question);
    }
    if (!decision) return forms_.options(question);
    return {{*decision, 0, forms_.orders(question, *decision)}};
  }

  /// None, too, where it does not fit.
  std::optional<Decision> recorded(const FormQuestion& question) {
    if (auto decision = recorded_layout(question.node)) return decision;
    if (context_.recorded == nullptr) return std::nullopt;
    NodeDecision& decided = choices_[&question.node].decided;
    decided.work = work_digest(function_, question.node);
    auto [decision, place, unused] = context_.recorded->find(decided.work);
    decided.unused_records = std::move(unused);
    if (!decision) return std::nullopt;
    if (const Misfit why = forms_.misfit(question, *decision)) {
      decided.unused_records.push_back(fmt::format("{}: {} does not fit: {}", place, to_string(*decision), *why));
      return std::nullopt;
    }
    decided.record = std::move(place);
    decided.record_key = decided.work;
    return decision;
  }

  std::optional<Decision> recorded_layout(const Node& node) {
    const RecordedLayouts* layouts = context_.recorded_layouts;
    if (layouts == nullptr) return std::nullopt;
    const auto found = std::ranges::find(layouts->decisions, &node, &std::pair<const Node*, Decision>::first);
    if (found == layouts->decisions.end()) return std::nullopt;
    NodeDecision& decided = choices_[&node].decided;
    decided.record = layouts->place;
    decided.record_key = layouts->key;
    return found->second;
  }

  Behaviour formed_by(FormOption&& option, const Node& node) const {
    return {.cost = option.cost,
            .wants = {wants_data(node, option.orders)},
            .result = option.orders.result,
            .decision = std::move(option.decision)};
  }

  /// Where two kernels read them so, the converted data would be a kernel's of their own.
  Want wants_data(const Node& node, const NodeOrders& orders) const {
    const auto readers = std::ranges::count_if(
        node.inputs[0]->users, [&](const Node* user) { return user->op == node.op && user->inputs[0] == node.inputs[0]; });
    return orders.stages_data && readers == 1 ? Want::kNothing : want_of(orders.data);
  }

  // --- the problem

  void state_problem() {
    for (const auto& [node, some] : behaviours_) {
      if (!may_be_last(some)) continue;
      for (const Value* result : node->results) note_type(result);
      for (const Value* input : node->inputs) note_type(input);
    }
    for (const Node* node : function_.nodes()) {
      const Behaviours& some = behaviours_.at(node);
      if (some.size() > 1) variables_.emplace(node, problem_.add_variable(costs_of(some)));
    }
    for (const Node* node : function_.nodes()) connect(*node, behaviours_.at(node));
    for (const Value* output : function_.outputs) connect_reader(output, nullptr, {{}}, 0);
    for (const Value* parameter : function_.parameters) connect_maker(parameter, nullptr, {{}});
  }

  void note_type(const Value* value) {
    if (value == nullptr || value->is_constant() || value->type.rank() < 3) return;
    const auto [known, is_new] = conversions_.try_emplace(value);
    if (!is_new) return;
    const double cost = forms_.conversion(value->type);
    known->second = {.cost = is_written_so(*value) ? 0 : cost, .moves = cost > 0};
    largest_ = std::max(largest_, known->second.cost);
  }

  /// The kernel that makes it takes any order of its result in.
  bool is_written_so(const Value& value) const {
    if (value.producer == nullptr || value.users.size() != 1 || function_.is_output(&value)) return false;
    const OpDef& op = op_def(*value.producer);
    return op.fusion == FusionClass::kInjective && !op.is_view && value.producer->results.size() == 1;
  }

  /// Of equal ones what is as the model has it comes last: values keep the order in which they are made.
  std::vector<double> costs_of(const Behaviours& some) const {
    std::vector<double> costs;
    for (const Behaviour& one : some)
      costs.push_back(one.cost + (is_follower(some) && !one.channels_last ? largest_ * kPreference * kPreference : 0));
    return costs;
  }

  /// The variable of a value that may be in both orders.
  std::optional<size_t> variable_of(const Value* value) {
    const auto conversion = conversions_.find(value);
    if (conversion == conversions_.end()) return std::nullopt;
    const auto [known, is_new] = values_.try_emplace(value, 0);
    if (is_new) known->second = problem_.add_variable({0, 0, conversion->second.cost, conversion->second.cost});
    return known->second;
  }

  void connect(const Node& node, const Behaviours& some) {
    for (size_t i = 0; i < node.inputs.size(); ++i) connect_reader(node.inputs[i], &node, some, i);
    for (const Value* result : node.results) connect_maker(result, &node, some);
  }

  /// Null: a reader that wants it as the model has it.
  void connect_reader(const Value* value, const Node* reader, const Behaviours& some, size_t input) {
    const auto conversion = conversions_.find(value);
    const double late = conversion != conversions_.end() && conversion->second.moves ? largest_ * kPreference : 0;
    add(value, reader, some, [input, late](const Behaviour& one, size_t state) -> double {
      const Want want = one.wants_of(input);
      if (want == Want::kNothing) return 0;
      const bool as_made = want == want_of(made(state));
      if (!as_made && !is_converted(state)) return INFINITY;
      return as_made ? 0 : late;
    });
  }

  void connect_maker(const Value* value, const Node* maker, const Behaviours& some) {
    add(value, maker, some,
        [](const Behaviour& one, size_t state) -> double { return made(state) == one.result ? 0 : INFINITY; });
  }

  template <typename Cost>
  void add(const Value* value, const Node* node, const Behaviours& some, const Cost& cost) {
    const auto variable = value == nullptr ? std::nullopt : variable_of(value);
    if (!variable) return;
    std::vector<double> costs;
    for (const Behaviour& one : some) {
      for (size_t state = 0; state < kStates; ++state) costs.push_back(cost(one, state));
    }
    if (some.size() == 1) return problem_.add_costs(*variable, costs);
    problem_.add_pair(variables_.at(node), *variable, costs);
  }

  // --- what was chosen

  void take(const Node& node, const std::vector<size_t>& solution) {
    Behaviours& some = behaviours_.at(&node);
    size_t taken = 0;
    if (const auto variable = variables_.find(&node); variable != variables_.end()) {
      taken = solution[variable->second];
    } else if (some.front().decision) {
      taken = static_cast<size_t>(std::ranges::min_element(some, {}, &Behaviour::cost) - some.begin());
    }
    if (taken != 0) std::swap(some[0], some[taken]);
    const Behaviour& one = some.front();
    if (one.channels_last) choices_[&node].channels_last = true;
    if (!one.decision) return;
    NodeDecision& decided = choices_[&node].decided;
    decided.op = node.op;
    decided.origin = node.origin;
    decided.decision = *one.decision;
    if (decided.work.empty()) decided.work = work_digest(function_, node);
  }

  /// With what lies around a node as it was chosen.
  void add_candidates() {
    for (auto& entry : choices_) {
      const Node* node = entry.first;
      NodeChoice& choice = entry.second;
      if (choice.question == nullptr) continue;
      const auto conversions = [&](const Decision& decision) {
        return conversions_of(*node, forms_.orders(*choice.question, decision));
      };
      choice.decided.candidates =
          compared(forms_.candidates(*choice.question), choice.decided.decision, conversions);
    }
  }

  double conversions_of(const Node& node, const NodeOrders& orders) const {
    double cost = 0;
    const Value* data = node.inputs[0];
    const Want want = wants_data(node, orders);
    if (want != Want::kNothing && !data->is_constant() && want != want_of(made_by(*data)) && !is_wanted(*data, want, &node))
      cost += conversion_of(data);
    const Want other = orders.result == ImageOrder::kModel ? Want::kLast : Want::kModel;
    for (const Value* result : node.results) {
      if (is_wanted(*result, other, nullptr)) cost += conversion_of(result);
    }
    return cost;
  }

  double conversion_of(const Value* value) const {
    const auto known = conversions_.find(value);
    return known == conversions_.end() ? 0 : known->second.cost;
  }

  ImageOrder made_by(const Value& value) const {
    return value.producer == nullptr ? ImageOrder::kModel : behaviours_.at(value.producer).front().result;
  }

  /// By any node but `but`, or by who gets the outputs.
  bool is_wanted(const Value& value, Want want, const Node* but) const {
    if (want == Want::kModel && function_.is_output(&value)) return true;
    return std::ranges::any_of(value.users, [&](const Node* user) {
      const Behaviour& one = behaviours_.at(user).front();
      for (size_t i = 0; user != but && i < user->inputs.size(); ++i) {
        if (user->inputs[i] == &value && one.wants_of(i) == want) return true;
      }
      return false;
    });
  }

  /// Of the largest conversion: too little to decide anything but between what costs the same.
  static constexpr double kPreference = 1e-6;

  const Function& function_;
  const FormSet& forms_;
  PassContext& context_;
  FormChoices choices_;
  std::unordered_map<const Node*, Behaviours> behaviours_;  ///< at the end the one that was taken is first
  std::unordered_map<const Value*, Conversion> conversions_;  ///< of values that may be in both orders
  double largest_ = 0;
  Pbqp problem_;
  std::unordered_map<const Node*, size_t> variables_;  ///< of nodes with several behaviours
  std::unordered_map<const Value*, size_t> values_;
};

}  // namespace

FormChoices choose_forms(const Function& function, const FormSet& forms, PassContext& context) {
  return Chooser(function, forms, context).run();
}

}  // namespace gantry
