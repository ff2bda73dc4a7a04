// Forms by chance: every form is right for every op that it fits, whatever is fast.
#include <algorithm>
#include <set>

#include "host/codegen/find_target.h"
#include "host/forms/choose.h"
#include "host/forms/product.h"
#include "tests/forms/given_forms.h"
#include "tests/random_graphs/choices.h"
#include "tests/random_graphs/passes.h"

namespace gantry::random_graphs {
namespace {

/// Of every kind: vectors of 16 to 64 bytes, each tile unit, and a GPU.
const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> targets{find_target("x86-64-v2"), find_target("x86-64-v3"), find_target("cuda:sm_80")};
    // Three parts are as exact as f32.
    for (const char* name : {"sapphirerapids", "x86-64-v4+avx512bf16", "neoverse-v1"})
      targets.push_back(with_precision(find_target(name), Precision::kFp32Split3));
    return targets;
  }();
  return all;
}

/// As exact as f32, or nearly.
bool is_exact(const Decision& decision) {
  return decision.knob("half") == 0 && decision.knob("bits", 24) == 24 && decision.knob("parts", 3) == 3;
}

/// Of a knob that says what products are of: those of the table that lie in its range, and its default.
std::vector<int64_t> product_values(const forms::Knob& knob, const forms::KnobRange& range) {
  std::set<int64_t> values{knob.otherwise};
  for (const forms::ProductType& type : forms::product_types()) {
    if (type.knob == knob.name) values.insert(type.value);
  }
  std::erase_if(values, [&](int64_t value) { return value < range.least || value > range.most; });
  return {values.begin(), values.end()};
}

/// Of other knobs: half of them as they are where they are left out, the others near the beginning of their ranges.
int64_t some_value(const forms::Knob& knob, const forms::KnobRange& range, Choices& choices) {
  constexpr int64_t kFew = 4;
  const int64_t steps = std::min((range.most - range.least) / range.step, kFew);
  const int64_t value = range.least + choices.between(0, steps) * range.step;
  return choices.chance(0.5) || knob.otherwise < range.least ? value : knob.otherwise;
}

Decision some_decision(const forms::Form& form, const FormQuestion& question, const forms::FormContext& context,
                       Choices& choices) {
  Decision decision{std::string(form.name), {}};
  // Ranges of other knobs depend on what products are of.
  for (const bool of_products : {true, false}) {
    for (const forms::Knob& knob : form.knobs) {
      // What fits of the schedule's depends on the kernel.
      if (knob.of_schedule || forms::says_product(knob.name) != of_products) continue;
      const forms::KnobRange range =
          knob.range != nullptr ? knob.range({question, decision, context}) : forms::KnobRange{};
      const int64_t value = of_products ? choices.of(product_values(knob, range)) : some_value(knob, range, choices);
      decision.set(std::string(knob.name), value, knob.otherwise);
    }
  }
  return decision;
}

Decision choose(uint64_t seed, const FormQuestion& question, const forms::FormContext& context, const FormSet& all) {
  constexpr int kTries = 16;
  // The same answer to the same question.
  Choices choices(seed, question.node.op->name + to_string(*question.node.attrs) + question.node.inputs[0]->type.str());
  std::vector<Decision> fitting;
  for (const forms::ListedForm& listed : forms::all_forms()) {
    if (!is_for(*listed.form, context.target) || !listed.form->possible(question, context)) continue;
    for (int i = 0; i < kTries; ++i) {
      Decision decision = some_decision(*listed.form, question, context, choices);
      if (!is_exact(decision) || all.misfit(question, decision)) continue;
      fitting.push_back(std::move(decision));
      break;
    }
  }
  return choices.of(fitting);
}

}  // namespace

std::unique_ptr<FormSet> random_forms(uint64_t seed) {
  const Target& target = Choices(seed, "target").of(targets());
  return std::make_unique<GivenForms>(target, [seed, context = forms::FormContext{.target = target}](
                                                  const FormQuestion& question, const FormSet& all) {
    return choose(seed, question, context, all);
  });
}

}  // namespace gantry::random_graphs
