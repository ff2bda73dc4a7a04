// Forms by chance: every form is right for every op that it fits, whatever is fast.
#include <algorithm>

#include "host/forms/choose.h"
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

/// Half of the knobs as they are where they are left out, the others near the beginning of their ranges.
Decision some_decision(const forms::Form& form, const FormQuestion& question, const forms::FormContext& context,
                       Choices& choices) {
  constexpr int64_t kFew = 4;
  Decision decision{std::string(form.name), {}};
  for (const forms::Knob& knob : form.knobs) {
    if (knob.of_schedule) continue;  // what fits depends on the kernel
    const forms::KnobRange range =
        knob.range != nullptr ? knob.range({question, decision, context}) : forms::KnobRange{};
    const int64_t steps = std::min((range.most - range.least) / range.step, kFew);
    const int64_t value = range.least + choices.between(0, steps) * range.step;
    if (choices.chance(0.5) || knob.otherwise < range.least) decision.set(std::string(knob.name), value, knob.otherwise);
  }
  return decision;
}

Decision choose(uint64_t seed, const FormQuestion& question, const forms::FormContext& context, const FormSet& all) {
  constexpr int kTries = 8;
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
