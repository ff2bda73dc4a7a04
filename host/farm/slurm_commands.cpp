#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <initializer_list>

#include "host/farm/last_will.h"
#include "host/farm/slurm.h"
#include "host/support/child_pipes.h"
#include "host/support/program.h"

namespace gantry::farm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// A controller that is gone is asked again by Slurm's commands for longer than this.
constexpr milliseconds kPatience{30'000};
/// A lab of thousands of jobs prints less.
constexpr size_t kMostBytes = size_t{256} << 20;

bool has_any(const std::string& words, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(parts, [&](const char* part) { return words.find(part) != std::string::npos; });
}

/// Slurm's words for a controller that does not answer, or not to this machine: munged may come back as well.
bool says_unreachable(const std::string& words) {
  return has_any(words, {"Unable to contact slurm controller", "Connection refused", "Socket timed out",
                         "Zero Bytes were transmitted", "Connection timed out", "controller is in standby",
                         "Munge encode failed", "Protocol authentication error"});
}

/// Its words for a job that it will never start as it is configured.
bool says_impossible(const std::string& words) {
  return has_any(words, {"Requested node configuration is not available", "Invalid generic resource",
                         "Invalid partition name", "invalid partition specified"});
}

/// Its words where it finds no slurm.conf.
bool says_unconfigured(const std::string& words) {
  return has_any(words,
                 {"Could not establish a configuration source", "cannot stat file", "unable to status file"});
}

/// Of what a program said, what a message has room for.
std::string quoted(const std::string& said) {
  const size_t end = said.find_last_not_of('\n');
  return end == std::string::npos ? "it said nothing" : said.substr(0, end + 1);
}

/// Throws what a command that failed says: `how` it failed, by code or by time.
[[noreturn]] void fail(const std::string& program, const std::string& how, const std::string& said) {
  if (says_unconfigured(said))
    user_error(
        "{} finds no configuration of Slurm on this machine: farms need the lab's slurm.conf in /etc/slurm, "
        "or where $SLURM_CONF says; `sinfo` lists its nodes then. It said: {}",
        program, quoted(said));
  throw SlurmError(fmt::format("{} {}: {}", program, how, quoted(said)), says_unreachable(said));
}

/// What the program prints; `input` is its standard input.
std::string run(const std::vector<std::string>& arguments, std::string_view input = {}) {
  if (!find_program(arguments[0]))
    user_error(
        "there is no program {} in $PATH: farms need Slurm's commands (Debian's package slurm-client) and "
        "the lab's slurm.conf; a board without a farm is named by --on",
        arguments[0]);
  std::vector<std::string> words = {"env", "LC_ALL=C"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ChildPipes program(words, cleanup::Child::Group::kOwn, "asking Slurm");
  const auto deadline = Clock::now() + kPatience;
  (void)program.send(input);
  program.close_input();
  std::string output;
  auto next = ChildPipes::Next::kLine;
  for (std::string line; next == ChildPipes::Next::kLine && output.size() < kMostBytes;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    next = program.next_line(line, std::max(left, milliseconds(0)));
    if (next == ChildPipes::Next::kLine) output += line + "\n";
  }
  if (next == ChildPipes::Next::kTimeout) {
    if (says_unconfigured(program.words())) fail(arguments[0], "has not ended", program.words());
    throw SlurmError(fmt::format("Slurm's controller does not answer {}", arguments[0]), true);
  }
  if (const int code = program.finish(milliseconds(2000)); code != 0)
    fail(arguments[0], fmt::format("failed ({})", code), program.words().empty() ? output : program.words());
  return output;
}

}  // namespace

SlurmCommands::SlurmCommands() = default;
SlurmCommands::~SlurmCommands() = default;

template <typename Question>
auto SlurmCommands::asked(const Question& question) {
  try {
    auto answer = question();
    reached_ = true;
    return answer;
  } catch (const SlurmError& error) {
    reached_ = reached_ || !error.unreachable();  // a refusal is an answer
    throw SlurmError(error.what(), error.unreachable(), !reached_);
  }
}

std::string SlurmCommands::submitted(const JobRequest& request, const std::vector<std::string>& arguments) {
  try {
    return asked([&] { return run(arguments, request.script); });
  } catch (const SlurmError& error) {
    // A node that was there before may come back.
    if (will_ || !says_impossible(error.what())) throw;
    user_error("Slurm has no {}{}: `gantry farm status` lists its boards, `sinfo` its partitions; {}",
               request.board_type.empty() ? "compile host" : "board of type " + request.board_type,
               request.partition.empty() ? "" : " in partition " + request.partition, error.what());
  }
}

JobId SlurmCommands::submit(const JobRequest& request) {
  std::vector<std::string> arguments = {"sbatch",
                                        "--parsable",
                                        "--no-requeue",
                                        "--output=/dev/null",
                                        fmt::format("--job-name={}", kLeaseJob),
                                        fmt::format("--time={}", request.minutes),
                                        fmt::format("--nice={}", request.nice),
                                        fmt::format("--comment={}", request.comment)};
  if (!request.board_type.empty()) {
    arguments.push_back(fmt::format("--gres={}:{}:1", kBoardResource, request.board_type));
  } else {
    arguments.emplace_back("--nodes=1");
    arguments.emplace_back("--ntasks=1");
    arguments.push_back(request.cpus > 0 ? fmt::format("--cpus-per-task={}", request.cpus) : "--exclusive");
  }
  if (!request.partition.empty()) arguments.push_back("--partition=" + request.partition);
  const std::string output = submitted(request, arguments);
  JobId job = 0;  // "17" or "17;cluster"
  if (std::from_chars(output.data(), output.data() + output.size(), job).ec != std::errc() || job == 0)
    throw SlurmError("sbatch printed no job number: " + output.substr(0, 200), false);
  if (!will_) will_ = std::make_unique<LastWill>();
  jobs_.insert(job);
  will_->set(jobs_);
  return job;
}

std::vector<Job> SlurmCommands::leases() {
  std::vector<Job> jobs = asked([] { return parse_leases(run({"squeue", "--json"})); });
  const size_t own = jobs_.size();
  for (const Job& job : jobs)
    if (job.phase == JobPhase::kEnded) jobs_.erase(job.id);
  if (jobs_.size() != own) will_->set(jobs_);
  return jobs;
}

std::vector<NodeBoards> SlurmCommands::boards() {
  return asked([] { return parse_boards(run({"sinfo", "--json"})); });
}

void SlurmCommands::cancel(JobId job) {
  asked([&] {
    return run({"scancel", "--quiet", fmt::format("--name={}", kLeaseJob), std::to_string(job)});
  });
  if (jobs_.erase(job) > 0) will_->set(jobs_);
}

void SlurmCommands::set_comment(JobId job, const std::string& comment) {
  asked([&] { return run({"scontrol", "update", fmt::format("JobId={}", job), "Comment=" + comment}); });
}

void SlurmCommands::drain(const std::string& node, const std::string& reason) {
  asked([&] { return run({"scontrol", "update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason}); });
}

void SlurmCommands::resume(const std::string& node) {
  asked([&] { return run({"scontrol", "update", "NodeName=" + node, "State=RESUME"}); });
}

std::string SlurmCommands::address_of(const std::string& node) {
  const std::string output = asked([&] {
    return run({"sinfo", "--noheader", "--nodes=" + node, "--format=%o"});
  });
  std::string address = output.substr(0, output.find('\n'));
  address.erase(address.find_last_not_of(' ') + 1);
  if (address.empty()) throw SlurmError(fmt::format("sinfo knows no address of node '{}'", node), false);
  return address;
}

}  // namespace gantry::farm
