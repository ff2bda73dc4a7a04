#include "host/tune/notebook.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

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
  return text;
}

}  // namespace

Notebook::Notebook(records::Store* store, RunFacts facts, Warn warn)
    : store_(store), facts_(std::move(facts)), warn_(std::move(warn)) {}

records::Record Notebook::record_of(const Task& task, const Decision& decision, const Decision& base) const {
  records::Record record;
  record.key = {task.work, facts_.setting};
  record.op = task.op;
  record.decision = decision;
  record.baseline = base;
  record.timed = "kernel";
  record.model = records::line_of(facts_.model);
  record.nodes = nodes_text(task.nodes);
  record.board = facts_.board;
  record.date = records::date_now();
  record.source = facts_.source;
  return record;
}

void Notebook::measured(const Task& task, const Decision& decision, const Decision& base, const Ratio& ratio,
                        bool confirmation) {
  if (store_ == nullptr) return;
  records::Record record = record_of(task, decision, base);
  record.outcome = records::Outcome::kMeasured;
  record.timing = timing_of(ratio);
  record.confirmation = confirmation;
  add(task, std::move(record));
}

void Notebook::failed(const Task& task, const Decision& decision, const Decision& base,
                      const Failure& failure) {
  if (store_ == nullptr) return;
  records::Record record = record_of(task, decision, base);
  record.outcome = failure.outcome;
  record.reason = records::line_of(failure.why);
  add(task, std::move(record));
}

void Notebook::add(const Task& task, records::Record record) {
  if (!task.program.empty() && known_.insert(task.work).second)
    programs_.push_back({task.work, task.program});
  pending_.push_back(std::move(record));
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
  store_->add(pending_, programs_);
  written_ += pending_.size();
  pending_.clear();
  programs_.clear();
}

std::vector<Remembered> Notebook::recall(const Task& task) {
  if (store_ == nullptr) return {};
  std::vector<records::Record> all;
  try {
    all = store_->all({task.work, facts_.setting});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    if (warn_) warn_(error.what());
    return {};
  }
  return costs_of(all, task.untuned);
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
