// Stores of records: the same of both databases. That of PostgreSQL is tested where GANTRY_TEST_POSTGRESQL
// names one that the test may empty (tests/records/postgres_test.py starts one).
#include "host/records/store.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "host/records/database.h"
#include "host/records/url.h"
#include "host/support/error.h"
#include "tests/records/samples.h"

namespace gantry::records {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_record;
using testing::sample_work;

/// A folder of the test's own.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "records.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

StoreOptions making() {
  StoreOptions options;
  options.create = true;
  options.patience_seconds = 5;
  return options;
}

Record numbered(int number) {
  Record record = sample_record();
  record.key.work = sample_work(number);
  record.model = fmt::format("model {}", number);
  return record;
}

std::vector<std::string> models(Store& store, const Filter& filter = {}) {
  std::vector<std::string> found;
  store.each(filter, [&](const Record& record) {
    found.push_back(record.model);
    return true;
  });
  return found;
}

/// Without their ids.
std::vector<Record> of_work(Store& store, const std::string& work) {
  std::vector<Record> records = store.of_work(work);
  for (Record& record : records) record.id = 0;
  return records;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kInternal ? "internal" : error.what();
  }
  return "";
}

enum class Kind { kSqlite, kPostgres };

class AnyStore : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kSqlite) {
      place_ = folder_.file("own.db");
    } else {
      const char* place = std::getenv("GANTRY_TEST_POSTGRESQL");
      if (place == nullptr) GTEST_SKIP() << "GANTRY_TEST_POSTGRESQL names no database";
      place_ = place;
      open()->remove({});
    }
  }
  std::unique_ptr<Store> open() const { return open_store(place_, making()); }

  Folder folder_;
  std::string place_;
};

INSTANTIATE_TEST_SUITE_P(Records, AnyStore, ::testing::Values(Kind::kSqlite, Kind::kPostgres),
                         [](const auto& kind) {
                           return kind.param == Kind::kSqlite ? "Sqlite" : "Postgres";
                         });

TEST_P(AnyStore, WhatIsAddedIsThereForWhoOpensItNext) {
  const Record failed = testing::failed(sample_record(), Outcome::kTimedOut);
  const Record network = testing::network_record();
  open()->add(std::vector{sample_record(), failed, network});
  EXPECT_THAT(of_work(*open(), sample_work()), ElementsAre(sample_record(), failed, network));
}

