#include "host/tune/equal_candidates.h"

#include <algorithm>
#include <vector>

#include "host/support/error.h"
#include "host/tune/tuner_run.h"

namespace gantry::tune {
namespace {

/// Where most of the time goes first: who asks for few decisions has those that matter.
std::vector<Trial> equal_trials(const Profile& profile, const Choices& choices) {
  std::vector<Trial> trials;
  for (size_t i = 0; i < profile.tasks.size(); ++i)
    if (profile.tasks[i] >= kLeastShare * profile.whole) trials.push_back({i, choices[i]});
  std::ranges::stable_sort(
      trials, [&](const Trial& a, const Trial& b) { return profile.tasks[a.task] > profile.tasks[b.task]; });
  return trials;
}

}  // namespace

EqualCandidates try_equal_candidates(Measurer& measurer, const Choices& choices, size_t decisions,
                                     double smallest_gain,
                                     const std::function<void(const EqualCandidates&)>& progress) {
  const auto gains = [&](const Ratio& ratio) { return ratio.high < 1 - smallest_gain; };
  const std::vector<Trial> all = equal_trials(measurer.profile(choices), choices);
  if (all.empty()) user_error("there is nothing to decide: no kernel takes {} of the time", kLeastShare);
  EqualCandidates found;
  while (found.decisions < decisions) {
    if (progress) progress(found);
    const size_t count = std::min(all.size(), decisions - found.decisions);
    const std::vector<Trial> trials(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    const Batch batch = measurer.measure(choices, {trials}, Effort::kSure).front();
    if (batch.failure) throw Error(ErrorKind::kBoard, "the network as it is: " + batch.failure->why);
    found.decisions += count;
    found.accepted += static_cast<size_t>(std::ranges::count_if(batch.ratios, gains));
    ++found.networks;
    if (gains(batch.whole)) ++found.networks_accepted;
  }
  return found;
}

}  // namespace gantry::tune
