#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "host/records/record.h"
#include "host/support/words.h"

namespace gantry::records {
namespace {

/// Of several stores' records ids alone say nothing.
bool is_older(const Record& a, const Record& b) {
  return std::tie(a.date, a.id) < std::tie(b.date, b.id);
}

/// The setting in what a question may leave open.
struct Open {
  std::string machine;
  int threads = 0;
  auto operator<=>(const Open&) const = default;
};

bool matches(const Setting& own, const Setting& asked) {
  Setting open = own;
  if (asked.machine.empty()) open.machine.clear();
  if (asked.threads == 0) open.threads = 0;
  return open == asked;
}

/// Text that "of " stands before.
std::vector<std::string> differences(const Setting& own, const Setting& asked) {
  std::vector<std::string> said;
  const auto add = [&](const std::string& one, const std::string& other, std::string_view what) {
    if (one != other) said.push_back(fmt::format("{}{}, not {}", what, one, other));
  };
  add(own.target, asked.target, "target ");
  if (!asked.machine.empty()) add(own.machine, asked.machine, "");
  if (own.features != asked.features) said.emplace_back("other CPU features");
  if (asked.threads != 0 && own.threads != asked.threads)
    said.push_back(fmt::format("{}, not {}", counted(own.threads, "thread"), asked.threads));
  add(own.precision, asked.precision, "precision ");
  add(own.optimize, asked.optimize, "--optimize ");
  if (own.generator != asked.generator)
    said.push_back(fmt::format("generator {}, not this one", own.generator));
  return said;
}

/// What all records of one decision for one key come to.
struct Verdict {
  const Record* newest = nullptr;  ///< of those that count
  std::vector<const Record*> losses;  ///< trials that were surely slower than what they were compared with
  bool out = false;                ///< wrong once

  void add(const Record& record) {
    out = out || record.outcome == Outcome::kWrong;
    const bool failed = record.outcome != Outcome::kMeasured;
    if (!failed && !record.confirmation) {
      if (record.timing && record.timing->ratio_low > 1) losses.push_back(&record);
      return;
    }
    if (newest == nullptr || is_older(*newest, record)) newest = &record;
  }
  /// The confirmation that may decide; null: none may.
  const Record* gain() const {
    const bool decides = !out && newest != nullptr && newest->confirmation && newest->timing &&
                         is_gain(*newest->timing) && !is_taken_back();
    return decides ? newest : nullptr;
  }

 private:
  /// Beside something better a decision loses, too: only what the confirmation was compared with counts.
  bool is_taken_back() const {
    return std::ranges::any_of(losses, [&](const Record* loss) {
      return loss->baseline == newest->baseline && is_older(*newest, *loss);
    });
  }
};

/// The gains of one setting, each of another decision.
std::vector<const Record*> gains_of(std::span<const Record* const> records) {
  std::vector<std::pair<const Record*, Verdict>> verdicts;
  for (const Record* record : records) {
    auto found = std::ranges::find_if(verdicts, [&](const auto& one) {
      return one.first->decision == record->decision && one.first->parts == record->parts;
    });
    if (found == verdicts.end()) found = verdicts.insert(verdicts.end(), {record, {}});
    found->second.add(*record);
  }
  std::vector<const Record*> gains;
  for (const auto& [first, verdict] : verdicts) {
    if (const Record* gain = verdict.gain()) gains.push_back(gain);
  }
  return gains;
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(std::move(text));
}

}  // namespace

Best best_of(std::span<const Record> of_work, const Setting& setting) {
  Best best;
  std::vector<const Setting*> settings;
  for (const Record& record : of_work) {
    const bool known =
        std::ranges::any_of(settings, [&](const Setting* one) { return *one == record.key.setting; });
    if (!known) settings.push_back(&record.key.setting);
  }
  std::vector<const Record*> deciding;
  std::vector<Open> open;
  for (const Setting* one : settings) {
    std::vector<const Record*> own;
    for (const Record& record : of_work) {
      if (record.key.setting == *one) own.push_back(&record);
    }
    const std::vector<const Record*> gains = gains_of(own);
    if (gains.empty()) continue;
    if (!matches(*one, setting)) {
      add_once(best.mismatches, fmt::format("of {}", fmt::join(differences(*one, setting), "; ")));
      continue;
    }
    open.push_back({one->machine, one->threads});
    deciding.insert(deciding.end(), gains.begin(), gains.end());
  }
  if (open.size() > 1) {
    for (const auto& [machine, threads] : open)
      add_once(best.mismatches,
               fmt::format("of {} with {} threads: one of {} that there are", machine, threads, open.size()));
    return best;
  }
  if (deciding.empty()) return best;
  best.mismatches.clear();
  best.record =
      **std::ranges::min_element(deciding, {}, [](const Record* one) { return one->timing->ratio_high; });
  return best;
}

}  // namespace gantry::records
