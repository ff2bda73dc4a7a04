#include "host/cli/kernel_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "host/cli/text.h"

namespace gantry::cli {
namespace {

constexpr std::array<std::pair<std::string_view, ProfileRows>, 4> kWords{{{"step", ProfileRows::kStep},
                                                                          {"kernel", ProfileRows::kKernel},
                                                                          {"type", ProfileRows::kType},
                                                                          {"node", ProfileRows::kNode}}};

/// What is between brackets in "nn.conv[winograd4]+add+nn.relu": how ops are computed that have several ways.
std::string forms_of(const std::string& ops) {
  std::vector<std::string> forms;
  for (size_t open = ops.find('['); open != std::string::npos; open = ops.find('[', open + 1)) {
    const size_t close = std::min(ops.find(']', open), ops.size());
    forms.push_back(ops.substr(open + 1, close - open - 1));
  }
  return fmt::format("{}", fmt::join(forms, "+"));
}

/// Boards of older versions do not say for which of its ops a kernel is, nor what it is called.
std::string type_of(const rpc::KernelTiming& kernel) {
  return kernel.op.empty() ? kernel.name.substr(0, kernel.name.find_first_of("[+")) : kernel.op;
}
std::string name_of(const rpc::KernelTiming& kernel) {
  return kernel.symbol.empty() ? kernel.name : kernel.symbol;
}

/// Steps that share a row.
struct Row {
  double ms = 0, flops = 0, bytes = 0;
  double least_ms = 0;  ///< that the roofs allow
  std::vector<uint32_t> steps;

  void add(double more_ms, double more_flops, double more_bytes, double more_least_ms) {
    ms += more_ms;
    flops += more_flops;
    bytes += more_bytes;
    least_ms += more_least_ms;
  }
  void add(const Row& row) { add(row.ms, row.flops, row.bytes, row.least_ms); }
  std::string kernel, form, type;
  std::vector<std::string> nodes;  ///< of each step, where they differ
};

std::string key_of(const rpc::KernelTiming& kernel, ProfileRows by) {
  switch (by) {
    case ProfileRows::kStep:
      break;  // each for itself
    case ProfileRows::kKernel:
      return name_of(kernel);
    case ProfileRows::kType:
      return type_of(kernel);
    case ProfileRows::kNode:
      return kernel.origin.empty() ? name_of(kernel) : kernel.origin;
  }
  return "";
}

/// Worst first.
std::vector<Row> make_rows(const std::vector<rpc::KernelTiming>& kernels, ProfileRows by,
                           const std::optional<MachinePeaks>& peaks) {
  std::vector<Row> rows;
  std::unordered_map<std::string, size_t> known;
  for (const rpc::KernelTiming& kernel : kernels) {
    const std::string key = by == ProfileRows::kStep ? std::to_string(rows.size()) : key_of(kernel, by);
    const auto [entry, is_new] = known.try_emplace(key, rows.size());
    if (is_new) {
      rows.push_back({});
      rows.back().kernel = name_of(kernel);
      rows.back().form = forms_of(kernel.name);
      rows.back().type = type_of(kernel);
    }
    Row& row = rows[entry->second];
    row.add(kernel.total_ms, kernel.flops, kernel.bytes,
            peaks ? least_ms(*peaks, kernel.flops, kernel.bytes) : 0);
    row.steps.push_back(kernel.step);
    const bool known_nodes = std::ranges::find(row.nodes, kernel.origin) != row.nodes.end();
    if (!known_nodes && !kernel.origin.empty()) row.nodes.push_back(kernel.origin);
  }
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) { return a.ms > b.ms; });
  return rows;
}

/// The rest of the rows as one.
void merge_behind(std::vector<Row>& rows, size_t top, const char* what) {
  if (top == 0 || rows.size() <= top) return;
  Row others;
  for (size_t i = top; i < rows.size(); ++i) {
    others.add(rows[i]);
  }
  others.kernel = fmt::format("others: {} {}", rows.size() - top, what);
  rows.resize(top);
  rows.push_back(std::move(others));
}

/// Times in one unit with as many decimals as give the total five digits, each rounded once: counted in the
/// last of these digits, sums of what is printed are what is printed.
class Clock {
 public:
  explicit Clock(double total_ms) {
    const std::array<std::pair<const char*, double>, 4> units{
        {{"s", 1000}, {"ms", 1}, {"us", 1e-3}, {"ns", 1e-6}}};
    const auto* unit = units.begin();
    while (unit + 1 != units.end() && total_ms < unit->second) ++unit;
    unit_ = unit->first;
    unit_ms_ = unit->second;
    const double total = total_ms / unit_ms_;
    decimals_ = total >= 1 ? std::max(0, 4 - static_cast<int>(std::log10(total))) : 4;
  }
  const char* unit() const { return unit_; }
  int64_t count(double ms) const { return std::llround(ms / unit_ms_ * std::pow(10, decimals_)); }
  std::string text(int64_t count) const {
    return fmt::format("{:.{}f}", static_cast<double>(count) / std::pow(10, decimals_), decimals_);
  }

 private:
  const char* unit_;
  double unit_ms_;
  int decimals_;
};

using Align = Table::Align;
using Columns = std::vector<std::pair<std::string, Align>>;

/// What a row is: its columns behind the figures.
class Labels {
 public:
  Labels(ProfileRows by, bool forms) : by_(by), forms_(forms) {}

