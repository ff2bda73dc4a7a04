// "Did you mean …?"
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

/// Edits (insert, delete, replace, swap neighbours) that turn one string into the other.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

/// The candidates near enough to be what was meant, nearest first, at most `most`.
inline std::vector<std::string> nearest_names(std::string_view wrong,
                                              const std::vector<std::string>& candidates, size_t most = 3) {
  constexpr size_t kLongest = 64;  // nobody mistypes more, and the distance is quadratic
  if (wrong.empty() || wrong.size() > kLongest) return {};
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const bool part =
        candidate.starts_with(wrong) || wrong.starts_with(candidate) || candidate.ends_with(wrong);
    const size_t distance = edit_distance(wrong, candidate);
    const size_t limit = std::max<size_t>(1, std::max(wrong.size(), candidate.size()) / 3);
    if (distance <= limit || (part && std::min(wrong.size(), candidate.size()) >= 3)) {
      near.emplace_back(distance, candidate);
    }
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [distance, name] : near) {
    if (names.size() == most) break;
    names.push_back(name);
  }
  return names;
}

/// "; did you mean 'resnet18' or 'resnet50'?", or "" where nothing is near.
inline std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = nearest_names(wrong, candidates);
  if (names.empty()) return "";
  std::string text = "; did you mean ";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += "'" + names[i] + "'";
  }
  return text + "?";
}

}  // namespace gantry
