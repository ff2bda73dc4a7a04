#include "host/passes/node_decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace gantry {
namespace {

/// With conversions.
std::optional<double> cost_of(const Candidate& candidate) {
  const std::optional<double> own = candidate.cycles ? candidate.cycles : candidate.ms;
  if (!own) return own;
  return *own + candidate.conversions;
}

/// Of one that fits and is not taken.
std::string reason(const Candidate& other, const Candidate& taken) {
  const auto cost = cost_of(other), least = cost_of(taken);
  if (!cost || !least || *least <= 0)
    return other.conversions > taken.conversions ? "more conversions between layouts" : "nothing predicts it";
  const double ratio = *cost / *least;
  const std::string_view with = other.conversions > taken.conversions ? ", with conversions between layouts" : "";
  if (ratio >= 1) return fmt::format("{:.2f} times as long{}", ratio, with);
  // A promise was not kept, or a form says more of itself (Bid::claim).
  return fmt::format("{:.2f} times as long, but {}", ratio,
                     other.error > taken.error
                         ? "predicted less well or less exact"
                         : "more than cycles was weighed: the weights' way from memory, or the precision");
}

/// Knobs that one of two decisions has and the other lacks, then those whose values differ.
std::pair<size_t, size_t> differences(const Decision& a, const Decision& b) {
  size_t in_both = 0, alike = 0;
  for (const auto& knob : a.knobs) {
    const auto other = std::ranges::find(b.knobs, knob.first, &std::pair<std::string, int64_t>::first);
    if (other == b.knobs.end()) continue;
    ++in_both;
    alike += *other == knob ? 1 : 0;
  }
  return {a.knobs.size() + b.knobs.size() - 2 * in_both, in_both - alike};
}

/// The candidate of a decision's form that differs the least from it: candidates say nothing of the schedule.
std::vector<Candidate>::iterator nearest(std::vector<Candidate>& candidates, const Decision& taken) {
  auto nearest = candidates.end();
  for (auto one = candidates.begin(); one != candidates.end(); ++one) {
    if (one->decision.form != taken.form) continue;
    if (nearest == candidates.end() || differences(one->decision, taken) < differences(nearest->decision, taken))
      nearest = one;
  }
  return nearest;
}

}  // namespace

std::vector<Candidate> compared(std::vector<Candidate> candidates, const Decision& taken,
                                const std::function<double(const Decision&)>& conversions) {
  auto found = std::ranges::find(candidates, taken, &Candidate::decision);
  if (found == candidates.end()) {
    found = nearest(candidates, taken);
    if (found == candidates.end()) found = candidates.insert(candidates.begin(), Candidate{taken, {}, {}, ""});
    found->decision = taken;
    found->why.clear();
  }
  for (Candidate& one : candidates) one.conversions = conversions(one.decision);
  const Candidate chosen = *found;
  for (Candidate& one : candidates) {
    if (one.why.empty() && !(one.decision == taken)) one.why = reason(one, chosen);
  }
  return candidates;
}

const GivenDecisions::Line* GivenDecisions::take(const Node& node) {
  const auto found = std::ranges::find_if(lines_, [&](const Line& line) {
    return !line.taken && line.node.op == node.op && line.node.origin == node.origin;
  });
  if (found == lines_.end()) return nullptr;
  found->taken = true;
  return &*found;
}

const GivenDecisions::Line* GivenDecisions::left_over(
    const std::function<bool(const NodeDecision&)>& left_out) const {
  const auto found = std::ranges::find_if(
      lines_, [&](const Line& line) { return !line.taken && !(left_out && left_out(line.node)); });
  return found == lines_.end() ? nullptr : &*found;
}

const GivenDecisions::Line* GivenDecisions::taken_like(const Line& line) const {
  const auto found = std::ranges::find_if(lines_, [&](const Line& other) {
    return other.taken && other.node.op == line.node.op && other.node.origin == line.node.origin;
  });
  return found == lines_.end() ? nullptr : &*found;
}

void GivenDecisions::share_taken(std::set<std::string>& places) {
  for (Line& line : lines_) {
    if (line.taken) places.insert(line.place);
    line.taken = places.contains(line.place);
  }
}

}  // namespace gantry
