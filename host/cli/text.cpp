#include "host/cli/text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Code points, which is what columns of a terminal come to for our texts.
size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

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

std::string duration_text(double milliseconds) {
  if (milliseconds >= 1000) return number_text(milliseconds / 1000) + " s";
  if (milliseconds >= 1) return number_text(milliseconds) + " ms";
  if (milliseconds >= 1e-3) return number_text(milliseconds * 1e3) + " us";
  return number_text(milliseconds * 1e6) + " ns";
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
  rows_.push_back(std::move(cells));
}

std::string Table::str(int indent, size_t max_width) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = display_width(columns_[i].first);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  const auto indentation = static_cast<size_t>(indent);
  size_t before_last = indentation;
  for (size_t i = 0; i + 1 < widths.size(); ++i) before_last += widths[i] + 2;
  const size_t last_width = max_width > before_last + 8 ? max_width - before_last : 0;

  std::string text;
  auto line = [&](auto cell) {
    std::string out(indentation, ' ');
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool last = i + 1 == columns_.size();
      const std::string content = last ? shorten(cell(i), last_width) : cell(i);
      const std::string padding(widths[i] - std::min(widths[i], display_width(content)), ' ');
      if (i > 0) out += "  ";
      out += columns_[i].second == Align::kRight ? padding + content : content + padding;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line([&](size_t i) { return columns_[i].first; });
  for (const auto& row : rows_) line([&](size_t i) { return row[i]; });
  return text;
}

size_t terminal_width() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string shorten(std::string_view text, size_t width) {
  if (width == 0 || display_width(text) <= width) return std::string(text);
  size_t end = 0, columns = 0;
  while (end < text.size() && columns + 1 < width) {
    ++end;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
    ++columns;
  }
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace gantry::cli
