#include "host/farm/board_hold.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "host/farm/farm_file.h"
#include "host/farm/job_comment.h"
#include "host/farm/lease_key.h"
#include "host/farm/lease_machine.h"
#include "host/support/cleanup.h"
#include "host/support/error.h"
#include "host/support/stopwatch.h"
#include "rpc/client/client.h"

namespace gantry::farm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{2000};
/// What is left of the job's time when the key goes: a client hears that its lease is over, not that it was
/// killed.
constexpr double kFarewellS = 5;
/// A server that is started again is there after this.
constexpr double kAbsenceS = 10;

std::unique_ptr<rpc::BoardClient> connect(const std::string& address, const rpc::PskKey& key) {
  rpc::ConnectOptions options;
  options.address = address;
  options.key = key;
  options.client_name = "gantry farm";
  options.request_timeout = milliseconds(10'000);
  return rpc::BoardClient::connect(options);
}

/// A board that this job has. In the order of its members: the key goes before the lock does.
struct Held {
  std::string name;
  FarmBoard board;
  BoardLock lock;
  std::unique_ptr<InstalledKey> key;
  std::unique_ptr<rpc::BoardClient> client;
};

class Hold {
 public:
  Hold(const std::filesystem::path& farm, const HoldRequest& request, Slurm& slurm, JobId job)
      : farm_(farm), request_(request), slurm_(slurm), job_(job) {}

  int run() {
    std::unique_ptr<Held> held;
    std::string said;
    while (!(held = find())) {
      if (left_s() <= 0) return 2;
      if (problem_ != said) say({request_.lease, "", said = problem_});
      std::this_thread::sleep_for(kLook);
    }
    log("begin", *held);
    const std::string why = serve(*held);
    held->client.reset();
    held->key.reset();
    log("end", *held, why);
    if (why.empty()) return 0;
    say({request_.lease, "", why});
    return 2;
  }

 private:
  double left_s() const { return request_.seconds - kFarewellS - whole_.seconds(); }

  void log(const char* what, const Held& held, const std::string& why = "") const {
    add_to_log(farm_, fmt::format("{} {} job {} lease {}{}", what, held.name, job_, request_.lease,
                                  why.empty() ? "" : ": " + why));
  }

  void say(const LeaseComment& comment) {
    tell_client(slurm_, job_, comment, [this] { return left_s() > 0; });
  }

  std::unique_ptr<Held> find() {
    problem_ = fmt::format("there is no board of type {} in {}", request_.board_type, farm_.string());
    const FarmFile farm = FarmFile::read(farm_);
    for (const auto& [name, board] : farm.boards()) {
      if (board.type != request_.board_type) continue;
      if (!board.drained.empty()) {
        problem_ = fmt::format("{} is drained: {}", name, board.drained);
        continue;
      }
      try {
        auto lock = BoardLock::try_take(farm_, name);
        if (!lock) {
          problem_ = fmt::format("{} is held by another lease", name);
          continue;
        }
        remove_stale_keys(board.keys);
        auto key = std::make_unique<InstalledKey>(board.keys, request_.key);
        auto client = connect(board.address, request_.key);
        (void)client->board_info();
        return std::make_unique<Held>(Held{name, board, std::move(*lock), std::move(key), std::move(client)});
      } catch (const std::exception& error) {
        problem_ = fmt::format("{} is not well: {}", name, error.what());
        // Once a reason, not at each look.
        if (std::exchange(unfit_[name], error.what()) != error.what())
          add_to_log(farm_, fmt::format("unfit {} job {}: {}", name, job_, error.what()));
      }
    }
    return nullptr;
  }

  /// keep(), with the client told where the board is. Its user ends it by a signal, most of the time.
  std::string serve(Held& held) {
    const cleanup::LastAct cancelled([&] { log("end", held, "its job was ended"); });
    say({request_.lease, held.board.address, ""});
    return keep(held);
  }

  /// Why it ends before its time; "": nobody uses it, or its time is over.
  std::string keep(Held& held) {
    Stopwatch unused;
    std::optional<Stopwatch> absent;
    while (left_s() > 0) {
      std::this_thread::sleep_for(kLook);
      try {
        if (!held.client) held.client = connect(held.board.address, request_.key);
        const bool alone = !held.client->has_leases() || held.client->leases().sessions <= 1;
        absent.reset();
        if (!alone) unused = Stopwatch();
      } catch (const std::exception& error) {
        held.client.reset();
        if (!absent) absent.emplace();
        if (absent->seconds() > kAbsenceS) return fmt::format("{} died: {}", held.name, error.what());
      }
      if (unused.seconds() > request_.unused_s) return "";
    }
    return "";
  }

  const std::filesystem::path& farm_;
  const HoldRequest& request_;
  Slurm& slurm_;
  JobId job_;
  Stopwatch whole_;
  std::string problem_;
  std::map<std::string, std::string> unfit_;  ///< why boards were left out, by name
};

}  // namespace

int hold_board(const std::filesystem::path& farm, const HoldRequest& request, Slurm& slurm, JobId job) {
  return Hold(farm, request, slurm, job).run();
}

std::string check_board(const std::string& address, const std::filesystem::path& keys) {
  const rpc::PskKey key = rpc::generate_key();
  const InstalledKey installed(keys, key);
  return connect(address, key)->board_info().cpu;
}

}  // namespace gantry::farm
