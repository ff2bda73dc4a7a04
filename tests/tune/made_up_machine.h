// Machines that are made up, for a tuner: what they measure scatters as real ones do, and some trials fail.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/cli/statistics/comparison.h"
#include "host/cli/statistics/estimate.h"
#include "host/support/error.h"
#include "host/tune/tuner.h"
#include "tests/cli/simulated_timings.h"
#include "tests/tune/small_space.h"

namespace gantry::tune {

using cli::Round;
using cli::Scatter;
using cli::SimulatedTimings;
using records::Outcome;

class ManualClock : public Clock {
 public:
  double seconds() const override { return now; }
  double now = 0;
};

/// What a decision of a task takes, of its untuned time: in truth.
using Truth = std::function<double(size_t task, const Decision& decision)>;
/// How a trial fails; none: it does not.
using Fault = std::function<std::optional<Outcome>(size_t task, const Decision& decision)>;

class MadeUpMachine : public Measurer {
 public:
  MadeUpMachine(size_t tasks, Truth truth, uint64_t seed, ManualClock& clock)
      : tasks_(tasks), truth_(std::move(truth)), timings_(seed), clock_(clock) {}

  Profile profile(const Choices& choices) override {
    clock_.now += profile_s;
    Profile profile;
    for (size_t i = 0; i < choices.size(); ++i) profile.tasks.push_back(10 * truth_(i, choices[i]));
    profile.whole = whole_of(choices);
    return profile;
  }

  std::optional<Failure> build_failure(const Choices& choices) override {
    for (size_t i = 0; i < choices.size(); ++i)
      if (misfit_ && misfit_(i, choices[i])) return Failure{Outcome::kMisfit, "it fits no kernel"};
    return std::nullopt;
  }

  std::vector<Batch> measure(const Choices& base, const std::vector<std::vector<Trial>>& batches,
                             Effort effort) override {
    std::vector<Batch> results;
    for (const std::vector<Trial>& trials : batches) results.push_back(measure_batch(base, trials, effort));
    return results;
  }
  size_t batches_at_once() const override { return at_once; }
  double waited_s() const override { return waited; }
  std::vector<Batch> measure_whole(const Choices& base, const std::vector<Choices>& others,
                                   Effort effort) override {
    std::vector<Batch> results;
    for (const Choices& other : others) {
      std::vector<Trial> trials;
      for (size_t i = 0; i < tasks_; ++i)
        if (other[i] != base[i]) trials.push_back({i, other[i]});
      results.push_back(measure_choices(base, other, trials, effort));
    }
    whole_measurements += others.size();
    return results;
  }

  Batch measure_batch(const Choices& base, const std::vector<Trial>& trials, Effort effort) {
    Choices with = base;
    for (const Trial& trial : trials) with[trial.task] = trial.decision;
    return measure_choices(base, with, trials, effort);
  }

  /// `trials`: where the choices differ.
  Batch measure_choices(const Choices& base, const Choices& with, const std::vector<Trial>& trials,
                        Effort effort) {
    if (build_failure(base)) user_error("the base fits no kernel");
    if (++measurements == 1) clock_.now += first_s;
    if (others_every > 0 && measurements % others_every == 0) wait(40);
    clock_.now += effort == Effort::kSure ? 8 : 1;
    Batch batch;
    batch.failure = build_failure(with);
    for (const Trial& trial : trials) {
      if (const auto fault = fault_ ? fault_(trial.task, trial.decision) : std::nullopt)
        batch.failure = Failure{*fault, "injected"};
    }
    if (flaky > 0 && timings_.uniform() < flaky)
      batch.failure = Failure{Outcome::kCrashed, "the machine's own fault"};
    if (batch.failure) {
      if (batch.failure->outcome == Outcome::kTimedOut) clock_.now += 3;
      return batch;
    }
    for (const Trial& trial : trials)
      batch.ratios.push_back(
          ratio(truth_(trial.task, trial.decision) / truth_(trial.task, base[trial.task]), effort));
    batch.whole = ratio(whole_of(with) / whole_of(base), effort);
    return batch;
  }

  Batch compare(const Choices& base, const Choices& other, double seconds, double confidence) override {
    if (comparing) comparing();
    confidences.push_back(confidence);
    clock_.now += std::max(seconds, least_compare_s);
    ++comparisons;
    Batch batch;
    if (other.combined && breaks_combined) batch.failure = Failure{Outcome::kWrong, "injected"};
    const double truth = whole_gains ? whole_of(other) / whole_of(base) : 1.01;
    batch.whole = ratio(truth, Effort::kSure, confidence);
    return batch;
  }

  Scatter scatter{.between = 0.015, .within = 0.02, .slow_samples = 0, .loaded = 0.05};
  Fault fault_;
  /// What fits no kernel, in whatever program it is.
  std::function<bool(size_t task, const Decision& decision)> misfit_ = {};
  double flaky = 0;
  double of_combined = 1;  ///< what products that are combined take of what they take apart
  bool breaks_combined = false;
  double of_apart = 1;                ///< the same of what is kept apart
  double profile_s = 0, first_s = 0;  ///< that a profile takes, and the first measurement more than others
  size_t others_every = 0;            ///< each time after so many measurements somebody else has the machine
  double waited = 0;                  ///< for them
  double least_compare_s = 0;         ///< that a comparison takes, however short it should be
  bool whole_gains = true;  ///< false: whatever kernels gain, comparisons of the whole network show a loss
  size_t at_once = 1;
  std::function<void()> comparing = {};  ///< called when a comparison of the whole network begins
  size_t measurements = 0, whole_measurements = 0, comparisons = 0;
  std::vector<double> confidences;  ///< that comparisons were asked for

