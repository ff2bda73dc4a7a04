#include "host/records/columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "host/support/error.h"
#include "host/support/words.h"

namespace gantry::records {
namespace {

constexpr Column kColumns[] = {
    {"work", ColumnKind::kText},
    {"target", ColumnKind::kText},
    {"machine", ColumnKind::kText},
    {"features", ColumnKind::kText},
    {"threads", ColumnKind::kInteger},
    {"precision", ColumnKind::kText},
    {"optimize", ColumnKind::kText},
    {"generator", ColumnKind::kText},
    {"op", ColumnKind::kText},
    {"decision", ColumnKind::kText},
    {"baseline", ColumnKind::kText},
    {"outcome", ColumnKind::kText},
    {"reason", ColumnKind::kText},
    {"confirmation", ColumnKind::kInteger},
    {"seconds", ColumnKind::kReal, true},
    {"baseline_seconds", ColumnKind::kReal, true},
    {"ratio", ColumnKind::kReal, true},
    {"ratio_low", ColumnKind::kReal, true},
    {"ratio_high", ColumnKind::kReal, true},
    {"process_seconds", ColumnKind::kText, true},
    {"baseline_process_seconds", ColumnKind::kText, true},
    {"timed", ColumnKind::kText},
    {"model", ColumnKind::kText},
    {"nodes", ColumnKind::kText},
    {"board", ColumnKind::kText},
    {"beside", ColumnKind::kText},
    {"date", ColumnKind::kText},
    {"source", ColumnKind::kText},
};

/// Numbers with blanks between them, as short as they can be read back.
std::string text_of(const std::vector<double>& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

std::vector<double> numbers_of(std::string_view column, std::string_view text) {
  std::vector<double> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    double number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (rest != end && *rest != ' ')) user_error("{}: has no numbers", column);
    numbers.push_back(number);
    at = rest == end ? end : rest + 1;
  }
  return numbers;
}

/// Reads a row field by field.
class RowReader {
 public:
  explicit RowReader(const Row& row) : row_(row) {
    if (row.size() != std::size(kColumns))
      user_error("it has {} fields, not {}", row.size(), std::size(kColumns));
  }
  std::string text() { return std::get<std::string>(next<std::string>()); }
  int64_t integer() { return std::get<int64_t>(next<int64_t>()); }
  /// Filters ask for 1: another number would pass none of them, and decide.
  bool truth() {
    const std::string_view column = kColumns[at_].name;
    const int64_t number = integer();
    if (number != 0 && number != 1) user_error("{}: {} is neither 0 nor 1", column, number);
    return number == 1;
  }
  double real() { return std::get<double>(next<double>()); }
  std::vector<double> numbers() {
    const std::string_view column = kColumns[at_].name;
    return numbers_of(column, text());
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(row_[at_]); }
  void skip(size_t count) { at_ += count; }

 private:
  template <typename T>
  const Field& next() {
    const Field& field = row_[at_];
    if (!std::holds_alternative<T>(field)) user_error("{}: is of another type", kColumns[at_].name);
    ++at_;
    return field;
  }
  const Row& row_;
  size_t at_ = 0;
};

Decision decision_of(std::string_view column, const std::string& text) {
  try {
    return parse_decision(text);
  } catch (const Error& error) {
    user_error("{}: {}", column, error.what());
  }
}

/// Of a text as decision_text() makes it the parts, which it has behind the first decision.
std::vector<NumberedDecision> parts_of(std::string_view column, std::string_view text) {
  std::vector<NumberedDecision> parts;
  while (!text.empty()) {
    text.remove_prefix(1);  // ';'
    const std::string_view part = trim(text.substr(0, text.find(';')));
    int64_t node = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), node);
    if (error != std::errc()) user_error("{}: '{}' is no decision of a numbered node", column, part);
    parts.push_back({node, decision_of(column, std::string(rest, part.data() + part.size()))});
    text.remove_prefix(std::min(text.find(';'), text.size()));
  }
  return parts;
}

Outcome outcome_of(const std::string& name) {
  const auto outcome = find_outcome(name);
  if (!outcome) user_error("outcome: '{}' is none", name);
  return *outcome;
}

constexpr size_t kTimingColumns = 7;

std::optional<Timing> timing_of(RowReader& row) {
  if (row.is_null()) {
    row.skip(kTimingColumns);
    return std::nullopt;
  }
  Timing timing;
  for (double* number :
       {&timing.seconds, &timing.baseline_seconds, &timing.ratio, &timing.ratio_low, &timing.ratio_high})
    *number = row.real();
  timing.process_seconds = row.numbers();
  timing.baseline_process_seconds = row.numbers();
  return timing;
}

