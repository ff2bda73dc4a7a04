// Records in PostgreSQL, for those who share them.
//
// Nothing waits for a server without an end: each statement has a deadline, whatever became of the server and
// of the network in between.
#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <charconv>
#include <chrono>
#include <cmath>

#include "host/records/database.h"
#include "host/records/url.h"
#include "host/support/error.h"

namespace gantry::records {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kConnectSeconds = "10";
/// Beyond the patience for locks, which the server is told of.
constexpr std::chrono::seconds kAnswerTime{30};
/// Of the lock that those take who make tables: any number that no other program takes.
constexpr int64_t kMakersLock = 0x676e7472;
/// Of that of those who add what is not there yet: another one.
constexpr int64_t kImportersLock = 0x676e7473;

struct Finish {
  void operator()(PGconn* connection) const { PQfinish(connection); }
  void operator()(PGresult* result) const { PQclear(result); }
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using Connection = std::unique_ptr<PGconn, Finish>;
using Result = std::unique_ptr<PGresult, Finish>;
using UrlParts = std::unique_ptr<PQconninfoOption, Finish>;

/// libpq's messages end with a line end, and have others within.
std::string in_a_line(std::string_view message) {
  std::string text(message.substr(0, message.find_last_not_of(" \n") + 1));
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

/// Null where libpq cannot read the URL; `problem` says why, and quotes of it what is wrong.
UrlParts parts_of(const std::string& url, std::string& problem) {
  char* message = nullptr;
  UrlParts parts(PQconninfoParse(url.c_str(), &message));
  if (message != nullptr) problem = in_a_line(message);
  PQfreemem(message);
  return parts;
}

/// What a URL says of a parameter; empty: nothing.
std::string value_in(const UrlParts& parts, std::string_view parameter) {
  for (const PQconninfoOption* part = parts.get(); part->keyword != nullptr; ++part) {
    if (part->keyword == parameter) return part->val == nullptr ? "" : part->val;
  }
  return "";
}

/// User errors for a URL that libpq cannot read, or not as it is meant. They never quote a password: libpq's
/// words are of `shown`, the URL without.
void expect_url(const std::string& url, const std::string& shown) {
  std::string problem;
  const UrlParts parts = parts_of(url, problem), others = parts_of(shown, problem);
  if (others == nullptr) user_error("{}: is no URL of PostgreSQL: {}", shown, problem);
  const auto differ = [&](const char* parameter) {
    return value_in(parts, parameter) != value_in(others, parameter);
  };
  if (parts == nullptr || differ("host") || differ("port"))
    user_error(
        "{}: a password in it is not written as in URLs, which have %25 for '%', %40 for '@', %2F for '/' "
        "and %26 for '&'",
        shown);
}

std::string table_definition() {
  // Dates are compared as bytes, whatever the database's language.
  return "CREATE TABLE gantry_record (id BIGSERIAL PRIMARY KEY" +
         column_definitions({"BIGINT", "DOUBLE PRECISION", "TEXT COLLATE \"C\""}) + ")";
}

/// Parameters as text, alive as long as this is.
class Parameters {
 public:
  explicit Parameters(const Row& values) {
    for (const Field& value : values) texts_.push_back(text_of(value));
    for (size_t i = 0; i < values.size(); ++i)
      pointers_.push_back(std::holds_alternative<std::monostate>(values[i]) ? nullptr : texts_[i].c_str());
  }
  int count() const { return static_cast<int>(pointers_.size()); }
  const char* const* pointers() const { return pointers_.data(); }

 private:
  static std::string text_of(const Field& value) {
    if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
    if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    return "";
  }
  std::vector<std::string> texts_;
  std::vector<const char*> pointers_;
};

class PostgresDatabase : public Database {
 public:
  PostgresDatabase(const std::string& url, const StoreOptions& options)
      : url_(url),
        place_(without_password(url)),
        patience_(options.patience_seconds),
        read_only_(options.read_only) {
    expect_url(url_, place_);
    connect();
    expect_records(options);
  }

  const std::string& place() const override { return place_; }

  std::vector<Row> run(const std::string& sql, const Row& values) override {
    if (connection_ == nullptr) board_error("{}: the connection to the server is lost", place_);
    const Parameters parameters(values);
    if (PQsendQueryParams(connection_.get(), sql.c_str(), parameters.count(), nullptr, parameters.pointers(),
                          nullptr, nullptr, 0) == 0)
      lost();
    const Clock::time_point deadline =
        Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(patience_ * 1000)) + kAnswerTime;
    Result last;
    while (Result result = next_result(deadline)) last = std::move(result);
    if (last == nullptr) lost();
    const ExecStatusType status = PQresultStatus(last.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) refused(*last);
    changed_ = number_in(PQcmdTuples(last.get()));
    return rows_of(*last);
  }
  std::vector<Row> run(const std::string& sql) { return run(sql, {}); }

  int64_t changed() override { return changed_; }

  /// A lock of the table would ask for more rights than adding does. Each statement sees what was committed
  /// before it (READ COMMITTED), so that the next one sees what was waited for.
  void lock_out_importers() override { run(fmt::format("SELECT pg_advisory_xact_lock({})", kImportersLock)); }
  /// Whoever adds a record has the table in ROW EXCLUSIVE mode until its transaction ends. Who may delete may
  /// take this one.
  void lock_out_writers() override { run("LOCK TABLE gantry_record IN SHARE ROW EXCLUSIVE MODE"); }

 protected:
  /// Where the server was started again since, or went away for a while, it is connected to again: nothing
  /// has begun, so that nothing is done twice.
  void begin() override {
    const std::string begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
    if (is_connected()) {
      try {
        run(begin);
        return;
      } catch (const Error&) {
        if (is_connected()) throw;
      }
    }
    connect_again();
    run(begin);
  }
  void commit() override { run("COMMIT"); }
  void rollback() noexcept override {
    // Of a connection that is gone the server undoes it.
    try {
      if (connection_ != nullptr && PQtransactionStatus(connection_.get()) != PQTRANS_IDLE) run("ROLLBACK");
    } catch (...) {
      connection_.reset();
    }
  }

 private:
  bool is_connected() const { return connection_ != nullptr && PQstatus(connection_.get()) == CONNECTION_OK; }
  /// Who asks often waits for a server that does not answer a tenth of the time at most.
  void connect_again() {
    connection_.reset();
    const Clock::time_point began = Clock::now();
    if (began < next_try_) board_error("{}: the connection to the server is lost", place_);
    try {
      connect();
    } catch (...) {
      connection_.reset();
      next_try_ = Clock::now() + 9 * (Clock::now() - began);
      throw;
    }
  }
  void connect() {
    // What the URL says itself, standing later, counts more.
    const char* const names[] = {"connect_timeout",
                                 "application_name",
                                 "keepalives_idle",
                                 "keepalives_interval",
                                 "tcp_user_timeout",
                                 "dbname",
                                 nullptr};
    const char* const values[] = {kConnectSeconds, "gantry", "10", "5", "30000", url_.c_str(), nullptr};
    connection_.reset(PQconnectdbParams(names, values, 1));
    if (connection_ == nullptr) throw std::bad_alloc();
    // What goes wrong is said by whatever fails for it.
    PQsetNoticeProcessor(
        connection_.get(), [](void*, const char*) {}, nullptr);
    if (PQstatus(connection_.get()) != CONNECTION_OK)
      board_error("{}: cannot be reached: {}", place_, in_a_line(PQerrorMessage(connection_.get())));
    run(fmt::format("SET lock_timeout = {}", static_cast<int64_t>(patience_ * 1000)));
    // A program that is stopped in the middle of a transaction holds up nobody.
    run("SET idle_in_transaction_session_timeout = '60s'");
    run("SET synchronous_commit = on");
    run("SET client_min_messages = warning");
    if (read_only_) run("SET default_transaction_read_only = on");
  }

  void expect_records(const StoreOptions& options) {
    if (!has_tables()) {
      if (!options.create)
        user_error("{}: has no records yet; `gantry tune` and `gantry records import` make their tables",
                   place_);
      make_tables();
    }
    const auto versions = run("SELECT version FROM gantry_schema");
    if (versions.size() != 1)
      user_error("{}: its table gantry_schema has {} rows, not 1", place_, versions.size());
    expect_schema(std::get<int64_t>(versions[0].at(0)), place_);
    run(fmt::format("SELECT id, {} FROM gantry_record LIMIT 0", column_names()));
  }

  // Of the catalogue itself: what to_regclass() remembers is older than a transaction that was waited for.
  bool has_tables() {
    const auto rows =
        run("SELECT COUNT(*) FROM pg_catalog.pg_class WHERE relname = 'gantry_schema' AND "
            "pg_catalog.pg_table_is_visible(oid)");
    return std::get<int64_t>(rows.at(0).at(0)) > 0;
  }

  void make_tables() {
    transaction([this] {
      run(fmt::format("SELECT pg_advisory_xact_lock({})", kMakersLock));
      if (has_tables()) return;  // another program was faster
      run(table_definition());
      run("CREATE INDEX gantry_record_work ON gantry_record (work)");
      run("CREATE TABLE gantry_program (work TEXT PRIMARY KEY, text TEXT NOT NULL)");
      run("CREATE TABLE gantry_schema (version BIGINT NOT NULL)");
      run("INSERT INTO gantry_schema VALUES ($1)", {kSchemaVersion});
    });
  }

  /// Null behind the last one.
  Result next_result(Clock::time_point deadline) {
    for (;;) {
      const int flushed = PQflush(connection_.get());
      if (flushed < 0) lost();
      if (flushed == 0 && PQisBusy(connection_.get()) == 0) return Result(PQgetResult(connection_.get()));
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd wait{PQsocket(connection_.get()), static_cast<short>(POLLIN | (flushed == 1 ? POLLOUT : 0)), 0};
      const int ready = left <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left));
      if (ready == 0) {
        connection_.reset();
        board_error("{}: the server does not answer; nothing of this is known to be written", place_);
      }
      if (ready > 0 && PQconsumeInput(connection_.get()) == 0) lost();
    }
  }

