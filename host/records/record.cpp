#include "host/records/record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>

#include "host/support/error.h"
#include "rpc/visible_text.h"

namespace gantry::records {
namespace {

constexpr std::array<std::string_view, 6> kOutcomes = {"measured",  "wrong",  "crashed",
                                                       "timed-out", "misfit", "build-failed"};
constexpr size_t kDigestDigits = 64;
// Longer is no name, and no list of names or features, that anybody reads.
constexpr size_t kMostName = 1000, kMostText = 20000;
constexpr int kMostThreads = 4096;
constexpr size_t kMostParts = 100000;
constexpr size_t kMostProcesses = 10000;
// A day: a run of a network takes less.
constexpr double kMostSeconds = 86400;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// Text as it may stand in a table: no control characters, and not longer than it may be.
void check_text(std::string_view field, std::string_view text, size_t most) {
  if (text.size() > most) user_error("{}: {} bytes are more than it may have, {}", field, text.size(), most);
  if (std::ranges::any_of(text, is_control)) user_error("{}: has control characters", field);
}

void check_name(std::string_view field, std::string_view text) {
  if (text.empty()) user_error("{}: is missing", field);
  check_text(field, text, kMostName);
}

void check_decision(std::string_view field, const Decision& decision) {
  if (decision.form.empty()) user_error("{}: is missing", field);
  std::optional<Decision> read;
  try {
    read = parse_decision(to_string(decision));
  } catch (const Error&) {
  }
  if (read != decision) user_error("{}: {} is no decision", field, to_string(decision));
}

/// Of a network's nodes.
void check_parts(const Record& record) {
  if (record.parts.empty()) return;
  if (record.op != kNetworkOp) user_error("decision: has parts, which those of one node have not");
  if (record.parts.size() > kMostParts)
    user_error("decision: {} parts are more than it may have, {}", record.parts.size(), kMostParts);
  for (const NumberedDecision& part : record.parts) check_decision("decision", part.decision);
  if (record.parts.front().node < 0 || !std::ranges::is_sorted(record.parts, {}, &NumberedDecision::node))
    user_error("decision: its parts are not in the order of nodes");
}

void check_seconds(std::string_view field, double seconds) {
  // NaN is none of them.
  if (!(seconds > 0 && seconds < kMostSeconds))
    user_error("{}: {} is no time of a run, in seconds", field, seconds);
}

void check_processes(std::string_view field, const std::vector<double>& seconds) {
  if (seconds.size() > kMostProcesses) user_error("{}: {} processes are too many", field, seconds.size());
  for (const double one : seconds) check_seconds(field, one);
}

void check_timing(const Timing& timing) {
  check_seconds("seconds", timing.seconds);
  check_seconds("baseline_seconds", timing.baseline_seconds);
  check_processes("process_seconds", timing.process_seconds);
  check_processes("baseline_process_seconds", timing.baseline_process_seconds);
  const bool ordered = timing.ratio_low > 0 && timing.ratio_low <= timing.ratio &&
                       timing.ratio <= timing.ratio_high && std::isfinite(timing.ratio_high);
  if (!ordered)
    user_error("ratio: {} does not lie in its interval, {} to {}", timing.ratio, timing.ratio_low,
               timing.ratio_high);
}

void check(const Setting& setting) {
  check_name("target", setting.target);
  check_name("machine", setting.machine);
  check_text("features", setting.features, kMostText);
  if (setting.threads < 1 || setting.threads > kMostThreads)
    user_error("threads: {} is no number of threads", setting.threads);
  check_name("precision", setting.precision);
  check_name("optimize", setting.optimize);
  check_name("generator", setting.generator);
}

}  // namespace

bool is_digest(std::string_view text) {
  return text.size() == kDigestDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string_view name_of(Outcome outcome) {
  return kOutcomes[static_cast<size_t>(outcome)];
}

std::optional<Outcome> find_outcome(std::string_view name) {
  const auto found = std::ranges::find(kOutcomes, name);
  if (found == kOutcomes.end()) return std::nullopt;
  return static_cast<Outcome>(found - kOutcomes.begin());
}

bool is_date(std::string_view text) {
  constexpr std::string_view kPattern = "dddd-dd-ddTdd:dd:ddZ";
  const auto number = [&](size_t at) { return (text[at] - '0') * 10 + (text[at + 1] - '0'); };
  if (text.size() != kPattern.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kPattern[i] == 'd' ? !digit : text[i] != kPattern[i]) return false;
  }
  const std::chrono::year_month_day day{std::chrono::year(100 * number(0) + number(2)),
                                        std::chrono::month(static_cast<unsigned>(number(5))),
                                        std::chrono::day(static_cast<unsigned>(number(8)))};
  return day.ok() && number(11) < 24 && number(14) < 60 && number(17) <= 60;
}

std::string line_of(std::string text) {
  constexpr size_t kMost = 500;
  std::ranges::replace_if(text, is_control, ' ');
  text = rpc::visible_text(text, rpc::Lines::kOne);
  size_t most = std::min(text.size(), kMost);
  // Not within a character.
  while (most < text.size() && most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  text.resize(most);
  return text;
}

void check(const Record& record) {
  if (!is_digest(record.key.work)) user_error("work: is no digest of {} hexadecimal digits", kDigestDigits);
  check(record.key.setting);
  check_name("op", record.op);
  check_decision("decision", record.decision);
  check_parts(record);
  check_decision("baseline", record.baseline);
  check_text("reason", record.reason, kMostText);
  if ((record.outcome == Outcome::kMeasured) != record.timing.has_value())
    user_error("outcome: {} {} times", name_of(record.outcome), record.timing ? "has no" : "needs");
  if (record.timing) check_timing(*record.timing);
  check_text("timed", record.timed, kMostName);
  check_text("model", record.model, kMostName);
  check_text("nodes", record.nodes, kMostText);
  check_text("board", record.board, kMostName);
  check_text("beside", record.beside, kMostText);
  if (!is_date(record.date)) user_error("date: '{}' is no date such as 2026-11-27T08:05:00Z", record.date);
  check_text("source", record.source, kMostName);
}

std::string decision_text(const Record& record) {
  std::string text = to_string(record.decision);
  for (const auto& [node, decision] : record.parts) text += fmt::format("; {} {}", node, to_string(decision));
  return text;
}

bool is_gain(const Timing& timing) {
  return timing.ratio_high < 1;
}

std::string date_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

}  // namespace gantry::records