TEST_P(AnyStore, GoesOnBehindALostConnection) {
  const auto store = open();
  store->add(std::vector{numbered(1)});
  if (GetParam() == Kind::kPostgres) {
    const auto other = open_postgres(place_, making());
    const std::string others =
        "FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND "
        "pid "
        "<> pg_backend_pid()";
    other->run("SELECT pg_terminate_backend(pid) " + others);
    while (std::get<int64_t>(other->run("SELECT COUNT(*) " + others).at(0).at(0)) > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  store->add(std::vector{numbered(2)});
  EXPECT_THAT(models(*store), ElementsAre("model 1", "model 2"));
}

TEST_P(AnyStore, NumbersAndTextComeBackToTheLastBit) {
  Record record = testing::with_ratio(sample_record(), 0.1 + 0.2, 1.0 / 3 + 0.3, 0.7000000000000001);
  record.timing->seconds = 5e-324 * 1e300;
  record.timing->process_seconds = {1e-9 / 3, 1};
  record.nodes = "größe, 'quoted', \"too\"; DROP TABLE gantry_record; --";
  open()->add(std::vector{record});
  EXPECT_THAT(of_work(*open(), sample_work()), ElementsAre(record));
}

TEST_P(AnyStore, OneThatIsNoneKeepsAllOfItsTransactionOut) {
  const auto store = open();
  Record wrong = sample_record();
  wrong.key.work = "no digest";
  EXPECT_THAT(error_of([&] { store->add(std::vector{sample_record(), wrong}); }), HasSubstr("work: "));
  EXPECT_EQ(store->count({}), 0);
}

TEST_P(AnyStore, IdsRiseAndAreNotUsedAgain) {
  const auto store = open();
  store->add(std::vector{numbered(1), numbered(2)});
  const int64_t last = store->of_work(sample_work(2)).at(0).id;
  EXPECT_GT(last, store->of_work(sample_work(1)).at(0).id);
  store->remove({});
  store->add(std::vector{numbered(3)});
  EXPECT_GT(store->of_work(sample_work(3)).at(0).id, last);
}

TEST_P(AnyStore, MoreThanAPageIsIteratedInOrder) {
  std::vector<Record> records;
  std::vector<std::string> expected;
  for (int i = 0; i < 1203; ++i) {
    records.push_back(numbered(i));
    expected.push_back(records.back().model);
  }
  const auto store = open();
  store->add(records);
  EXPECT_EQ(models(*store), expected);
  int seen = 0;
  store->each({}, [&](const Record&) { return ++seen < 700; });
  EXPECT_EQ(seen, 700);
}

TEST_P(AnyStore, FiltersAskForEachPart) {
  const auto store = open();
  Record other = numbered(2);
  other.op = "nn.dense";
  other.date = "2026-12-01T00:00:00Z";
  other.confirmation = false;
  other.key.setting.threads = 4;
  other.key.setting.generator = "0.0.1";
  other.key.setting.target = "znver5";
  other.key.setting.precision = "bf16";
  other.key.setting.machine = "Test CPU 2";
  Record failed = testing::failed(numbered(3), Outcome::kWrong);
  store->add(std::vector{numbered(1), other, failed});
  const auto& generator = sample_record().key.setting.generator;
  EXPECT_THAT(models(*store, {.work = sample_work(1)}), ElementsAre("model 1"));
  EXPECT_THAT(models(*store, {.work = "000"}), ElementsAre("model 1", "model 2", "model 3"));
  EXPECT_THAT(models(*store, {.op = "nn.dense"}), ElementsAre("model 2"));
  EXPECT_THAT(models(*store, {.target = "znver5"}), ElementsAre("model 2"));
  EXPECT_THAT(models(*store, {.machine = "Test CPU 2"}), ElementsAre("model 2"));
  EXPECT_THAT(models(*store, {.precision = "bf16"}), ElementsAre("model 2"));
  EXPECT_THAT(models(*store, {.generator = generator}), ElementsAre("model 1", "model 3"));
  EXPECT_THAT(models(*store, {.other_generator = generator}), ElementsAre("model 2"));
  EXPECT_THAT(models(*store, {.threads = 4}), ElementsAre("model 2"));
  EXPECT_THAT(models(*store, {.before = "2026-12-01T00:00:00Z"}), ElementsAre("model 1", "model 3"));
  EXPECT_THAT(models(*store, {.since = "2026-12-01T00:00:00Z"}), ElementsAre("model 2"));
  EXPECT_THAT(models(*store, {.outcome = Outcome::kWrong}), ElementsAre("model 3"));
  EXPECT_THAT(models(*store, {.confirmations = true}), ElementsAre("model 1"));
  const int64_t id = store->of_work(sample_work(2)).at(0).id;
  EXPECT_THAT(models(*store, {.ids = {id}}), ElementsAre("model 2"));
  EXPECT_THAT(models(*store, {.after = id}), ElementsAre("model 3"));
  EXPECT_EQ(store->count({.op = "nn.conv"}), 2);
}

TEST_P(AnyStore, WhatAColumnHasIsSaidOnceAndInOrder) {
  const auto store = open();
  EXPECT_THAT(store->all_of_column("machine"), IsEmpty());
  std::vector<Record> records(4, sample_record());
  records[0].key.setting.threads = 16;
  records[1].key.setting.machine = "Another CPU";
  records[2].op = "nn.dense";
  store->add(records);
  EXPECT_THAT(store->all_of_column("machine"), ElementsAre("Another CPU", "Test CPU 1"));
  EXPECT_THAT(store->all_of_column("threads"), ElementsAre("2", "16"));
  EXPECT_THAT(store->all_of_column("op"), ElementsAre("nn.conv", "nn.dense"));
  EXPECT_EQ(error_of([&] { store->all_of_column("colour"); }), "internal");
}

TEST_P(AnyStore, PruningTakesProgramsOfWorksThatHaveNoRecordsLeft) {
  const auto store = open();
  const WorkProgram programs[] = {{sample_work(1), "one"}, {sample_work(2), "two"}};
  store->add(std::vector{numbered(1), numbered(2)}, programs);
  EXPECT_EQ(store->program_of(sample_work(1)), "one");
  EXPECT_EQ(store->remove({.work = sample_work(1)}), 1);
  EXPECT_EQ(store->program_of(sample_work(1)), std::nullopt);
  EXPECT_EQ(store->program_of(sample_work(2)), "two");
  EXPECT_THAT(models(*store), ElementsAre("model 2"));
}

/// Whoever adds a record of a work whose program is there already relies on that program.
TEST_P(AnyStore, PruningWaitsForRecordsThatAreBeingAdded) {
  open()->add(std::vector{numbered(1)}, std::vector{WorkProgram{sample_work(1), "one"}});
  StoreOptions impatient = making();
  impatient.patience_seconds = 0.1;
  const auto pruner = open_store(place_, impatient);
  const auto adder =
      GetParam() == Kind::kSqlite ? open_sqlite(place_, making(), place_) : open_postgres(place_, making());
  std::string error;
  adder->transaction([&] {
    adder->run(fmt::format("INSERT INTO gantry_record ({0}) SELECT {0} FROM gantry_record", column_names()));
    error = error_of([&] { pruner->remove({.work = sample_work(1)}); });
  });
  EXPECT_THAT(error, HasSubstr("has been locked"));
  EXPECT_EQ(open()->count({}), 2);
  EXPECT_EQ(open()->program_of(sample_work(1)), "one");
  EXPECT_EQ(pruner->remove({.work = sample_work(1)}), 2);
  EXPECT_EQ(open()->program_of(sample_work(1)), std::nullopt);
}

TEST_P(AnyStore, TheBestOfKeysIsFoundByTheWholeKey) {
  const auto store = open();
  Record faster = testing::with_ratio(sample_record(), 0.5, 0.6, 0.7);
  faster.decision.form = "gemm";
  Record elsewhere = testing::with_ratio(sample_record(), 0.1, 0.1, 0.1);
  elsewhere.key.setting.threads = 4;
  store->add(std::vector{sample_record(), faster, elsewhere});
  const Key keys[] = {sample_record().key, elsewhere.key, numbered(9).key};
  const auto best = store->best(keys);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0]->decision.form, "gemm");
  EXPECT_EQ(best[1]->key.setting.threads, 4);
  EXPECT_EQ(best[2], std::nullopt);
  EXPECT_EQ(store->all(sample_record().key).size(), 2u);
}

