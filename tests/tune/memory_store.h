// A store of records in memory.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host/records/store.h"
#include "host/support/error.h"

namespace gantry::tune {

/// Keeps records, or cannot.
class MemoryStore : public records::Store {
 public:
  const std::string& place() const override { return place_; }
  void add(std::span<const records::Record> added,
           std::span<const records::WorkProgram> programs = {}) override {
    if (locked) user_error("lab.db: is locked by another program");
    for (const records::Record& record : added) records::check(record);
    for (const records::WorkProgram& program : programs) records::check(program);
    for (const records::Record& record : added) {
      kept.push_back(record);
      kept.back().id = static_cast<int64_t>(kept.size());
    }
    for (const records::WorkProgram& program : programs) programs_of.try_emplace(program.work, program.text);
    if (std::exchange(goes_away, false)) board_error("lab.db: the connection to the server is lost");
  }
  void add_again(std::span<const records::Record> added,
                 std::span<const records::WorkProgram> programs = {}) override {
    std::vector<records::Record> left;
    for (const records::Record& record : added) {
      const bool is_kept = std::ranges::any_of(kept, [&](records::Record one) {
        one.id = record.id;
        return one == record;
      });
      if (!is_kept) left.push_back(record);
    }
    add(left, programs);
  }
  size_t add_unknown(std::vector<records::Record> all,
                     std::span<const records::WorkProgram> programs = {}) override {
    add(all, programs);
    return all.size();
  }
  std::vector<records::Record> of_work(const std::string& work) override {
    if (locked) {
      ++reads;
      user_error("lab.db: is locked by another program");
    }
    std::vector<records::Record> found;
    for (const records::Record& record : kept) {
      if (record.key.work == work) found.push_back(record);
    }
    return found;
  }
  void each(const records::Filter&, const std::function<bool(const records::Record&)>&) override {}
  int64_t count(const records::Filter&) override { return static_cast<int64_t>(kept.size()); }
  std::vector<std::string> all_of_column(const std::string&) override { return {}; }
  int64_t remove(const records::Filter&) override { return 0; }
  std::optional<std::string> program_of(const std::string& work) override {
    const auto found = programs_of.find(work);
    return found == programs_of.end() ? std::nullopt : std::optional(found->second);
  }

  std::vector<records::Record> kept;
  std::map<std::string, std::string> programs_of;  ///< works
  bool locked = false;
  bool goes_away = false;  ///< once, when all is written
  size_t reads = 0;        ///< that were tried while it was locked

 private:
  std::string place_ = "lab.db";
};

}  // namespace gantry::tune
