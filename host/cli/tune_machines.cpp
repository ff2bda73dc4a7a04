#include "host/cli/tune_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <utility>

#include "host/cli/turns/farm_options.h"
#include "host/farm/lease_pool.h"
#include "host/farm/slurm.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

class NamedMachines : public TuneMachines {
 public:
  NamedMachines(const std::string& text, std::string key) : text_(text), key_(std::move(key)) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      std::string board = text.substr(begin, end - begin);
      if (board.empty() && !text.empty()) user_error("--on {}: names no board between two commas", text);
      if (std::ranges::find(boards_, board) != boards_.end())
        user_error("--on {}: names {} twice", text, board);
      boards_.push_back(std::move(board));
      begin = end + 1;
    }
  }

  size_t places() const override { return boards_.size(); }
  std::optional<TuneMachine> machine(size_t place) const override {
    TuneMachine one;
    one.number = place + 1;
    one.board = boards_[place];
    one.key = key_;
    return one;
  }
  std::string label(const std::string& one) const override {
    return boards_.size() == 1 ? one : fmt::format("{} and {} more", one, boards_.size() - 1);
  }
  std::string name() const override { return text_; }

 private:
  std::string text_, key_;
  std::vector<std::string> boards_;
};

class LeasedMachines : public TuneMachines {
 public:
  LeasedMachines(const farm::LeaseRequest& request, size_t count, farm::LeasePool::Connect connect,
                 const Invocation& invocation)
      : type_(request.board_type),
        count_(count),
        invocation_(invocation),
        pool_(slurm_, request, count, std::move(connect)) {}

  size_t places() const override { return count_; }
  bool renews() const override { return true; }

  std::optional<TuneMachine> machine(size_t place) const override {
    const std::optional<farm::PooledBoard> board = pool_.board(place);
    if (!board) return std::nullopt;
    TuneMachine one;
    one.number = board->lease;
    one.board = board->address;
    one.key = board->key_file.string();
    one.words = fmt::format("{}, after {:.0f} s in Slurm's queue", board->words, board->waited_s);
    one.holds = board->folder;
    return one;
  }
  bool lost(size_t place, const TuneMachine& machine) override { return pool_.lost(place, machine.number); }
  void used(size_t place, const TuneMachine& machine) override { pool_.used(place, machine.number); }

  std::string waits_for() override {
    pool_.check();
    const double waiting_s = pool_.waiting_s();
    const std::scoped_lock lock(mutex_);
    if (waiting_s <= 0) {
      notes_ = {};
      return "";
    }
    std::string words = pool_.words();
    if (notes_.due(waiting_s)) invocation_.note(words);
    return words;
  }
  double waited_s() const override { return pool_.idle_s(); }

  std::string label(const std::string&) const override {
    return count_ == 1 ? "a leased board of type " + type_
                       : fmt::format("{} leased boards of type {}", count_, type_);
  }
  std::string name() const override { return fmt::format("{} of a farm", type_); }

 private:
  std::string type_;
  size_t count_;
  const Invocation& invocation_;
  farm::SlurmCommands slurm_;
  std::mutex mutex_;
  WaitNotes notes_;       ///< of the wait that goes on
  farm::LeasePool pool_;  ///< the last: it asks slurm_ to its end
};

}  // namespace

std::unique_ptr<TuneMachines> named_machines(const std::string& boards, const std::string& key) {
  return std::make_unique<NamedMachines>(boards, key);
}

std::unique_ptr<TuneMachines> leased_machines(const FarmOptions& options, const TurnOptions& turns,
                                              const Invocation& invocation) {
  return std::make_unique<LeasedMachines>(lease_request(options, turns), boards_wanted(options).count,
                                          farm::keep_session, invocation);
}

std::unique_ptr<TuneMachines> leased_compile_hosts(const FarmOptions& options, const TurnOptions& turns,
                                                   const Invocation& invocation) {
  // Who builds there connects, and says to its job that it is used.
  const auto no_session = [](const std::string&, const std::filesystem::path&) {
    return farm::KeptSession();
  };
  return std::make_unique<LeasedMachines>(compile_host_request(options, turns), options.compile_hosts,
                                          no_session, invocation);
}

}  // namespace gantry::cli