TEST_P(AnyStore, WhatIsToldLaterIsNewerThanWhatAClockThatWasAheadHasDated) {
  const auto store = open();
  Record ahead = sample_record(), crashed = testing::failed(sample_record(), Outcome::kCrashed);
  ahead.date = "2099-01-01T00:00:00Z";
  const Key keys[] = {ahead.key};
  store->add(std::vector{ahead});
  ASSERT_NE(store->best(keys)[0], std::nullopt);
  store->add(std::vector{numbered(2), crashed});
  EXPECT_EQ(store->best(keys)[0], std::nullopt);
  EXPECT_EQ(store->of_work(sample_work(1)).back().date, ahead.date);
  EXPECT_EQ(store->of_work(sample_work(2)).back().date, crashed.date) << "of another work";
}

TEST_P(AnyStore, WithinABatchALaterRecordIsNewerToo) {
  const auto store = open();
  Record ahead = sample_record(), crashed = testing::failed(sample_record(), Outcome::kCrashed);
  ahead.date = "2099-01-01T00:00:00Z";
  const Key keys[] = {ahead.key};
  store->add(std::vector{ahead, crashed});
  EXPECT_EQ(store->best(keys)[0], std::nullopt);
}

TEST_P(AnyStore, SeveralWritersAndMakersLoseNothing) {
  constexpr int kWriters = 6, kEach = 20;
  std::vector<std::thread> writers;
  std::vector<std::string> errors(kWriters);
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      errors[static_cast<size_t>(writer)] = error_of([&] {
        const auto store = open();
        for (int i = 0; i < kEach; ++i) store->add(std::vector{numbered(writer * kEach + i)});
      });
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(errors, ::testing::Each(""));
  std::vector<std::string> found = models(*open());
  std::ranges::sort(found);
  EXPECT_EQ(std::unique(found.begin(), found.end()) - found.begin(), kWriters * kEach);
}

