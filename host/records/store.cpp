#include "host/records/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "host/records/database.h"
#include "host/records/url.h"
#include "host/support/error.h"

namespace gantry::records {
namespace {

// So many rows are read at once.
constexpr int64_t kPage = 500;
// A program of one node says no more.
constexpr size_t kMostProgram = size_t{1} << 20;

/// Whether add() may have made of the given record the one that is here: it changes ids, and dates to later
/// ones.
bool may_be_written(const Record& given, const Record& here) {
  if (here.date < given.date) return false;
  Record same = here;
  same.id = given.id;
  same.date = given.date;
  return same == given;
}

/// The SQL that both databases understand.
class SqlStore : public Store {
 public:
  SqlStore(std::unique_ptr<Database> database, StoreOptions options)
      : database_(std::move(database)), options_(std::move(options)) {}

  const std::string& place() const override { return database_->place(); }

  void add(std::span<const Record> records, std::span<const WorkProgram> programs) override {
    check_all(records, programs);
    if (records.empty() && programs.empty()) return;
    database_->transaction([&] { insert(dated(records), programs); });
  }

  void add_again(std::span<const Record> records, std::span<const WorkProgram> programs) override {
    check_all(records, programs);
    if (records.empty() && programs.empty()) return;
    database_->transaction([&] { insert(dated(unwritten(records)), programs); });
  }

  size_t add_unknown(std::vector<Record> records, std::span<const WorkProgram> programs) override {
    check_all(records, programs);
    if (records.empty() && programs.empty()) return 0;
    size_t added = 0;
    database_->transaction([&] {
      database_->lock_out_importers();
      const std::vector<Record> fresh = unknown(std::move(records));
      insert(fresh, programs);
      added = fresh.size();
    });
    return added;
  }

  std::vector<Record> of_work(const std::string& work) override {
    std::vector<Record> records;
    each({.work = work}, [&](const Record& record) {
      records.push_back(record);
      return true;
    });
    return records;
  }

  void each(const Filter& filter, const std::function<bool(const Record&)>& visit) override {
    Filter rest = filter;
    for (;;) {
      const Condition where = condition_of(rest);
      const std::vector<Row> rows =
          database_->run(fmt::format("SELECT id, {} FROM gantry_record WHERE {} ORDER BY id LIMIT {}",
                                     column_names(), where.sql, kPage),
                         where.values);
      for (const Row& row : rows) {
        const std::optional<Record> record = read(row, rest.after);
        if (record && !visit(*record)) return;
      }
      if (rows.size() < kPage) return;
    }
  }

  int64_t count(const Filter& filter) override {
    const Condition where = condition_of(filter);
    const auto rows = database_->run("SELECT COUNT(*) FROM gantry_record WHERE " + where.sql, where.values);
    return std::get<int64_t>(rows.at(0).at(0));
  }

  std::vector<std::string> all_of_column(const std::string& column) override {
    internal_check(std::ranges::find(columns(), column, &Column::name) != columns().end(),
                   "records have no column {}", column);
    std::vector<std::string> values;
    for (const Row& row :
         database_->run(fmt::format("SELECT DISTINCT {0} FROM gantry_record ORDER BY {0}", column), {})) {
      if (const auto* text = std::get_if<std::string>(&row.at(0))) values.push_back(*text);
      if (const auto* number = std::get_if<int64_t>(&row.at(0))) values.push_back(std::to_string(*number));
    }
    return values;
  }

  int64_t remove(const Filter& filter) override {
    const Condition where = condition_of(filter);
    int64_t removed = 0;
    database_->transaction([&] {
      // A record that is about to be there, of a work that has no other left, keeps its program.
      database_->lock_out_writers();
      database_->run("DELETE FROM gantry_record WHERE " + where.sql, where.values);
      removed = database_->changed();
      database_->run("DELETE FROM gantry_program WHERE work NOT IN (SELECT work FROM gantry_record)");
    });
    return removed;
  }

  std::optional<std::string> program_of(const std::string& work) override {
    const auto rows = database_->run("SELECT text FROM gantry_program WHERE work = $1", {work});
    const auto* text = rows.empty() ? nullptr : std::get_if<std::string>(&rows.at(0).at(0));
    if (text == nullptr) return std::nullopt;
    return *text;
  }

 private:
  static void check_all(std::span<const Record> records, std::span<const WorkProgram> programs) {
    for (const Record& record : records) check(record);
    for (const WorkProgram& program : programs) check(program);
  }

  void insert(std::span<const Record> records, std::span<const WorkProgram> programs) {
    const std::string statement = insert_statement();
    for (const Record& record : records) database_->run(statement, row_of(record));
    for (const WorkProgram& program : programs)
      database_->run("INSERT INTO gantry_program (work, text) VALUES ($1, $2) ON CONFLICT (work) DO NOTHING",
                     {program.work, program.text});
  }