/// Conditions joined by AND, whose values are numbered.
class ConditionWriter {
 public:
  void add(std::string_view left, std::string_view relation, Field value) {
    parts_.push_back(fmt::format("{} {} ${}", left, relation, values_.size() + 1));
    values_.push_back(std::move(value));
  }
  void equal(std::string_view column, const std::string& text) {
    if (!text.empty()) add(column, "=", text);
  }
  void among(std::string_view column, const std::vector<int64_t>& numbers) {
    if (numbers.empty()) return;
    parts_.push_back(fmt::format("{} IN ({})", column, fmt::join(numbers, ", ")));
  }
  Condition finish() {
    return {parts_.empty() ? "TRUE" : fmt::format("{}", fmt::join(parts_, " AND ")), std::move(values_)};
  }

 private:
  std::vector<std::string> parts_;
  Row values_;
};

}  // namespace

std::span<const Column> columns() {
  return kColumns;
}

std::string column_definitions(const ColumnTypes& types) {
  std::string text;
  for (const Column& column : kColumns) {
    const std::string_view type = column.kind == ColumnKind::kInteger ? types.integer
                                  : column.kind == ColumnKind::kReal  ? types.real
                                                                      : types.text;
    text += fmt::format(", {} {}{}", column.name, type, column.may_be_null ? "" : " NOT NULL");
  }
  return text;
}

std::string column_names() {
  std::vector<std::string_view> names;
  for (const Column& column : kColumns) names.push_back(column.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Row row_of(const Record& record) {
  const Setting& setting = record.key.setting;
  Row row = {record.key.work,
             setting.target,
             setting.machine,
             setting.features,
             int64_t{setting.threads},
             setting.precision,
             setting.optimize,
             setting.generator,
             record.op,
             decision_text(record),
             to_string(record.baseline),
             std::string(name_of(record.outcome)),
             record.reason,
             int64_t{record.confirmation}};
  if (const auto& timing = record.timing) {
    row.insert(row.end(), {timing->seconds, timing->baseline_seconds, timing->ratio, timing->ratio_low,
                           timing->ratio_high, text_of(timing->process_seconds),
                           text_of(timing->baseline_process_seconds)});
  } else {
    row.resize(row.size() + kTimingColumns);
  }
  row.insert(row.end(), {record.timed, record.model, record.nodes, record.board, record.beside, record.date,
                         record.source});
  return row;
}

Record record_of(int64_t id, const Row& row) {
  RowReader read(row);
  Record record;
  record.id = id;
  record.key.work = read.text();
  Setting& setting = record.key.setting;
  setting.target = read.text();
  setting.machine = read.text();
  setting.features = read.text();
  const int64_t threads = read.integer();
  setting.threads = threads == static_cast<int>(threads) ? static_cast<int>(threads) : 0;
  for (std::string* text : {&setting.precision, &setting.optimize, &setting.generator, &record.op})
    *text = read.text();
  const std::string decision = read.text();
  const size_t parts = std::min(decision.find(';'), decision.size());
  record.decision = decision_of("decision", decision.substr(0, parts));
  record.parts = parts_of("decision", std::string_view(decision).substr(parts));
  record.baseline = decision_of("baseline", read.text());
  record.outcome = outcome_of(read.text());
  record.reason = read.text();
  record.confirmation = read.truth();
  record.timing = timing_of(read);
  for (std::string* text : {&record.timed, &record.model, &record.nodes, &record.board, &record.beside,
                            &record.date, &record.source})
    *text = read.text();
  check(record);
  return record;
}

Condition condition_of(const Filter& filter) {
  ConditionWriter where;
  constexpr size_t kDigestDigits = 64;
  if (filter.work.size() == kDigestDigits) {
    where.add("work", "=", filter.work);  // as the index has it
  } else if (!filter.work.empty()) {
    where.add(fmt::format("substr(work, 1, {})", filter.work.size()), "=", filter.work);
  }
  where.equal("op", filter.op);
  where.equal("target", filter.target);
  where.equal("machine", filter.machine);
  where.equal("precision", filter.precision);
  where.equal("generator", filter.generator);
  if (!filter.other_generator.empty()) where.add("generator", "<>", filter.other_generator);
  if (filter.threads != 0) where.add("threads", "=", int64_t{filter.threads});
  if (!filter.before.empty()) where.add("date", "<", filter.before);
  if (!filter.since.empty()) where.add("date", ">=", filter.since);
  if (filter.outcome) where.add("outcome", "=", std::string(name_of(*filter.outcome)));
  if (filter.confirmations) where.add("confirmation", "=", int64_t{1});
  where.among("id", filter.ids);
  if (filter.after != 0) where.add("id", ">", filter.after);
  return where.finish();
}

}  // namespace gantry::records
