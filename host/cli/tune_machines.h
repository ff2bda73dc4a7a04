// The machines that a tuner measures on: this one, boards by their names, or boards that a farm leases; and
// those of a farm that build its programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gantry::cli {

struct FarmOptions;
struct Invocation;
struct TurnOptions;

/// One of them, as --on and --key name it.
struct TuneMachine {
  uint64_t number = 0;                     ///< another one in the same place has another
  std::string board;                       ///< empty: this machine
  std::string key;                         ///< a file's name
  std::string words;                       ///< how it was got, to be said once; "": there is nothing to say
  std::shared_ptr<const void> holds = {};  ///< what `key` needs
};

/// So many places, in each of which there is a machine at times. Every function may be called by any thread.
class TuneMachines {
 public:
  virtual ~TuneMachines() = default;
  virtual size_t places() const = 0;
  /// None: the place waits for one.
  virtual std::optional<TuneMachine> machine(size_t place) const = 0;
  /// Whether another one may take the place of one that is lost; else each place always has the same.
  virtual bool renews() const { return false; }
  /// It does not answer any more. False: there is none to be hoped for in its place.
  virtual bool lost(size_t, const TuneMachine&) { return false; }
  /// Something was measured on it.
  virtual void used(size_t, const TuneMachine&) {}
  /// What is waited for, where no place has a machine; else "". Throws where that is not worth waiting for,
  /// or lasts longer than it may.
  virtual std::string waits_for() { return ""; }
  /// Seconds in which no place had one.
  virtual double waited_s() const { return 0; }
  /// For people, by the name of one of them: "pi and 2 more".
  virtual std::string label(const std::string& one) const = 0;
  /// As records have it; "": this machine.
  virtual std::string name() const = 0;
};

/// `boards`: as of --on, with commas between them; "": this machine. User errors for one that is named twice
/// or not at all.
std::unique_ptr<TuneMachines> named_machines(const std::string& boards, const std::string& key);

/// As many leases as --board asks for; asks for them at once. User errors of boards_wanted(). Notes of
/// `invocation`, which outlives it, say how long a wait has lasted.
std::unique_ptr<TuneMachines> leased_machines(const FarmOptions& options, const TurnOptions& turns,
                                              const Invocation& invocation);

/// So many leases of compile hosts as --compile-hosts asks for, at least one: each is a BuildServer's. They
/// are waited for for ever, which holds up nobody. `invocation`: as of leased_machines().
std::unique_ptr<TuneMachines> leased_compile_hosts(const FarmOptions& options, const TurnOptions& turns,
                                                   const Invocation& invocation);

}  // namespace gantry::cli