TEST_P(AnyStore, WhatIsThereAlreadyIsNotAddedAgain) {
  const auto store = open();
  store->add(std::vector{numbered(1)});
  Record later = numbered(2);
  later.date = "2026-12-01T00:00:00Z";
  EXPECT_EQ(store->add_unknown({later, numbered(1), numbered(3), numbered(3)}), 2U);
  EXPECT_THAT(models(*store), ElementsAre("model 1", "model 3", "model 2"));
  EXPECT_EQ(store->add_unknown({later, numbered(1), numbered(3)}), 0U);
}

TEST_P(AnyStore, WhatWasWrittenAlthoughThatIsNotKnownIsNotAddedAgain) {
  const auto store = open();
  Record ahead = sample_record();
  ahead.date = "2099-01-01T00:00:00Z";
  store->add(std::vector{ahead});
  const Record crashed = testing::failed(sample_record(), Outcome::kCrashed);
  store->add(std::vector{crashed, crashed});  // dated as what stands there
  const Record slower = testing::with_ratio(sample_record(), 1.1, 1.2, 1.3);
  store->add_again(std::vector{crashed, crashed, slower, crashed});
  EXPECT_EQ(store->count({.outcome = Outcome::kCrashed}), 3);
  EXPECT_EQ(store->count({}), 5);
  EXPECT_EQ(store->of_work(sample_work()).back().date, ahead.date);
}

TEST_P(AnyStore, WhatFailedBeforeInTheSameWayIsNoneOfIt) {
  const auto store = open();
  Record crashed = testing::failed(sample_record(), Outcome::kCrashed);
  store->add(std::vector{crashed});
  crashed.date = "2026-12-01T00:00:00Z";
  store->add_again(std::vector{crashed});
  EXPECT_EQ(store->count({}), 2);
}

/// A row that is no record is told of while what is there is looked at: in that moment another program comes.
TEST_P(AnyStore, BetweenLookingAndAddingNobodyAddsTheSame) {
  open()->add(std::vector{sample_record()});
  (GetParam() == Kind::kSqlite ? open_sqlite(place_, making(), place_) : open_postgres(place_, making()))
      ->run("UPDATE gantry_record SET ratio = 17");
  std::string error;
  StoreOptions impatient = making(), options = making();
  impatient.patience_seconds = 0.1;
  options.warn = [&](const std::string&) {
    error = error_of([&] { open_store(place_, impatient)->add_unknown({sample_record()}); });
  };
  EXPECT_EQ(open_store(place_, options)->add_unknown({sample_record()}), 1U);
  EXPECT_THAT(error, HasSubstr("has been locked"));
  EXPECT_EQ(open()->add_unknown({sample_record()}), 0U);
  EXPECT_EQ(open()->count({}), 2);
}

TEST_P(AnyStore, WhoMayOnlyReadWritesNothing) {
  open()->add(std::vector{sample_record()});
  StoreOptions reading;
  reading.read_only = true;
  const auto store = open_store(place_, reading);
  EXPECT_EQ(store->count({}), 1);
  if (GetParam() != Kind::kPostgres) return;
  EXPECT_THAT(error_of([&] { store->add(std::vector{sample_record()}); }),
              HasSubstr("may not be written to"));
}