 private:
  void wait(double seconds) {
    clock_.now += seconds;
    waited += seconds;
  }

  double whole_of(const Choices& choices) {
    // What no decision of a task changes.
    double ms = 10 * (choices.combined ? of_combined : 1) * (choices.apart.empty() ? 1 : of_apart);
    for (size_t i = 0; i < tasks_; ++i) ms += 10 * truth_(i, choices[i]);
    return ms;
  }

  /// As a machine's measurer makes them: processes with offsets of their own, segments in turns.
  Ratio ratio(double truth, Effort effort, double confidence = kConfidence) {
    const std::vector<Round> rounds =
        timings_.rounds(scatter, effort == Effort::kSure ? 8 : 1, 4, std::log(truth));
    Ratio result;
    std::vector<double> ratios;
    for (const Round& round : rounds) {
      for (const cli::SegmentPair& pair : round.pairs) ratios.push_back(pair.other_ms / pair.base_ms);
    }
    result.value = cli::median_of(ratios);
    result.low = result.value * 0.94;
    result.high = result.value * 1.06;
    if (effort == Effort::kSure) {
      const cli::Comparison comparison = cli::compare_rounds(rounds, {.confidence = confidence});
      result.value = comparison.ratio;
      result.low = comparison.low;
      result.high = comparison.high;
    }
    result.base_amount = 10;
    result.amount = 10 * result.value;
    return result;
  }

  size_t tasks_;
  Truth truth_;
  SimulatedTimings timings_;
  ManualClock& clock_;
};

class MadeUpScreen : public Screen {
 public:
  std::vector<Look> look_at(size_t, const std::vector<Decision>& decisions) override {
    std::vector<Look> looks;
    for (const Decision& decision : decisions) {
      Look look;
      if (decision.knob("rows") == 5) look.misfit = "five rows fit nothing";
      look.features = {decision.form == "direct" ? 1.0F : 0.0F, float(decision.knob("block")),
                       float(decision.knob("rows")), float(decision.knob("chunk"))};
      // The analytic model sees half of it.
      look.predicted = 1e5 * std::sqrt(made_up_cost(decision));
      looks.push_back(look);
    }
    return looks;
  }
};

inline std::vector<Task> tasks(size_t count) {
  std::vector<Task> result;
  for (size_t i = 0; i < count; ++i) {
    Task task;
    task.work = std::string(63, 'a') + std::to_string(i);
    task.op = "conv";
    task.nodes = {"conv" + std::to_string(i)};
    task.numbers = {static_cast<int64_t>(10 * i)};
    task.space = small_space();
    task.untuned = task.space.proposed.front();
    result.push_back(std::move(task));
  }
  return result;
}

inline double true_cost(size_t, const Decision& decision) {
  return made_up_cost(decision) / made_up_cost(small_space().proposed.front());
}

struct MadeUpRun {
  MadeUpRun(size_t count, const Truth& truth, uint64_t seed)
      : all(tasks(count)),
        machine(count, truth, seed, clock),
        model(make_analytic_model()),
        notebook(nullptr, {}, {}) {
    options.seed = seed;
  }
  TuneResult run() { return tune(all, options, {machine, screen, *model, notebook, clock, {}}); }

  std::vector<Task> all;
  ManualClock clock;
  MadeUpMachine machine;
  MadeUpScreen screen;
  std::unique_ptr<CostModel> model;
  Notebook notebook;
  TuneOptions options;
};

/// Of the network.
inline double true_ratio(const MadeUpRun& setup, const TuneResult& result, const Truth& truth) {
  double tuned = 10, untuned = 10;
  for (size_t i = 0; i < setup.all.size(); ++i) {
    tuned += 10 * truth(i, result.choices[i]);
    untuned += 10 * truth(i, setup.all[i].untuned);
  }
  return tuned / untuned;
}

/// Each task may have its images otherwise, by {form=planar}.
inline void add_layouts(MadeUpRun& setup) {
  for (Task& task : setup.all) {
    OtherLayout layout{"images otherwise", {"planar", {{"block", 16}}}, {}};
    layout.space.forms = {{"planar", {{"block", 0, false, {8, 16, 32}}}}};
    layout.space.proposed = {layout.decision};
    task.layouts.push_back(std::move(layout));
  }
}

/// Planar kernels take that much; all others what the untuned one takes.
inline Truth of_planar(double cost) {
  return [cost](size_t, const Decision& decision) {
    if (decision.form != "planar") return 1.0;
    return decision.knob("block") == 32 ? 0.9 * cost : cost;
  };
}

/// What follows each task's kernel may be one of its own.
inline void add_fusions(MadeUpRun& setup) {
  for (size_t i = 0; i < setup.all.size(); ++i) {
    NumberedSeparation one;
    one.edge.maker.origin = setup.all[i].nodes;
    one.edge.reader.origin = {"relu" + std::to_string(i)};
    one.maker = setup.all[i].numbers[0];
    one.reader = one.maker + 1;
    setup.all[i].fusions = {{"relu apart from conv", {one}}};
  }
}

}  // namespace gantry::tune
