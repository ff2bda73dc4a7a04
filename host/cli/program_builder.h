// The programs that a tuner measures: built on this machine and on compile hosts, and kept for a while.
#pragma once

#include <cstddef>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host/cli/build_queue.h"
#include "host/cli/compile_hosts.h"
#include "host/tune/network.h"

namespace gantry::cli {

/// The last few, by their choices. Every function may be called by any thread.
class RecentPrograms {
 public:
  explicit RecentPrograms(size_t most) : most_(most) {}
  /// Null: it is none of them.
  TunedProgramPtr find(const std::string& key);
  void put(const std::string& key, TunedProgramPtr program);

 private:
  size_t most_;
  std::mutex mutex_;
  std::list<std::pair<std::string, TunedProgramPtr>> programs_;  ///< the last one used is first
};

class ProgramBuilder {
 public:
  /// `network` must outlive it.
  explicit ProgramBuilder(const tune::Network& network) : network_(network) {}

  /// Here and now, if it is none of those that are kept. By any thread. Errors: those of Network::build.
  TunedProgramPtr program_of(const tune::Choices& choices);
  /// The same, but what is the choices' own fault is a result. Errors: what is not.
  Built built_of(const tune::Choices& choices);

  /// From now on the machines of `hosts` build, too. `untuned`: choices that they are tried by. User errors
  /// of CompileHosts; those of program_of().
  void use(std::unique_ptr<TuneMachines> hosts, const tune::Choices& untuned);
  /// Null: there are none.
  CompileHosts* hosts() { return hosts_.get(); }
  /// That can build at the same time, this machine among them.
  size_t builders() const { return 1 + (hosts_ ? hosts_->ready() : 0); }
  BuildCounts counts() const;

 private:
  friend class BuildsAhead;
  /// Null: it is none of those that are kept. One that was built ahead has been asked for from now on.
  TunedProgramPtr kept(const std::string& key);
  TunedProgramPtr build_here(const tune::Choices& choices);
  /// Errors: those that are not the choices' fault.
  Built built_here(const tune::Choices& choices);
  /// Throws what keeps even the untuned choices from being built: no memory, open files or disk is left.
  void expect_untuned_builds() const;

  const tune::Network& network_;
  /// Apart, so that what is built ahead drives out nothing that is compared with.
  RecentPrograms asked_{3}, ahead_{2};
  mutable std::mutex mutex_;
  size_t here_ = 0;
  BuildQueue queue_;
  std::unique_ptr<CompileHosts> hosts_;  ///< the last: it takes jobs from the queue
};

/// Programs of these choices: built by whoever can, in their order, while the caller does something else, or
/// before that (not `ahead`). What has not begun when the object ends is not built. There is one at a time.
class BuildsAhead {
 public:
  BuildsAhead(ProgramBuilder& builder, std::vector<tune::Choices> choices, bool ahead);
  BuildsAhead(const BuildsAhead&) = delete;
  BuildsAhead& operator=(const BuildsAhead&) = delete;
  ~BuildsAhead();
  /// By any thread; waits for it. Throws what went wrong, where that is not the choices' fault.
  Built get(size_t i) const;
  /// Nobody asks for it again: it needs no memory any more. By who has it from get().
  void forget(size_t i) { programs_[i] = {}; }

 private:
  void build();

  ProgramBuilder& builder_;
  std::vector<tune::Choices> choices_;
  std::vector<std::shared_future<Built>> programs_;
  std::thread thread_;
};

}  // namespace gantry::cli