  static int64_t number_in(std::string_view text) {
    int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  std::vector<Row> rows_of(const PGresult& result) const {
    std::vector<Row> rows(static_cast<size_t>(PQntuples(&result)));
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int column = 0; column < PQnfields(&result); ++column)
        rows[i].push_back(field(result, static_cast<int>(i), column));
    }
    return rows;
  }

  /// By the types of pg_type.dat.
  Field field(const PGresult& result, int row, int column) const {
    constexpr Oid kInt8 = 20, kInt4 = 23, kFloat8 = 701;
    if (PQgetisnull(&result, row, column) == 1) return {};
    const std::string_view text(PQgetvalue(&result, row, column),
                                static_cast<size_t>(PQgetlength(&result, row, column)));
    const Oid type = PQftype(&result, column);
    if (type == kInt8 || type == kInt4) return number_in(text);
    if (type != kFloat8) return std::string(text);
    double number = NAN;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  [[noreturn]] void lost() {
    const std::string said = in_a_line(PQerrorMessage(connection_.get()));
    connection_.reset();
    board_error("{}: the connection to the server is lost: {}", place_, said);
  }

  /// By the codes of PostgreSQL's appendix A.
  [[noreturn]] void refused(const PGresult& result) {
    const char* field = PQresultErrorField(&result, PG_DIAG_SQLSTATE);
    const std::string_view code = field == nullptr ? "" : field;
    const std::string said = in_a_line(PQresultErrorMessage(&result));
    if (code.empty() || code.starts_with("08") || code.starts_with("57")) board_error("{}: {}", place_, said);
    if (code == "55P03")
      user_error(
          "{}: has been locked by another program for more than {} s: wait until that is done, then try "
          "again",
          place_, patience_);
    if (code == "53100") user_error("{}: the server's disk is full; nothing of this was written", place_);
    if (code == "42501" || code == "25006")
      user_error("{}: may not be written to, or not read, by this user: {}", place_, said);
    if (code.starts_with("42")) user_error("{}: its tables are not those of records: {}", place_, said);
    if (code.starts_with("53") || code.starts_with("XX"))
      user_error("{}: the server has a problem: {}", place_, said);
    // A text that is no UTF-8, as its encoding asks.
    if (code.starts_with("22")) user_error("{}: does not take this record: {}", place_, said);
    internal_error("{}: PostgreSQL says {} ({})", place_, said, code);
  }

  std::string url_, place_;
  double patience_;
  bool read_only_;
  Connection connection_;
  Clock::time_point next_try_{};  ///< not before it a lost server is connected to again
  int64_t changed_ = 0;
};

}  // namespace

std::unique_ptr<Database> open_postgres(const std::string& url, const StoreOptions& options) {
  return std::make_unique<PostgresDatabase>(url, options);
}

}  // namespace gantry::records
