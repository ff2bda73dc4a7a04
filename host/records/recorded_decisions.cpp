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
    if (is_new) {
      const Best best = best_of(store_->of_work(work), setting_);
      Answer& answer = known->second;
      if (best.record) answer.decision = best.record->decision;
      answer.place = place_of(best);
      answer.unused = unused_of(best);
    }
    return known->second;
  }

  NetworkAnswer find_network(const std::string& network) override {
    Best best = best_of(store_->of_work(network), setting_);
    NetworkAnswer answer{.place = place_of(best), .unused = unused_of(best)};
    if (best.record) {
      answer.decision = best.record->decision;
      answer.parts = std::move(best.record->parts);
    }
    return answer;
  }

 private:
  std::string place_of(const Best& best) const {
    return best.record ? fmt::format("{}: record {}", store_->place(), best.record->id) : "";
  }
  std::vector<std::string> unused_of(const Best& best) const {
    std::vector<std::string> unused;
    for (const std::string& mismatch : best.mismatches)
      unused.push_back(fmt::format("{}: records {}", store_->place(), mismatch));
    return unused;
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
