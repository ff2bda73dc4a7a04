// The right to measure on a machine, in turns with others: a board's lease, or this machine's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "host/cli/execution.h"
#include "host/cli/turns/turn_options.h"

namespace gantry::cli {

/// Ends with the object. Belongs to one thread.
class MeasuringTurn {
 public:
  virtual ~MeasuringTurn() = default;
  /// The machine's benchmarks are this turn's from now on. For every machine that is opened.
  virtual void join(Machine&) {}
  /// Between two processes: gives way to others where it should, and waits for the next turn. Seconds waited.
  virtual double pause() { return 0; }
  const TurnRecord& record() const { return record_; }

 protected:
  TurnRecord record_;
};

/// Hears about once a second whom it waits for.
using TurnProgress = std::function<void(const std::string& what)>;

/// Waits until nobody else measures on the machine of `choice`. A wait is a note of the invocation's too.
/// Errors: of kind kBoard (exit code 2) where it waited as long as it may, or may not wait; user errors for a
/// priority that the board does not give this key. Where a board, or this machine, offers no turns a warning
/// says so.
std::unique_ptr<MeasuringTurn> take_turn(const ExecutionOptions& choice, const TurnOptions& options,
                                         const Invocation& invocation, TurnProgress progress);

/// "measured by alice (192.168.1.7; bench a.onnx) for 34 s, 26 s left of a turn of 60 s; 2 wait" or "free".
std::string queue_text(const rpc::MeasuringQueue& queue);
/// "bob (192.168.1.8), 'bench b.onnx', waits for 12 s, in the background"
std::string waiting_text(const rpc::LeaseEntry& entry);

}  // namespace gantry::cli