  const char* heading() const { return by_ == ProfileRows::kStep ? "step" : "steps"; }
  const char* plural() const {
    switch (by_) {
      case ProfileRows::kStep:
        return "steps";
      case ProfileRows::kKernel:
        return "kernels";
      case ProfileRows::kType:
        return "types";
      default:
        return "rows";
    }
  }
  std::string steps(const Row& row) const {
    if (row.steps.empty()) return "";
    return by_ == ProfileRows::kStep ? fmt::format("#{}", row.steps[0]) : std::to_string(row.steps.size());
  }
  void add_columns(Columns& columns) const {
    if (by_ == ProfileRows::kType) return columns.emplace_back("type", Align::kLeft), void();
    if (by_ != ProfileRows::kNode) columns.emplace_back("kernel", Align::kLeft);
    if (by_ != ProfileRows::kNode && forms_) columns.emplace_back("form", Align::kLeft);
    columns.emplace_back("ONNX nodes", Align::kLeft);
  }
  void add_cells(const Row& row, std::vector<std::string>& cells) const {
    const bool merged = row.steps.empty();  // others, or the total
    const std::string nodes = fmt::format("{}", fmt::join(row.nodes, "; "));
    if (by_ == ProfileRows::kType) return cells.push_back(merged ? row.kernel : row.type);
    if (by_ != ProfileRows::kNode) cells.push_back(row.kernel);
    if (by_ != ProfileRows::kNode && forms_) cells.push_back(row.form);
    cells.push_back(by_ == ProfileRows::kNode && nodes.empty() ? row.kernel : nodes);
  }

 private:
  ProfileRows by_;
  bool forms_;
};

std::string relation(const Clock& clock, int64_t kernels, double run_ms) {
  const int64_t run = clock.count(run_ms);
  if (run_ms <= 0) return "";
  if (run >= kernels) {
    // Gaps are short beside kernels; a rest that is not may be runs that something else slowed down.
    const bool long_rest = 4 * run > 5 * kernels;
    return fmt::format("Kernels take {0} {3} of {1} {3} a run; the rest, {2} {3}, is between kernels{4}.\n",
                       clock.text(kernels), clock.text(run), clock.text(run - kernels), clock.unit(),
                       long_rest ? ", or whole runs were held up where kernels were not" : "");
  }
  return fmt::format(
      "Kernels take {0} {3} with a clock around each, {2} {3} more than a whole run without clocks: {1} "
      "{3}.\n",
      clock.text(kernels), clock.text(run), clock.text(kernels - run), clock.unit());
}

std::string roofs_text(const MachinePeaks& peaks) {
  const std::string busy = busy_text(peaks);
  return fmt::format(
      "Roofs, measured on {}: {} GFLOP/s, {} GB/s from memory. Of roof: the least time that\n"
      "they allow, over the time taken. Winograd's algorithm multiplies less than is counted, and caches\n"
      "are faster than memory: both can pass 100 %.\n{}",
      peaks.threads == 1 ? "one thread" : fmt::format("{} threads", peaks.threads),
      number_text(peaks.gflop_per_s), number_text(peaks.gb_per_s),
      busy.empty() ? "" : fmt::format("The roofs are too low: meanwhile {}.\n", busy));
}

}  // namespace

std::optional<ProfileRows> find_profile_rows(std::string_view word) {
  for (const auto& [known, rows] : kWords) {
    if (known == word) return rows;
  }
  return std::nullopt;
}

std::string kernel_table(const std::vector<rpc::KernelTiming>& kernels, const KernelTableOptions& options) {
  std::vector<Row> rows = make_rows(kernels, options.by, options.peaks);
  const size_t row_count = rows.size();
  Row all;
  for (const Row& row : rows) all.add(row);
  const Clock clock(all.ms);
  const Labels labels(options.by,
                      std::ranges::any_of(rows, [](const Row& row) { return !row.form.empty(); }));
  all.kernel = fmt::format("total: {} {}", row_count, labels.plural());
  // Rounded before they are added: a sum of what stands there, not of what was measured.
  std::vector<int64_t> counts;
  for (const Row& row : rows) counts.push_back(clock.count(row.ms));
  int64_t total = 0;
  for (int64_t count : counts) total += count;
  merge_behind(rows, options.top, labels.plural());

  Columns columns{{labels.heading(), Align::kRight}, {fmt::format("time, {}", clock.unit()), Align::kRight},
                  {"share", Align::kRight},          {"sum", Align::kRight},
                  {"GFLOP/s", Align::kRight},        {"GB/s", Align::kRight}};
  if (options.peaks) columns.emplace_back("of roof", Align::kRight);
  labels.add_columns(columns);
  Table table(columns);
  double before = 0;
  int64_t counted = 0;
  const auto add = [&](const Row& row, int64_t count, const std::string& sum) {
    const double seconds = row.ms / 1000;
    std::vector<std::string> cells{labels.steps(row),
                                   clock.text(count),
                                   fmt::format("{:.1f} %", all.ms > 0 ? 100 * row.ms / all.ms : 0),
                                   sum,
                                   seconds > 0 ? number_text(row.flops / seconds / 1e9) : "-",
                                   seconds > 0 ? number_text(row.bytes / seconds / 1e9) : "-"};
    if (options.peaks)
      cells.push_back(row.ms > 0 && row.least_ms > 0 ? fmt::format("{:.0f} %", 100 * row.least_ms / row.ms)
                                                     : "-");
    labels.add_cells(row, cells);
    table.row(std::move(cells));
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool others = rows[i].steps.empty();
    const int64_t count = others ? total - counted : counts[i];
    counted += count;
    before += rows[i].ms;
    add(rows[i], count, fmt::format("{:.1f} %", all.ms > 0 ? 100 * before / all.ms : 0));
  }
  add(all, total, "");
  return fmt::format("\nKernels, worst first:\n{}{}{}", table.str(2, options.width),
                     relation(clock, total, options.run_ms), options.peaks ? roofs_text(*options.peaks) : "");
}

}  // namespace gantry::cli
