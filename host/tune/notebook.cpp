#include "host/tune/notebook.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "host/support/error.h"

namespace gantry::tune {
namespace {

std::vector<double> seconds_of(const std::vector<double>& ms) {
  std::vector<double> seconds;
  for (double one : ms) seconds.push_back(one / 1e3);
  return seconds;
}

/// Of Metric::kTime, which alone is kept.
records::Timing timing_of(const Ratio& ratio) {
  return {.seconds = ratio.amount / 1e3,
          .baseline_seconds = ratio.base_amount / 1e3,
          .ratio = ratio.value,
          .ratio_low = ratio.low,
          .ratio_high = ratio.high,
          .process_seconds = seconds_of(ratio.process_amounts),
          .baseline_process_seconds = seconds_of(ratio.base_process_amounts)};
}

/// Of several nodes the names of as many as a record takes.
std::string nodes_text(const std::vector<std::string>& nodes) {
  constexpr size_t kMost = 400;
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string more = (i == 0 ? "" : ", ") + nodes[i];
    if (text.size() + more.size() > kMost) return fmt::format("{} and {} more", text, nodes.size() - i);
    text += more;
  }
  return records::line_of(text);
}

/// With what all of a run have in common.
records::Record record_from(const RunFacts& facts) {
  records::Record record;
  record.key.setting = facts.setting;
  record.model = records::line_of(facts.model);
  record.board = records::line_of(facts.board);
  record.date = records::date_now();
  record.source = facts.source;
  return record;
}

/// Of Metric::kTime.
Ratio ratio_of(const records::Timing& timing) {
  Ratio ratio;
  ratio.value = timing.ratio;
  ratio.low = timing.ratio_low;
  ratio.high = timing.ratio_high;
  ratio.amount = timing.seconds * 1e3;
  ratio.base_amount = timing.baseline_seconds * 1e3;
  return ratio;
}

void set_timing(records::Record& record, const Ratio& ratio, bool confirmation) {
  record.outcome = records::Outcome::kMeasured;
  record.timing = timing_of(ratio);
  record.confirmation = confirmation;
}

void set_failure(records::Record& record, const Failure& failure) {
  record.outcome = failure.outcome;
  record.reason = records::line_of(failure.why);
}

}  // namespace

Notebook::Notebook(records::Store* store, RunFacts facts, Warn warn)
    : store_(store), facts_(std::move(facts)), warn_(std::move(warn)) {}

records::Record Notebook::record_of(const Task& task, const Decision& decision, const Decision& base) const {
  records::Record record = record_from(facts_);
  record.key.work = task.work;
  record.op = task.op;
  record.decision = decision;
  record.baseline = base;
  record.timed = "kernel";
  record.nodes = nodes_text(task.nodes);
  return record;
}

records::Record Notebook::record_of(const NetworkTrial& trial) const {
  records::Record record = record_from(facts_);
  record.key.work = work_of(trial);
  record.op = records::kNetworkOp;
  record.decision = trial.decision;
  record.parts = trial.parts;
  record.baseline.form = trial.question == NetworkQuestion::kProducts ? "separate" : "own";
  record.timed = "network";
  record.nodes = nodes_text(trial.nodes);
  return record;
}

void Notebook::measured(const Task& task, const Decision& decision, const Decision& base, const Ratio& ratio,
                        bool confirmation) {
  if (store_ == nullptr || !takes(confirmation)) return;
  records::Record record = record_of(task, decision, base);
  set_timing(record, ratio, confirmation);
  add(task, std::move(record));
}

void Notebook::failed(const Task& task, const Decision& decision, const Decision& base,
                      const Failure& failure) {
  if (store_ == nullptr) return;
  records::Record record = record_of(task, decision, base);
  set_failure(record, failure);
  add(task, std::move(record));
}

void Notebook::measured(const NetworkTrial& trial, const Ratio& whole, bool confirmation) {
  if (!keeps(trial) || !takes(confirmation)) return;
  records::Record record = record_of(trial);
  set_timing(record, whole, confirmation);
  keep(std::move(record));
}

