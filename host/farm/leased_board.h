// A board, or a compile host, that Slurm has leased to this program.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "host/farm/lease_machine.h"
#include "host/support/temporary.h"
#include "rpc/protocol/lease_priority.h"

namespace gantry::farm {

struct LeaseRequest {
  std::string board_type;  ///< "pi5"; empty: a compile host, which is a node without boards
  int cpus = 0;            ///< of a compile host; 0: all that its node has
  std::string partition;   ///< empty: Slurm's default
  int minutes = 60;
  rpc::LeasePriority priority = rpc::LeasePriority::kNormal;
  double longest_wait_s = 0;  ///< 0: for ever
};

/// For people: "board of type pi5", "compile host".
std::string text_of(const LeaseRequest& request);

/// A lease, wanted or had: asks Slurm when it is time to, and never waits itself, so that a program may have
/// many. Ends with the object: the job is cancelled. `slurm` outlives it. Belongs to one thread.
class LeasedBoard {
 public:
  LeasedBoard(Slurm& slurm, LeaseRequest request, const LeaseMachine::Bounds& bounds = {});
  ~LeasedBoard();
  LeasedBoard(const LeasedBoard&) = delete;
  LeasedBoard& operator=(const LeasedBoard&) = delete;

  /// Does what is due; asks Slurm at most once. Board error where it is given up.
  void advance();
  /// Until the board is ready; hears about once a second what it waits for. Board error where that is given
  /// up or lasts longer than `longest_wait_s`.
  void wait(const std::function<void(const std::string& what)>& progress);
  /// The board can be used, as far as is known.
  bool ready() const { return machine_.state() == LeaseMachine::State::kReady; }
  /// Its time is over, or its board died: want_again() gets another.
  bool over() const { return machine_.state() == LeaseMachine::State::kOver; }
  void want_again();

  /// HOST:PORT, and the file of the lease's key: what any command takes behind --on and --key.
  const std::string& address() const { return machine_.address(); }
  std::filesystem::path key_file() const { return folder_->path() / "key"; }
  /// Who holds on to it finds the key's file there when the lease is gone.
  std::shared_ptr<const TemporaryFolder> folder() const { return folder_; }
  const std::string& words() const { return machine_.words(); }
  JobId job() const { return machine_.job(); }

 private:
  double now() const;
  std::string script() const;
  void cancel() noexcept;

  Slurm& slurm_;
  LeaseRequest request_;
  std::shared_ptr<TemporaryFolder> folder_;
  std::string name_, key_text_;
  LeaseMachine machine_;
};

}  // namespace gantry::farm
