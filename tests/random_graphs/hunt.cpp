#include "tests/random_graphs/hunt.h"

#include <algorithm>

#include "tests/random_graphs/choices.h"
#include "tests/random_graphs/shrink.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

bool fails_alike(const Case& test, const Check& check, const std::string& first) {
  Statistics ignored;
  const auto failure = first_failure(test, {check}, ignored);
  return failure && failure->first == first;
}

/// Only the passes that it takes.
Check shortest(const Case& test, const Failure& failure) {
  Check check = failure.check;
  const auto last = std::ranges::find(check.passes, failure.first);
  if (last == check.passes.end()) return check;
  check.passes.erase(last + 1, check.passes.end());
  for (size_t i = check.passes.size() - 1; i-- > 0;) {
    Check fewer = check;
    fewer.passes.erase(fewer.passes.begin() + static_cast<std::ptrdiff_t>(i));
    if (fails_alike(test, fewer, failure.first)) check = fewer;
  }
  return check;
}

/// Which of the last pass's rewrites is the first that is wrong; 0 where that is not known.
int64_t first_wrong_rewrite(const Case& test, Check check, const std::string& first) {
  if (check.passes.empty()) return 0;
  return first_failing([&](int64_t rewrites) {
    check.most_rewrites = rewrites;
    return fails_alike(test, check, first);
  });
}

}  // namespace

int64_t first_failing(const std::function<bool(int64_t)>& fails) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (fails(0)) return 0;
  int64_t right = 0, wrong = 1;
  for (; !fails(wrong); wrong *= 2) {
    if (wrong == kMost) return 0;
    right = wrong;
  }
  while (wrong - right > 1) {
    const int64_t middle = right + (wrong - right) / 2;
    (fails(middle) ? wrong : right) = middle;
  }
  return wrong;
}

std::string shrunk_report(const Case& test, Failure failure) {
  // Every attempt at what is compiled takes a good part of a second.
  const int limit = failure.check.passes.empty() ? 150 : 2000;
  failure.check = shortest(test, failure);
  const Case small = shrunk(
      test, [&](const Case& c) { return fails_alike(c, failure.check, failure.first); }, limit);
  Statistics ignored;
  failure = first_failure(small, {failure.check}, ignored).value_or(failure);
  failure.rewrite = first_wrong_rewrite(small, failure.check, failure.first);
  return report(small, failure);
}

std::optional<std::string> hunt(uint64_t seed, const HuntOptions& options, Statistics& statistics) {
  const Case test = random_case(seed);
  std::vector<Check> checks = pass_checks(test, options.orders);
  if (Choices(seed, "compile").chance(options.compiled_share)) {
    for (const std::string& target : options.targets) {
      for (int level : options.opt_levels) checks.push_back({{}, level, target});
    }
  }
  const auto failure = first_failure(test, checks, statistics);
  if (!failure) return std::nullopt;
  return shrunk_report(test, *failure);
}

}  // namespace gantry::random_graphs
