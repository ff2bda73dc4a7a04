// Records in a file of SQLite.
//
// The file keeps a write-ahead log, so that readers and a writer do not wait for each other, unless it is on
// a network file system, where such a log does not work. A transaction is on the disk when it ends. What a
// program that is killed has left, the next one that opens the file cleans up.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include "host/records/database.h"
#include "host/records/lock_holder.h"
#include "host/support/error.h"

namespace gantry::records {
namespace {

namespace fs = std::filesystem;

/// In the file's head: "gntr".
constexpr int64_t kApplication = 0x676e7472;

bool is_on_network(const std::string& path) {
  // From Linux's magic.h, and for what has no line there the file system's own source: NFS, SMB, CIFS, SMB2,
  // AFS, Ceph, 9P, FUSE (sshfs), GPFS, Lustre.
  constexpr std::array<uint32_t, 10> kTypes = {0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x5346414f,
                                               0x00c36400, 0x01021997, 0x65735546, 0x47504653, 0x0bd00bd0};
  struct statfs status {};
  if (::statfs(fs::path(path).parent_path().c_str(), &status) != 0) return false;
  const auto type = static_cast<uint32_t>(status.f_type);
  for (const uint32_t one : kTypes) {
    if (type == one) return true;
  }
  return false;
}

std::string as_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '.' || c == '_' || c == '-';
    uri += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

std::string table_definition() {
  return "CREATE TABLE gantry_record (id INTEGER PRIMARY KEY AUTOINCREMENT" +
         column_definitions({"INTEGER", "REAL", "TEXT"}) + ") STRICT";
}

class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  int bind(const Row& values) {
    int code = SQLITE_OK;
    for (size_t i = 0; i < values.size() && code == SQLITE_OK; ++i) {
      const int place = sqlite3_bind_parameter_index(statement_, fmt::format("${}", i + 1).c_str());
      code = bind(place, values[i]);
    }
    return code;
  }
  int step() { return sqlite3_step(statement_); }

  Row row() const {
    Row row;
    for (int i = 0; i < sqlite3_column_count(statement_); ++i) row.push_back(field(i));
    return row;
  }

 private:
  int bind(int place, const Field& value) {
    if (const auto* number = std::get_if<int64_t>(&value))
      return sqlite3_bind_int64(statement_, place, *number);
    if (const auto* number = std::get_if<double>(&value))
      return sqlite3_bind_double(statement_, place, *number);
    if (const auto* text = std::get_if<std::string>(&value))
      return sqlite3_bind_text64(statement_, place, text->data(), text->size(), SQLITE_TRANSIENT,
                                 SQLITE_UTF8);
    return sqlite3_bind_null(statement_, place);
  }
  Field field(int i) const {
    switch (sqlite3_column_type(statement_, i)) {
      case SQLITE_INTEGER:
        return int64_t{sqlite3_column_int64(statement_, i)};
      case SQLITE_FLOAT:
        return sqlite3_column_double(statement_, i);
      case SQLITE_NULL:
        return {};
      default: {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, i));
        if (text == nullptr) throw std::bad_alloc();
        return std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, i)));
      }
    }
  }

  sqlite3_stmt* statement_;
};

