#include "host/records/recorded_decisions.h"

#include <fmt/format.h>

#include <map>

namespace gantry::records {
namespace {

class StoreDecisions : public RecordedDecisions {
 public:
  StoreDecisions(std::shared_ptr<Store> store, Setting setting)
      : store_(std::move(store)), setting_(std::move(setting)) {}

  Answer find(const std::string& work) override {
    const auto [known, is_new] = answers_.try_emplace(work);
    if (is_new) known->second = ask(work);
    return known->second;
  }

 private:
  Answer ask(const std::string& work) const {
    Best best = best_of(store_->of_work(work), setting_);
    Answer answer;
    if (best.record) {
      answer.decision = best.record->decision;
      answer.place = fmt::format("{}: record {}", store_->place(), best.record->id);
    }
    for (const std::string& mismatch : best.mismatches)
      answer.unused.push_back(fmt::format("{}: records {}", store_->place(), mismatch));
    return answer;
  }

  std::shared_ptr<Store> store_;
  Setting setting_;
  std::map<std::string, Answer> answers_;
};

}  // namespace

std::shared_ptr<RecordedDecisions> decisions_of(std::shared_ptr<Store> store, Setting setting) {
  return std::make_shared<StoreDecisions>(std::move(store), std::move(setting));
}

}  // namespace gantry::records
