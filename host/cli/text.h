// Figures and tables as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/cli/terminal.h"

namespace gantry::cli {

/// "46.8 MiB"
std::string bytes_text(double bytes);
/// Three to four significant digits without an exponent: "0.0123", "1.234", "56.78", "1234".
std::string number_text(double value);
/// Two significant digits, of whole numbers all, without an exponent: "0.12", "4.3", "431".
std::string rough_text(double value);
/// Milliseconds with a fitting unit: "812 ns", "12.3 us", "4.56 ms", "1.23 s".
std::string duration_text(double milliseconds);
/// Of waits: "98 s", "4 min".
std::string rough_duration_text(double seconds);
/// "1.8 G", "250 M", "12 k"
std::string count_text(double value);

/// Columns padded to their widest cell; the numeric ones flush right.
class Table {
 public:
  enum class Align { kLeft, kRight };
  explicit Table(std::vector<std::pair<std::string, Align>> columns);
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// For stdout, with a heading line; `indent` spaces before each line. The last column, and where that is
  /// not enough the widest ones of text, are cut to fit `max_width` (0: never). Control characters in cells
  /// are made visible.
  std::string str(int indent = 0, size_t max_width = 0) const;

 private:
  std::vector<size_t> widths(size_t available) const;

  std::vector<std::pair<std::string, Align>> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gantry::cli
