// A database as the store of records needs it: transactions, and statements with parameters.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/records/columns.h"
#include "host/records/store.h"

namespace gantry::records {

/// Errors of all functions are those of store.h; behind one a transaction is undone.
class Database {
 public:
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// As the user named it, without a password.
  virtual const std::string& place() const = 0;
  /// Runs one statement, whose $1, $2, … are `values`; its result.
  virtual std::vector<Row> run(const std::string& sql, const Row& values = {}) = 0;
  /// Rows that the last statement added or removed.
  virtual int64_t changed() = 0;

  /// Within a transaction: until it ends, no other program comes past this; what those wrote that did before
  /// is seen by what is read from now on. Others may read, and add.
  virtual void lock_out_importers() = 0;
  /// Within a transaction, before all else in it: until it ends nobody else adds or removes; what those wrote
  /// that did before is seen by what is read from now on. Others may read.
  virtual void lock_out_writers() = 0;

  /// What `work` does is one durable transaction; it is all undone where it throws.
  void transaction(const std::function<void()>& work);

 protected:
  Database() = default;
  virtual void begin() = 0;
  virtual void commit() = 0;
  /// Does not throw.
  virtual void rollback() noexcept = 0;
};

/// The version of the tables that this program makes and reads.
inline constexpr int64_t kSchemaVersion = 1;
/// User errors for another one.
void expect_schema(int64_t version, const std::string& place);

/// `path`: a file, which messages call `place`. Its tables are made where it has none.
std::unique_ptr<Database> open_sqlite(const std::string& path, const StoreOptions& options,
                                      const std::string& place);
/// `url`: postgresql://… or postgres://…
std::unique_ptr<Database> open_postgres(const std::string& url, const StoreOptions& options);

}  // namespace gantry::records
