// Where records are kept: an SQLite file, or a PostgreSQL database that a lab shares.
//
// Records are only ever added, or pruned. Several programs may read and write at once. What add() has
// returned from is on the disk, all of it. What it threw for, or was killed in, is not there at all; or all
// of it is, where the connection to a PostgreSQL server broke in the last moment: add_again() sees that.
//
// Errors of all functions: user errors that name the file or database: it is locked by another program for
// longer than StoreOptions::patience_seconds (and who that is, where the system tells), damaged, read-only,
// on a full disk, of a newer version of gantry, no store of records at all; board errors for a PostgreSQL
// server that cannot be reached or goes away.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host/records/record.h"

namespace gantry::records {

/// A program of one node, from which a work can be measured again: graph text (.gir) whose weights are made
/// up.
struct WorkProgram {
  std::string work;  ///< digest
  std::string text;
};

/// Throws a user error for one of no work, or that is longer than such programs are.
void check(const WorkProgram& program);

class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// As the user named it, without a password: for messages.
  virtual const std::string& place() const = 0;

  /// In one durable transaction; ids are given in their order, and dates no older than those of records of
  /// the same work that are here: what is told later is newer, whatever clocks say. Programs of works that
  /// have one already are left out. Each is checked (check()) before anything is written.
  virtual void add(std::span<const Record> records, std::span<const WorkProgram> programs = {}) = 0;
  /// As add(), of what an earlier add() threw for, and other records behind it: what that has written all the
  /// same is left out.
  virtual void add_again(std::span<const Record> records, std::span<const WorkProgram> programs = {}) = 0;
  /// As add(), of those alone that the store has not, but for their ids; in the order of their dates, which
  /// stay. They are looked for in the same transaction: of several programs that add the same at once one
  /// does. Returns how many there were.
  virtual size_t add_unknown(std::vector<Record> records, std::span<const WorkProgram> programs = {}) = 0;

  /// All records of a work, whatever their setting, oldest first.
  virtual std::vector<Record> of_work(const std::string& work) = 0;
  /// Those with the key, oldest first.
  std::vector<Record> all(const Key& key);
  /// What decides for each key, none where nothing does (best_of).
  std::vector<std::optional<Record>> best(std::span<const Key> keys);

  /// Calls `visit` for those that pass, oldest first, until it returns false.
  virtual void each(const Filter& filter, const std::function<bool(const Record&)>& visit) = 0;
  virtual int64_t count(const Filter& filter) = 0;
  /// What the records have in a column of texts or whole numbers ("machine", "threads"), each once, in order.
  virtual std::vector<std::string> all_of_column(const std::string& column) = 0;
  /// Removes those that pass, in one transaction; returns how many there were. Programs of works that have no
  /// records any more go with them.
  virtual int64_t remove(const Filter& filter) = 0;

  virtual std::optional<std::string> program_of(const std::string& work) = 0;

 protected:
  Store() = default;
};

struct StoreOptions {
  /// A store that is not there is made; else it is a user error.
  bool create = false;
  /// Nothing is written: a file that may only be read will do.
  bool read_only = false;
  /// How long another program's lock is waited for.
  double patience_seconds = 10;
  /// Hears of rows that cannot be read as records, which are left out; may be empty.
  std::function<void(const std::string&)> warn;
};

/// `place`: the name of a file, or postgresql://user@host/database as libpq has it. A Store is for one thread
/// at a time; any number of them may be open on one place.
std::unique_ptr<Store> open_store(const std::string& place, StoreOptions options = {});

}  // namespace gantry::records