  /// With dates no older than those that their works have here: a clock that was ahead would go on deciding.
  std::vector<Record> dated(std::span<const Record> records) {
    std::map<std::string, std::string> newest;  // by work
    std::vector<Record> all(records.begin(), records.end());
    for (Record& record : all) {
      const auto [date, is_new] = newest.try_emplace(record.key.work);
      if (is_new) date->second = newest_date(record.key.work);
      record.date = date->second = std::max(record.date, date->second);
    }
    return all;
  }

  /// Without those that are here, with the dates that add() gave them: each as often as it is here.
  std::vector<Record> unwritten(std::span<const Record> records) {
    std::map<std::string, std::vector<Record>> known;  // by work
    std::vector<Record> left;
    for (const Record& record : records) {
      const auto [here, is_new] = known.try_emplace(record.key.work);
      if (is_new) here->second = of_work(record.key.work);
      const auto written =
          std::ranges::find_if(here->second, [&](const Record& one) { return may_be_written(record, one); });
      if (written == here->second.end())
        left.push_back(record);
      else
        here->second.erase(written);
    }
    return left;
  }

  /// "" where the work has none.
  std::string newest_date(const std::string& work) {
    const auto rows = database_->run("SELECT MAX(date) FROM gantry_record WHERE work = $1", {work});
    const auto* date = rows.empty() ? nullptr : std::get_if<std::string>(&rows.at(0).at(0));
    return date != nullptr && is_date(*date) ? *date : "";
  }

  /// Each once.
  std::vector<Record> unknown(std::vector<Record> all) {
    std::string work;
    std::vector<Record> known, fresh;
    std::ranges::stable_sort(all, {}, [](const Record& one) { return one.key.work; });
    for (Record& record : all) {
      record.id = 0;
      if (record.key.work != work) {
        work = record.key.work;
        known = of_work(work);
        for (Record& one : known) one.id = 0;
      }
      if (std::ranges::find(known, record) != known.end()) continue;
      known.push_back(record);
      fresh.push_back(std::move(record));
    }
    std::ranges::stable_sort(fresh, {}, &Record::date);
    return fresh;
  }

  static std::string insert_statement() {
    std::string places;
    for (size_t i = 1; i <= columns().size(); ++i) places += fmt::format("{}${}", i == 1 ? "" : ", ", i);
    return fmt::format("INSERT INTO gantry_record ({}) VALUES ({})", column_names(), places);
  }

  /// None for a row that is no record, which is said. `id` becomes the row's.
  std::optional<Record> read(const Row& row, int64_t& id) {
    id = std::get<int64_t>(row.at(0));
    try {
      return record_of(id, Row(row.begin() + 1, row.end()));
    } catch (const Error& error) {
      if (options_.warn)
        options_.warn(
            fmt::format("{}: record {} is left out, it cannot be read: {}", place(), id, error.what()));
      return std::nullopt;
    }
  }

  std::unique_ptr<Database> database_;
  StoreOptions options_;
};

bool is_postgres(const std::string& place) {
  return place.starts_with("postgresql://") || place.starts_with("postgres://");
}

}  // namespace

void check(const WorkProgram& program) {
  if (!is_digest(program.work)) user_error("program_of: is no digest of a work");
  if (program.text.size() > kMostProgram)
    user_error("program_of: its text has more than {} bytes", kMostProgram);
}

void Database::transaction(const std::function<void()>& work) {
  begin();
  try {
    work();
    commit();
  } catch (...) {
    rollback();
    throw;
  }
}

void expect_schema(int64_t version, const std::string& place) {
  if (version == kSchemaVersion) return;
  if (version > kSchemaVersion)
    user_error(
        "{}: its records are of version {}, written by a newer gantry; this one reads version {}: update it",
        place, version, kSchemaVersion);
  user_error("{}: says that its records are of version {}, which there never was: it is damaged", place,
             version);
}

std::vector<Record> Store::all(const Key& key) {
  std::vector<Record> records = of_work(key.work);
  std::erase_if(records, [&](const Record& record) { return record.key != key; });
  return records;
}

std::vector<std::optional<Record>> Store::best(std::span<const Key> keys) {
  std::vector<std::optional<Record>> found;
  for (const Key& key : keys) found.push_back(best_of(of_work(key.work), key.setting).record);
  return found;
}

std::unique_ptr<Store> open_store(const std::string& place, StoreOptions options) {
  if (place.empty()) user_error("records: name a file, or postgresql://user@host/database");
  if (!is_postgres(place) && place.find("://") != std::string::npos)
    user_error("{}: records are in a file, or at postgresql://user@host/database", without_password(place));
  std::unique_ptr<Database> database =
      is_postgres(place) ? open_postgres(place, options) : open_sqlite(place, options, place);
  return std::make_unique<SqlStore>(std::move(database), std::move(options));
}

}  // namespace gantry::records