void Notebook::failed(const NetworkTrial& trial, const Failure& failure) {
  if (!keeps(trial)) return;
  records::Record record = record_of(trial);
  set_failure(record, failure);
  keep(std::move(record));
}

void Notebook::add(const Task& task, records::Record record) {
  if (!keep(std::move(record)) || task.program.empty() || !known_.insert(task.work).second) return;
  records::WorkProgram program{task.work, task.program};
  if (is_fit(program, "the program of a kernel")) programs_.push_back(std::move(program));
}

bool Notebook::keep(records::Record record) {
  if (!is_fit(record, "a record")) return false;
  pending_.push_back(std::move(record));
  return true;
}

template <typename Kept>
bool Notebook::is_fit(const Kept& one, const std::string& what) {
  try {
    check(one);
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    if (unfit_.insert(what).second && warn_)
      warn_(fmt::format("{}: {} is left out, and others like it will be: {}", store_->place(), what,
                        error.what()));
    return false;
  }
}

void Notebook::flush() {
  if (pending_.empty()) return;
  try {
    write();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    if (!warned_ && warn_)
      warn_(fmt::format("{}; what is measured is kept, and written as soon as that can be", error.what()));
    warned_ = true;
  }
}

void Notebook::finish() {
  if (!pending_.empty()) write();
}

void Notebook::write() {
  // A server that goes away in the last moment may have written what is thrown for.
  if (std::exchange(doubtful_, true)) {
    store_->add_again(pending_, programs_);
  } else {
    store_->add(pending_, programs_);
  }
  doubtful_ = false;
  written_ += pending_.size();
  pending_.clear();
  programs_.clear();
  known_.clear();  // another program may prune the store, which takes programs along
}

std::vector<records::Record> Notebook::all(const std::string& work) {
  if (unreadable_) return {};
  try {
    return store_->all({work, facts_.setting});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    unreadable_ = true;
    if (warn_) warn_(fmt::format("{}; what stands there is not used by this run", error.what()));
    return {};
  }
}

std::vector<Remembered> Notebook::recall(const Task& task, const Decision& base) {
  return store_ == nullptr ? std::vector<Remembered>() : costs_of(all(task.work), base);
}

std::optional<Decision> Notebook::confirmed(const Task& task) {
  if (store_ == nullptr) return std::nullopt;
  const std::vector<records::Record> records = all(task.work);
  const records::Best best = records::best_of(records, facts_.setting);
  if (!best.record || best.record->baseline != task.untuned) return std::nullopt;
  return best.record->decision;
}

std::optional<RememberedTrial> Notebook::recall(const NetworkTrial& trial) {
  if (!keeps(trial)) return std::nullopt;
  std::optional<RememberedTrial> last;
  for (const records::Record& record : all(work_of(trial))) {
    if (record.decision != trial.decision || record.parts != trial.parts) continue;
    RememberedTrial& one = last.emplace();
    if (record.timing) {
      one.whole = ratio_of(*record.timing);
    } else {
      one.failure = Failure{record.outcome, record.reason};
    }
  }
  return last;
}

std::vector<Remembered> costs_of(std::span<const records::Record> of_work, const Decision& untuned) {
  // Costs are known along the chain of what was compared with what.
  std::map<std::string, double> costs{{to_string(untuned), 1}};
  std::map<std::string, size_t> places;
  std::vector<Remembered> remembered;
  for (const records::Record& record : of_work) {
    const std::string text = to_string(record.decision);
    std::optional<double> cost;
    if (record.timing) {
      const auto base = costs.find(to_string(record.baseline));
      if (base == costs.end()) continue;
      cost = record.timing->ratio * base->second;
      costs[text] = *cost;
    }
    const auto [place, is_new] = places.try_emplace(text, remembered.size());
    if (is_new) remembered.push_back({record.decision, cost});
    remembered[place->second].cost = cost;
  }
  std::erase_if(remembered, [&](const Remembered& one) { return one.decision == untuned; });
  return remembered;
}

}  // namespace gantry::tune