// --- files

class SqliteStore : public ::testing::Test {
 protected:
  SqliteStore() : file_(folder_.file("lab.db")) {
    open_store(file_, making())->add(std::vector{sample_record()});
  }

  void change(const std::string& sql, const std::string& file) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }
  void change(const std::string& sql) const { change(sql, file_); }
  std::string opening_error(const std::string& file) const {
    return error_of([&] { open_store(file, StoreOptions()); });
  }

  Folder folder_;
  std::string file_;
};

TEST_F(SqliteStore, AFileThatIsNotThereIsOnlyMadeWhereThatIsWanted) {
  EXPECT_THAT(opening_error(folder_.file("other.db")),
              HasSubstr("other.db: there is no such file of records"));
  EXPECT_FALSE(fs::exists(folder_.file("other.db")));
  EXPECT_THAT(opening_error(folder_.file(".")), HasSubstr("is a folder"));
  EXPECT_THAT(error_of([&] { open_store(folder_.file("none/other.db"), making()); }),
              HasSubstr("No such file"));
}

TEST_F(SqliteStore, OtherFilesAreNoStores) {
  std::ofstream(folder_.file("text")) << std::string(5000, 'x');
  EXPECT_THAT(opening_error(folder_.file("text")), HasSubstr("text: is no file of records"));
  change("CREATE TABLE songs (name TEXT)", folder_.file("music.db"));
  EXPECT_THAT(opening_error(folder_.file("music.db")),
              HasSubstr("music.db: is a database of another program"));
}

TEST_F(SqliteStore, ANewerVersionIsRefusedByName) {
  change("PRAGMA user_version = 2");
  EXPECT_THAT(opening_error(file_),
              AllOf(HasSubstr("lab.db: its records are of version 2"), HasSubstr("update it")));
}

TEST_F(SqliteStore, ATableThatIsNotOfRecordsIsRefused) {
  change("ALTER TABLE gantry_record DROP COLUMN baseline");
  EXPECT_THAT(opening_error(file_), HasSubstr("its tables are not those of records"));
}

TEST_F(SqliteStore, ARowThatIsNoRecordIsLeftOutAndSaid) {
  change("UPDATE gantry_record SET ratio = 17");
  open_store(file_, making())->add(std::vector{numbered(2)});
  std::vector<std::string> warnings;
  StoreOptions options;
  options.warn = [&](const std::string& message) { warnings.push_back(message); };
  EXPECT_THAT(models(*open_store(file_, options)), ElementsAre("model 2"));
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("lab.db: record 1 is left out"), HasSubstr("ratio"))));
}

TEST_F(SqliteStore, ALockIsWaitedForAndThenNamed) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  StoreOptions options;
  options.patience_seconds = 0.2;
  const auto store = open_store(file_, options);
  EXPECT_THAT(error_of([&] { store->add(std::vector{numbered(2)}); }), HasSubstr("lab.db: has been locked"));
  EXPECT_EQ(store->count({}), 1);  // who reads is not kept out
  ASSERT_EQ(sqlite3_exec(database, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  store->add(std::vector{numbered(2)});
  EXPECT_EQ(store->count({}), 2);
}

TEST_F(SqliteStore, DamagedBytesAreErrorsOrRecordsAsTheyWere) {
  std::vector<Record> records;
  for (int i = 2; i < 200; ++i) records.push_back(numbered(i));
  open_store(file_, making())->add(records);
  std::ifstream stream(file_, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(stream), {}};
  std::mt19937 random(11);
  const std::string damaged = folder_.file("damaged.db");
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    for (int changes = 0; changes < 20; ++changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 10 == 0) bytes.resize(random() % bytes.size());
    std::ofstream(damaged, std::ios::binary | std::ios::trunc) << bytes;
    const std::string error = error_of([&] {
      const auto store = open_store(damaged, StoreOptions());
      store->each({}, [](const Record& record) {
        check(record);
        return true;
      });
    });
    EXPECT_NE(error, "internal") << "seed 11, turn " << i;
    EXPECT_THAT(error, ::testing::AnyOf("", HasSubstr("damaged.db")));
    for (const char* beside : {"-wal", "-shm", "-journal"}) fs::remove(damaged + beside);
  }
}

