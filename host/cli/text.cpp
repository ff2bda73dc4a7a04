#include "host/cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/cli/style.h"
#include "host/support/error.h"

namespace gantry::cli {

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const double magnitude = std::fabs(value);
  if (magnitude >= 1000 || magnitude == 0) return fmt::format("{:.0f}", value);
  if (magnitude >= 100) return fmt::format("{:.1f}", value);
  if (magnitude >= 10) return fmt::format("{:.2f}", value);
  if (magnitude >= 0.1) return fmt::format("{:.3f}", value);
  return fmt::format("{:.3g}", value);
}

std::string rough_text(double value) {
  return std::fabs(value) >= 99.5 ? fmt::format("{:.0f}", value) : fmt::format("{:.2g}", value);
}

std::string duration_text(double milliseconds) {
  if (milliseconds >= 1000) return number_text(milliseconds / 1000) + " s";
  if (milliseconds >= 1) return number_text(milliseconds) + " ms";
  if (milliseconds >= 1e-3) return number_text(milliseconds * 1e3) + " us";
  return number_text(milliseconds * 1e6) + " ns";
}

std::string rough_duration_text(double seconds) {
  return seconds < 120 ? fmt::format("{:.0f} s", seconds)
                       : fmt::format("{:.0f} min", std::floor(seconds / 60));
}

std::string count_text(double value) {
  if (value >= 1e9) return number_text(value / 1e9) + " G";
  if (value >= 1e6) return number_text(value / 1e6) + " M";
  if (value >= 1e3) return number_text(value / 1e3) + " k";
  return number_text(value);
}

Table::Table(std::vector<std::pair<std::string, Align>> columns) : columns_(std::move(columns)) {}

void Table::row(std::vector<std::string> cells) {
  internal_check(cells.size() == columns_.size(), "a table row has {} cells of {}", cells.size(),
                 columns_.size());
  for (std::string& cell : cells) cell = visible_line(cell);
  rows_.push_back(std::move(cells));
}

/// What each column takes of `available` display columns, gaps between them included.
std::vector<size_t> Table::widths(size_t available) const {
  constexpr size_t kGap = 2, kLeastText = 8;
  std::vector<size_t> widths;
  size_t total = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = display_width(columns_[i].first);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
    total += width + (i > 0 ? kGap : 0);
  }
  const auto give_up = [&](size_t column) {
    const size_t least = std::max(kLeastText, display_width(columns_[column].first));
    const size_t spare = widths[column] > least ? widths[column] - least : 0;
    const size_t cut = std::min(spare, total - available);
    widths[column] -= cut;
    total -= cut;
    return cut > 0;
  };
  if (total > available && columns_.back().second == Align::kLeft) give_up(widths.size() - 1);
  while (total > available) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i) {
      if (columns_[i].second != Align::kLeft) continue;
      if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == widths.size() || !give_up(widest)) break;  // figures are never cut
  }
  return widths;
}

std::string Table::str(int indent, size_t max_width) const {
  const auto indentation = static_cast<size_t>(indent);
  const size_t available = max_width > indentation ? max_width - indentation : 1;
  const std::vector<size_t> widths =
      this->widths(max_width == 0 ? std::numeric_limits<size_t>::max() : available);
  const auto line = [&](const auto& cell) {
    std::string out;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string content = shorten(cell(i), widths[i]);
      const std::string padding(widths[i] - std::min(widths[i], display_width(content)), ' ');
      if (i > 0) out += "  ";
      out += columns_[i].second == Align::kRight ? padding + content : content + padding;
    }
    return out.erase(out.find_last_not_of(' ') + 1);
  };
  const std::string margin(indentation, ' ');
  std::string text =
      margin + styled(line([&](size_t i) { return columns_[i].first; }), Style::kHeading, stdout) + "\n";
  for (const auto& row : rows_) text += margin + line([&](size_t i) { return row[i]; }) + "\n";
  return text;
}

}  // namespace gantry::cli