class SqliteDatabase : public Database {
 public:
  SqliteDatabase(const std::string& path, const StoreOptions& options, const std::string& place)
      : place_(place), path_(fs::absolute(path).string()), patience_(options.patience_seconds) {
    expect_file(options);
    open(path_, SQLITE_OPEN_READWRITE | (options.create ? SQLITE_OPEN_CREATE : 0));
    int code = look();
    const int kind = code & 0xff;
    if (options.read_only && (kind == SQLITE_CANTOPEN || kind == SQLITE_READONLY) && !has_log()) {
      // Nothing may be written, not even what programs that read at once tell each other.
      open(as_uri(path_), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
      code = look();
    }
    if (!options.read_only && may_not_write(code)) fail(SQLITE_READONLY);
    if (code != SQLITE_OK) fail(code);
    run("PRAGMA synchronous = FULL");
    run("PRAGMA trusted_schema = OFF");
    run("PRAGMA cell_size_check = ON");
    expect_records(options);
  }
  const std::string& place() const override { return place_; }

  std::vector<Row> run(const std::string& sql, const Row& values) override {
    std::vector<Row> rows;
    if (const int code = patiently(sql, values, rows); code != SQLITE_OK) fail(code);
    return rows;
  }
  std::vector<Row> run(const std::string& sql) { return run(sql, {}); }

  int64_t changed() override { return sqlite3_changes64(database_.get()); }

  /// begin() has locked out all who write.
  void lock_out_importers() override {}
  void lock_out_writers() override {}

 protected:
  // As a writer from the start: two that began as readers could only wait for each other.
  void begin() override { run("BEGIN IMMEDIATE"); }
  void commit() override { run("COMMIT"); }
  void rollback() noexcept override {
    if (sqlite3_get_autocommit(database_.get()) == 0)
      sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }

 private:
  void expect_file(const StoreOptions& options) const {
    std::error_code code;
    if (fs::is_directory(path_, code)) user_error("{}: is a folder, not a file of records", place_);
    if (!options.create && !fs::exists(path_, code))
      user_error("{}: there is no such file of records; `gantry tune` and `gantry records import` make one",
                 place_);
  }

  void open(const std::string& name, int flags) {
    sqlite3* opened = nullptr;
    const int code = sqlite3_open_v2(name.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    database_.reset(opened);
    if (opened == nullptr) throw std::bad_alloc();
    sqlite3_extended_result_codes(opened, 1);
    if (code != SQLITE_OK) fail(code);
    sqlite3_busy_timeout(opened, static_cast<int>(patience_ * 1000));
  }

  /// Runs a statement, and waits while another program has the file. SQLite itself does not wait where two could
  /// wait for each other, as where both turn a new file to a write-ahead log: it then says so at once.
  int patiently(const std::string& sql, const Row& values, std::vector<Row>& rows) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(patience_);
    for (;;) {
      rows.clear();
      const int code = once(sql, values, rows);
      // Within a transaction only the transaction as a whole could be tried again.
      const bool again = (code & 0xff) == SQLITE_BUSY && sqlite3_get_autocommit(database_.get()) != 0;
      if (!again || Clock::now() >= end) return code;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  int once(const std::string& sql, const Row& values, std::vector<Row>& rows) {
    sqlite3_stmt* prepared = nullptr;
    if (const int code = sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &prepared, nullptr);
        code != SQLITE_OK)
      return code;
    Statement statement(prepared);
    if (const int code = statement.bind(values); code != SQLITE_OK) return code;
    for (;;) {
      const int code = statement.step();
      if (code == SQLITE_DONE) return SQLITE_OK;
      if (code != SQLITE_ROW) return code;
      rows.push_back(statement.row());
    }
  }

  /// Reads something: only then is the file looked at.
  int look() {
    std::vector<Row> rows;
    return patiently("SELECT 1 FROM sqlite_master LIMIT 1", {}, rows);
  }
  /// SQLite then says that what it would write beside the file is not there.
  bool may_not_write(int code) const {
    const std::string folder = fs::path(path_).parent_path().string();
    return sqlite3_db_readonly(database_.get(), "main") == 1 ||
           ((code & 0xff) == SQLITE_CANTOPEN && ::access(folder.c_str(), W_OK) != 0);
  }
  /// There is something in the write-ahead log that is not in the file yet.
  bool has_log() const {
    std::error_code code;
    const auto size = fs::file_size(path_ + "-wal", code);
    return !code && size > 0;
  }

  int64_t number(const std::string& sql) { return std::get<int64_t>(run(sql).at(0).at(0)); }
  bool is_new() {
    return number("SELECT COUNT(*) FROM sqlite_master") == 0 && number("PRAGMA user_version") == 0;
  }

  void expect_records(const StoreOptions& options) {
    if (is_new()) {
      if (options.read_only) user_error("{}: is empty, there are no records in it", place_);
      make_tables();
    }
    if (number("PRAGMA application_id") != kApplication)
      user_error("{}: is a database of another program, not of records", place_);
    expect_schema(number("PRAGMA user_version"), place_);
    run(fmt::format("SELECT id, {} FROM gantry_record LIMIT 0", column_names()));
    run("SELECT work, text FROM gantry_program LIMIT 0");
  }

  void make_tables() {
    if (!is_on_network(path_)) run("PRAGMA journal_mode = WAL");
    transaction([this] {
      if (!is_new()) return;  // another program was faster
      run(table_definition());
      run("CREATE INDEX gantry_record_work ON gantry_record (work)");
      run("CREATE TABLE gantry_program (work TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT");
      run(fmt::format("PRAGMA application_id = {}", kApplication));
      run(fmt::format("PRAGMA user_version = {}", kSchemaVersion));
    });
  }

  std::string holder() const {
    for (const char* file : {"-shm", ""}) {
      if (std::string who = lock_holder(path_ + file); !who.empty()) return who;
    }
    return " by another program";
  }

  [[noreturn]] void fail(int code) {
    const int system = sqlite3_system_errno(database_.get());
    const std::string said = sqlite3_errmsg(database_.get());
    switch (code & 0xff) {
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        user_error("{}: has been locked{} for more than {} s: wait until that is done, then try again",
                   place_, holder(), patience_);
      case SQLITE_NOTADB:
        user_error("{}: is no file of records", place_);
      case SQLITE_CORRUPT:
      case SQLITE_TOOBIG:
      case SQLITE_MISMATCH:
      case SQLITE_CONSTRAINT:  // what is written has been checked
        user_error(
            "{}: is damaged ({}): restore a copy, or import what `gantry records export` wrote into a new "
            "file",
            place_, said);
      case SQLITE_ERROR:
      case SQLITE_SCHEMA:
        user_error("{}: is damaged, its tables are not those of records ({})", place_, said);
      case SQLITE_FULL:
        user_error("{}: the disk is full; nothing of this was written", place_);
      case SQLITE_READONLY:
        user_error("{}: may not be written to: check the permissions of the file and of its folder", place_);
      case SQLITE_NOMEM:
        throw std::bad_alloc();
      case SQLITE_IOERR:
      case SQLITE_CANTOPEN:
      case SQLITE_PERM:
      case SQLITE_AUTH:
        if (system == ENOSPC || system == EDQUOT)
          user_error("{}: the disk is full; nothing of this was written", place_);
        user_error("{}: cannot be read or written: {}", place_, system != 0 ? std::strerror(system) : said);
      default:
        internal_error("{}: SQLite says {} ({})", place_, said, code);
    }
  }

  std::string place_, path_;
  double patience_;
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace

std::unique_ptr<Database> open_sqlite(const std::string& path, const StoreOptions& options,
                                      const std::string& place) {
  return std::make_unique<SqliteDatabase>(path, options, place);
}

}  // namespace gantry::records
