// What a lab's Slurm is asked: its commands, whose JSON is read. It is not linked.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/support/error.h"

namespace gantry::farm {

using JobId = uint32_t;

/// Name of the jobs that are leases, and of the generic resource that boards are.
inline constexpr char kLeaseJob[] = "gantry-lease";
inline constexpr char kBoardResource[] = "board";

/// A job to be queued.
struct JobRequest {
  std::string board_type;  ///< "pi5": one board of it; empty: a node without
  int cpus = 0;            ///< without a board; 0: all of the node's, which then nobody else has
  std::string partition;   ///< empty: Slurm's default
  int minutes = 60;        ///< after which Slurm ends it
  int nice = 0;            ///< the larger, the later its turn
  std::string comment;
  std::string script;
};

enum class JobPhase { kPending, kRunning, kEnded };

struct Job {
  JobId id = 0;
  JobPhase phase = JobPhase::kPending;
  std::string state;   ///< Slurm's word: "PENDING", "NODE_FAIL"
  std::string reason;  ///< why it waits: "Resources"
  std::string comment, user, node;
  std::string board;                             ///< what it asks for: "board:pi5:1"
  std::string unit;                              ///< what it has: "board:pi5:1(IDX:0)"
  int64_t submitted = 0, started = 0, ends = 0;  ///< Unix time, s; 0: not known
  int minutes = 0;
};

/// A node's boards.
struct NodeBoards {
  std::string node, state, reason;
  std::map<std::string, std::pair<int, int>> boards;  ///< by type: how many, and how many of them are leased
};

/// Slurm did not do it. `unreachable()`: its controller does not answer, and may later; `never_reached()`:
/// nor has it answered this program before, so that there may be none.
class SlurmError : public Error {
 public:
  SlurmError(const std::string& message, bool unreachable, bool never_reached = false)
      : Error(ErrorKind::kBoard, message), unreachable_(unreachable), never_reached_(never_reached) {}
  bool unreachable() const { return unreachable_; }
  bool never_reached() const { return never_reached_; }

 private:
  bool unreachable_, never_reached_;
};

/// Every call throws SlurmError; a user error where this machine has no Slurm (no commands, no
/// configuration), or that Slurm no such boards.
class Slurm {
 public:
  virtual ~Slurm() = default;
  virtual JobId submit(const JobRequest& request) = 0;
  /// Leases that Slurm knows, of all users; ended ones for a while.
  virtual std::vector<Job> leases() = 0;
  /// A lease: a job of another name that has the number is left alone.
  virtual void cancel(JobId job) = 0;
  virtual void set_comment(JobId job, const std::string& comment) = 0;
  virtual std::vector<NodeBoards> boards() = 0;
  /// Lets a node take no new jobs, or again.
  virtual void drain(const std::string& node, const std::string& reason) = 0;
  virtual void resume(const std::string& node) = 0;
};

class LastWill;

/// sbatch, squeue, scancel, scontrol and sinfo of the path. Jobs that were submitted, and not cancelled when
/// a signal ends the process, are cancelled then. Belongs to one thread.
class SlurmCommands : public Slurm {
 public:
  SlurmCommands();
  ~SlurmCommands() override;
  JobId submit(const JobRequest& request) override;
  std::vector<Job> leases() override;
  void cancel(JobId job) override;
  void set_comment(JobId job, const std::string& comment) override;
  std::vector<NodeBoards> boards() override;
  void drain(const std::string& node, const std::string& reason) override;
  void resume(const std::string& node) override;
  /// Where Slurm reaches a node of that name.
  std::string address_of(const std::string& node);

 private:
  /// What `question` gives; the SlurmError that it throws knows whether the controller ever answered.
  template <typename Question>
  auto asked(const Question& question);

  /// What sbatch prints. A user error where the first job is one that Slurm can never start.
  std::string submitted(const JobRequest& request, const std::vector<std::string>& arguments);

  std::unique_ptr<LastWill> will_;  ///< null: nothing was submitted
  std::set<JobId> jobs_;
  bool reached_ = false;  ///< the controller has answered
};

/// `squeue --json` and `sinfo --json` of Slurm 22.05. Throw SlurmError for what is none, and, as of a
/// controller that does not answer, for a list with errors: these commands print an empty one then, and
/// succeed.
std::vector<Job> parse_leases(std::string_view json);
std::vector<NodeBoards> parse_boards(std::string_view json);
/// "board:pi5:3,board:nano:1" or "board:pi5:2(IDX:0-1)": how many of each type of board.
std::map<std::string, int> parse_resources(std::string_view text);

}  // namespace gantry::farm
