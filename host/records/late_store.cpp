#include "host/records/late_store.h"

#include <filesystem>
#include <utility>

#include "host/records/database.h"
#include "host/support/output_file.h"
#include "host/support/temporary.h"

namespace gantry::records {
namespace {

namespace fs = std::filesystem;

bool is_there(const std::string& file) {
  std::error_code code;
  return fs::exists(file, code);
}

class LateStore : public Store {
 public:
  LateStore(std::string place, StoreOptions options)
      : place_(std::move(place)), options_(std::move(options)) {}

  const std::string& place() const override { return place_; }

  void add(std::span<const Record> records, std::span<const WorkProgram> programs) override {
    check_all(records, programs);
    made().add(records, programs);
  }
  void add_again(std::span<const Record> records, std::span<const WorkProgram> programs) override {
    check_all(records, programs);
    made().add_again(records, programs);
  }
  size_t add_unknown(std::vector<Record> records, std::span<const WorkProgram> programs) override {
    check_all(records, programs);
    return made().add_unknown(std::move(records), programs);
  }

  std::vector<Record> of_work(const std::string& work) override {
    return found() ? store_->of_work(work) : std::vector<Record>();
  }
  void each(const Filter& filter, const std::function<bool(const Record&)>& visit) override {
    if (found()) store_->each(filter, visit);
  }
  int64_t count(const Filter& filter) override { return found() ? store_->count(filter) : 0; }
  std::vector<std::string> all_of_column(const std::string& column) override {
    return found() ? store_->all_of_column(column) : std::vector<std::string>();
  }
  int64_t remove(const Filter& filter) override { return found() ? store_->remove(filter) : 0; }
  std::optional<std::string> program_of(const std::string& work) override {
    return found() ? store_->program_of(work) : std::nullopt;
  }

 private:
  /// Before a file is made for what no store takes.
  static void check_all(std::span<const Record> records, std::span<const WorkProgram> programs) {
    for (const Record& record : records) check(record);
    for (const WorkProgram& program : programs) check(program);
  }
  Store& made() {
    if (store_ == nullptr) store_ = open_store(place_, options_);
    return *store_;
  }
  /// Another program may have made it.
  bool found() {
    if (store_ == nullptr && is_there(place_)) made();
    return store_ != nullptr;
  }

  std::string place_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

/// In a folder of its own, so that nothing of what SQLite puts beside a file is left.
void check_can_make(const std::string& place, const StoreOptions& options) {
  check_can_write(place);
  const TemporaryFolder folder(TemporaryFolder::Beside{find_output_target(place).path});
  open_sqlite(folder.path() / "records", options, place);
}

}  // namespace

std::unique_ptr<Store> open_late_store(const std::string& place, StoreOptions options) {
  options.create = true;
  if (place.empty() || place.find("://") != std::string::npos || is_there(place))
    return open_store(place, std::move(options));
  check_can_make(place, options);
  return std::make_unique<LateStore>(place, std::move(options));
}

}  // namespace gantry::records
