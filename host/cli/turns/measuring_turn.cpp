#include "host/cli/turns/measuring_turn.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "host/cli/board_machine.h"
#include "host/cli/text.h"
#include "host/cli/turns/local_turns.h"
#include "host/support/error.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {
namespace {

using std::chrono::milliseconds;

double seconds(milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// "me@laptop: bench resnet18.onnx"
std::string purpose_of(const ExecutionOptions& choice, const Invocation& invocation) {
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const passwd* user = ::getpwuid(::geteuid());
  return fmt::format("{}@{}: {} {}", user == nullptr ? "user" : user->pw_name, host,
                     invocation.command.empty() ? "measure" : invocation.command,
                     std::filesystem::path(choice.file).filename().string());
}

std::string entry_text(const rpc::LeaseEntry& entry) {
  const std::string who =
      entry.key.empty() ? entry.address : fmt::format("{} ({})", entry.key, entry.address);
  return entry.purpose.empty() ? who : fmt::format("{}, '{}'", who, entry.purpose);
}

/// Says once in plain words, and then over and over as progress, whom it waits for.
class Teller {
 public:
  Teller(const Invocation& invocation, TurnProgress progress)
      : invocation_(invocation), progress_(std::move(progress)) {}
  void begin() { told_ = false; }
  void tell(const std::string& what) {
    if (!told_) invocation_.note(what);
    told_ = true;
    if (progress_) progress_(what);
  }
  void warn(const std::string& what) const { invocation_.warn(what); }

 private:
  const Invocation& invocation_;
  TurnProgress progress_;
  bool told_ = false;
};

// ---- boards ----

class BoardTurn : public MeasuringTurn {
 public:
  BoardTurn(std::unique_ptr<rpc::BoardClient> client, std::string label, const TurnOptions& options,
            std::string purpose, Teller teller)
      : client_(std::move(client)), label_(std::move(label)), teller_(std::move(teller)) {
    lease_options_.priority = options.priority;
    lease_options_.purpose = std::move(purpose);
    const double longest = options.wait ? options.longest_wait_s : 1e-3;
    lease_options_.longest_wait = milliseconds(static_cast<int64_t>(std::ceil(longest * 1e3)));
    take();
    lease_options_.longest_wait = milliseconds(0);  // what has begun is finished
  }

  void join(Machine& machine) override {
    machine.join_lease(token_, [this](const rpc::MeasuringQueue& queue) { tell(queue); });
  }

  double pause() override {
    teller_.begin();
    return take();
  }

 private:
  double take() {
    const rpc::Lease lease =
        client_->take_lease(lease_options_, [this](const rpc::MeasuringQueue& queue) { tell(queue); });
    token_ = lease.token;
    const double waited = seconds(lease.waited);
    record_.waited_s += waited;
    if (record_.turns == 0 || waited > 0) ++record_.turns;
    return waited;
  }

  void tell(const rpc::MeasuringQueue& queue) {
    if (!queue.holder) return;
    const double most = std::max(0.0, seconds(queue.turn_left)) +
                        seconds(queue.turn) * (queue.position > 1 ? queue.position - 1 : 0);
    teller_.tell(
        fmt::format("waiting for {}, who has measured on {} for {:.0f} s; about {:.0f} s more{}",
                    entry_text(*queue.holder), label_, seconds(queue.holder->since), most,
                    queue.position > 1 ? fmt::format(", {} ahead in the queue", queue.position - 1) : ""));
  }

  std::unique_ptr<rpc::BoardClient> client_;
  std::string label_;
  Teller teller_;
  rpc::LeaseOptions lease_options_;
  uint64_t token_ = 0;
};

std::unique_ptr<MeasuringTurn> board_turn(const ExecutionOptions& choice, const TurnOptions& options,
                                          const Invocation& invocation, Teller teller) {
  const BoardChoice board = resolve_board(choice.board, choice.key, BoardsFile::read(boards_path()));
  std::unique_ptr<rpc::BoardClient> client;
  try {
    client = rpc::BoardClient::connect(connect_options(board));
  } catch (const rpc::Error& error) {
    // It serves as many sessions as it may. Those that measure without a lease take turns too, request by
    // request.
    if (error.kind() != rpc::ErrorKind::kRetry) throw;
    teller.warn(fmt::format("{}; measuring without a lease: others may measure in between", error.what()));
    return std::make_unique<MeasuringTurn>();
  }
  if (!client->has_leases()) {
    teller.warn(fmt::format(
        "board {}: its gantry-device is older and lets several measure at once; put the one there "
        "that came with this gantry",
        board.label));
    return std::make_unique<MeasuringTurn>();
  }
  return std::make_unique<BoardTurn>(std::move(client), board.label, options, purpose_of(choice, invocation),
                                     std::move(teller));
}

// ---- this machine ----

class LocalTurn : public MeasuringTurn {
 public:
  LocalTurn(std::unique_ptr<LocalTurns> turns, const TurnOptions& options, Teller teller)
      : turns_(std::move(turns)), options_(options), teller_(std::move(teller)) {
    wait(options.wait ? options.longest_wait_s : 0);
    if (!turns_->holds()) turns_->release();
    record_.turns = 1;
  }

  double pause() override {
    if (!turns_->holds() || !ask(&LocalTurns::give_way).value_or(false)) return 0;
    teller_.begin();
    ++record_.turns;
    return wait(INFINITY);
  }

 private:
  /// What turns_ says. None where it can have no place in the queue: that is said, and it measures beside the
  /// others.
  std::optional<bool> ask(bool (LocalTurns::*question)()) {
    try {
      return ((*turns_).*question)();
    } catch (const Error& error) {
      if (options_.wait) teller_.warn(error.what());
      turns_->release();
      if (turns_->holder() || turns_->ahead() > 0) record_.beside = holder_text();
      return std::nullopt;
    }
  }

  /// Seconds that it took.
  double wait(double longest_s) {
    constexpr milliseconds kLook{50};
    constexpr double kWordS = 1;
    const Stopwatch waited;
    double next_word = kWordS;
    while (!ask(&LocalTurns::try_take).value_or(true)) {
      if (waited.seconds() >= longest_s) {
        give_up();
        break;
      }
      if (waited.seconds() >= next_word) {
        tell();
        next_word = waited.seconds() + kWordS;
      }
      std::this_thread::sleep_for(kLook);
    }
    record_.waited_s += waited.seconds();
    return waited.seconds();
  }

  std::string holder_text() const {
    const auto holder = turns_->holder();
    if (!holder) return "another gantry";
    return holder->purpose.empty() ? fmt::format("another gantry (process {})", holder->process)
                                   : fmt::format("another gantry (process {}, '{}')", holder->process,
                                                 visible_line(holder->purpose));
  }

  void tell() {
    const size_t ahead = turns_->ahead();
    const auto holder = turns_->holder();
    teller_.tell(
        fmt::format("waiting for {}, which has measured on this machine for {:.0f} s{}; --no-wait measures "
                    "beside it",
                    holder_text(), holder ? holder->since_s : 0.0,
                    ahead > 0 ? fmt::format(", {} ahead in the queue", ahead) : ""));
  }

  /// It may not wait, or not longer.
  void give_up() {
    record_.beside = holder_text();
    if (options_.wait)
      board_error(
          "{} has measured on this machine for too long to wait for (--max-wait {:g}s); --no-wait measures "
          "beside it",
          record_.beside, options_.longest_wait_s);
  }

  std::unique_ptr<LocalTurns> turns_;
  TurnOptions options_;
  Teller teller_;
};

std::unique_ptr<MeasuringTurn> local_turn(const ExecutionOptions& choice, const TurnOptions& options,
                                          const Invocation& invocation, Teller teller) {
  std::unique_ptr<LocalTurns> turns;
  try {
    turns = std::make_unique<LocalTurns>(turns_folder(), purpose_of(choice, invocation), options.priority);
  } catch (const Error& error) {
    if (options.wait) teller.warn(error.what());
    return std::make_unique<MeasuringTurn>();
  }
  return std::make_unique<LocalTurn>(std::move(turns), options, std::move(teller));
}

}  // namespace

std::string queue_text(const rpc::MeasuringQueue& queue) {
  if (!queue.holder) return "free";
  std::string text = fmt::format("{} by {} for {:.0f} s", queue.measuring ? "measured" : "held",
                                 entry_text(*queue.holder), seconds(queue.holder->since));
  if (queue.waiting_count == 0) return text + "; nobody waits";
  text +=
      fmt::format(", {:.0f} s left of a turn of {:.0f} s; {} wait{}", std::max(0.0, seconds(queue.turn_left)),
                  seconds(queue.turn), queue.waiting_count, queue.waiting_count == 1 ? "s" : "");
  return text;
}

std::string waiting_text(const rpc::LeaseEntry& entry) {
  const char* priority = entry.priority == rpc::LeasePriority::kNormal       ? ""
                         : entry.priority == rpc::LeasePriority::kBackground ? ", in the background"
                                                                             : ", urgently";
  return fmt::format("{}, has waited for {:.0f} s{}", entry_text(entry), seconds(entry.since), priority);
}

std::unique_ptr<MeasuringTurn> take_turn(const ExecutionOptions& choice, const TurnOptions& options,
                                         const Invocation& invocation, TurnProgress progress) {
  Teller teller(invocation, std::move(progress));
  return choice.board.empty() ? local_turn(choice, options, invocation, std::move(teller))
                              : board_turn(choice, options, invocation, std::move(teller));
}

}  // namespace gantry::cli