TEST(Store, OtherPlacesAreRefused) {
  EXPECT_THAT(error_of([] { open_store("mysql://lab/tuning"); }), HasSubstr("postgresql://"));
  EXPECT_THAT(error_of([] { open_store(""); }), HasSubstr("name a file"));
}

TEST(Store, PasswordsAreNotShown) {
  for (const char* place :
       {"postgresql://me:secret@127.0.0.1:1/tuning", "postgresql://me:my?secret@127.0.0.1:1/tuning",
        "postgresql://me@127.0.0.1:1/tuning?password=secret&application_name=a",
        "postgresql://me@127.0.0.1:1/tuning?sslpassword=secret&password=secret",
        "postgresql://me:%73ecret%40%2F@127.0.0.1:1/tuning",
        "postgresql://me@127.0.0.1:1/tuning?application_name=a&p%61ss%77ord=secret",
        "postgresql://me@127.0.0.1:1/tuning?%70assword=a%3Dsecret",
        "POSTGRESQL://me:secret@127.0.0.1:1/tuning", "mysql://me:secret@lab/tuning"}) {
    const std::string error = error_of([&] { open_store(place); });
    EXPECT_THAT(error, HasSubstr("postgresql://")) << place;
    EXPECT_THAT(error, ::testing::Not(HasSubstr("ecret"))) << place;
  }
}

TEST(Store, PasswordsThatAreNotWrittenAsInUrlsAreNotShownEither) {
  for (const char* place :
       {"postgresql://me:100%secret@127.0.0.1:1/tuning",
        "postgresql://me@127.0.0.1:1/tuning?password=100%secret",
        "postgresql://me@127.0.0.1:1/tuning?password=my&secret",
        "postgresql://me:my@secret@127.0.0.1:1/tuning", "postgresql://me:my/secret@127.0.0.1:1/tuning",
        "postgresql://127.0.0.1:secret/my@127.0.0.1/tuning"}) {
    const std::string error = error_of([&] { open_store(place); });
    EXPECT_THAT(error, HasSubstr("postgresql://")) << place;
    EXPECT_THAT(error, ::testing::Not(HasSubstr("secret"))) << place;
  }
}

TEST(Url, LosesItsPasswordsAndNothingElse) {
  EXPECT_EQ(without_password("--records=postgresql://me:se%40cret@lab:5432/a?sslmode=x&PassWord=b=c&port=1"),
            "--records=postgresql://me@lab:5432/a?sslmode=x&PassWord=…&port=1");
  EXPECT_EQ(without_password("postgresql://lab@/tuning?host=/run/a:b&port=5433"),
            "postgresql://lab@/tuning?host=/run/a:b&port=5433");
  EXPECT_EQ(without_password("postgresql://[::1]:5432/a?application_name=b@c"),
            "postgresql://[::1]:5432/a?application_name=b@c");
  EXPECT_EQ(without_password("postgresql://lab:5432,[::1]:5433/a?application_name=b@c"),
            "postgresql://lab:5432,[::1]:5433/a?application_name=b@c");
  EXPECT_EQ(without_password("postgresql://lab?application_name=b:c/d@e"),
            "postgresql://lab?application_name=b:c/d@e");
  EXPECT_EQ(without_password("postgresql://me:se/cr@t/too@lab:5432/a?password=b&c&port=1&d"),
            "postgresql://me@lab:5432/a?password=…&port=1&d");
  EXPECT_EQ(without_password("pass:word@file"), "pass:word@file");
}

}  // namespace
}  // namespace gantry::records
