#include "host/farm/leased_board.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/support/program.h"
#include "rpc/security/key.h"

namespace gantry::farm {
namespace {

/// Of Slurm, where everybody may only lower a job's priority.
int nice_of(rpc::LeasePriority priority) {
  constexpr int kStep = 1000;
  return kStep * (static_cast<int>(rpc::LeasePriority::kUrgent) - static_cast<int>(priority));
}

/// In single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

std::string text_of(const LeaseRequest& request) {
  return request.board_type.empty() ? "compile host" : "board of type " + request.board_type;
}

LeasedBoard::LeasedBoard(Slurm& slurm, LeaseRequest request, const LeaseMachine::Bounds& bounds)
    : slurm_(slurm),
      request_(std::move(request)),
      folder_(std::make_shared<TemporaryFolder>("lease")),
      name_(rpc::generate_key().identity),
      machine_(name_, bounds, request_.board_type.empty() ? "compile host" : "board") {
  const rpc::PskKey key = rpc::generate_key(name_);
  key_text_ = rpc::key_file_text(key);
  write_file(key_file(), key_text_, OutputFile::Privacy::kSecret);
}

LeasedBoard::~LeasedBoard() {
  cancel();
}

void LeasedBoard::cancel() noexcept {
  if (machine_.job() == 0 || over()) return;
  try {
    if (machine_.own(slurm_.leases()) != nullptr) slurm_.cancel(machine_.job());
  } catch (const std::exception&) {
    // A job whose key nobody uses ends by itself.
  }
}

double LeasedBoard::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The key goes into the job's script, which Slurm shows to nobody but the job's user and itself.
std::string LeasedBoard::script() const {
  std::string self;
  for (const std::string& word : own_command()) self += quoted(word) + " ";
  const std::string key = key_text_.substr(0, key_text_.find('\n'));
  const std::string command =
      request_.board_type.empty()
          ? "farm build"
          : fmt::format("farm hold --type {} --minutes {}", quoted(request_.board_type), request_.minutes);
  return fmt::format(
      "#!/bin/sh\n"
      "GANTRY_LEASE={}\nGANTRY_LEASE_KEY={}\nexport GANTRY_LEASE GANTRY_LEASE_KEY\n"
      "if command -v gantry >/dev/null; then exec gantry {}; fi\n"
      "exec {}{}\n",
      quoted(name_), quoted(key), command, self, command);
}

void LeasedBoard::advance() {
  switch (machine_.next(now())) {
    case LeaseMachine::Step::kWait:
      break;
    case LeaseMachine::Step::kSubmit:
      try {
        JobRequest job;
        job.board_type = request_.board_type;
        job.cpus = request_.cpus;
        job.partition = request_.partition;
        job.minutes = request_.minutes;
        job.nice = nice_of(request_.priority);
        job.comment = to_text({name_, "", ""});
        job.script = script();
        machine_.submitted(slurm_.submit(job), now());
      } catch (const SlurmError& error) {
        machine_.submit_failed(error, now());
      }
      break;
    case LeaseMachine::Step::kLook:
      try {
        machine_.saw(slurm_.leases(), now());
      } catch (const SlurmError& error) {
        machine_.saw_nothing(error, now());
      }
      break;
  }
  if (machine_.state() != LeaseMachine::State::kGivenUp) return;
  board_error("no lease of a {} from Slurm: {}; {}", text_of(request_), machine_.words(),
              machine_.unreachable() ? "`scontrol ping` says whether its controller runs, `munge -n` whether "
                                       "this machine's munged does; where the controller is, slurm.conf says"
                                     : "`gantry farm status` shows the farm");
}

void LeasedBoard::want_again() {
  cancel();
  machine_.want_again(now());
}

void LeasedBoard::wait(const std::function<void(const std::string&)>& progress) {
  const double began = now();
  while (!ready()) {
    if (over()) want_again();
    advance();
    if (ready()) return;
    if (request_.longest_wait_s > 0 && now() - began > request_.longest_wait_s)
      board_error("no lease of a {} within {:g} s (--max-wait): {}", text_of(request_),
                  request_.longest_wait_s, words());
    if (progress) progress(fmt::format("waiting for a {}: {}", text_of(request_), words()));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace gantry::farm
