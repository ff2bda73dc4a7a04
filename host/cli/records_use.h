// --records: what records of tuning decide where a model is compiled, and what is said of it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "host/cli/invocation.h"
#include "host/driver/compile.h"
#include "host/records/store.h"
#include "rpc/client/types.h"

namespace CLI {
class App;
}

namespace gantry::cli {

/// --records, as a place that open_store() takes; empty: none.
void add_records_option(CLI::App& command, std::string& place);
/// --record-threads, of commands that do not run what they compile.
void add_record_threads_option(CLI::App& command, int& threads);

/// The store at `place`, to be read; rows that are no records are warnings. Errors: those of open_store().
std::shared_ptr<records::Store> read_records(const std::string& place, const Invocation& invocation);

/// On what the module will run, as far as it is known.
struct RecordMachine {
  std::string name;  ///< the processor as it calls itself; empty: not known
  std::string cpu;   ///< the same of the CPU, which runs some programs of a GPU's target
  int threads = 0;   ///< 0: not known
};
/// Of a target for a device of that machine: the GPU's name, or the CPU's (its architecture where it has none).
std::string machine_name(const rpc::BoardInfo& machine, const Target& target, int gpu);
/// That of this machine where the target is exactly it, else empty.
std::string machine_name(const Target& target);

/// Of one compilation. It must outlive that.
class RecordsUse {
 public:
  /// `place` empty: there are none, and nothing else happens.
  RecordsUse(const std::string& place, const Invocation& invocation);

  /// Lets records decide in a compilation for that machine.
  void take_part(CompileOptions& options, const RecordMachine& machine);
  /// The same with what is known of each target.
  void take_part(CompileOptions& options, int threads);

  /// Notes which nodes records decided, and what of the network as a whole; what of them was not used.
  void say(const Invocation& invocation) const { say(decisions_, invocation); }
  void say(const std::vector<NodeDecision>& decisions, const Invocation& invocation) const;
  /// The same for a document; null where there are no records.
  nlohmann::ordered_json json() const;

 private:
  std::shared_ptr<records::Store> store_;
  void take_part(CompileOptions& options);

  std::vector<NodeDecision> decisions_;
  std::vector<NetworkRecord> network_;
};

}  // namespace gantry::cli
