// Records of tuning: what became of a decision for a node's work on a machine.
//
// A record is written once and never changed: each trial is one. What of them may decide how a node is
// computed is said here, in one place, whatever they are kept in:
//
//   - Its key is that of the question: the same work, on the same kind of machine, by as many threads, in the
//     same precision, by the same generator. What another version of the generator made, or another machine,
//     is not used (best_of says which that was).
//   - It is a confirmation: not one of many trials, but the comparison with what the compiler takes by itself
//     that was made once the trials were done. And its interval excludes a loss.
//   - Of the same decision for the same key the newest confirmation counts, and none does where a record says
//     that its results were wrong, or a newer one that it crashed, took too long or could not be built.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/decision.h"
#include "host/passes/network_decision.h"

namespace gantry::records {

/// What computes, and how: of all records of a tuning run the same.
struct Setting {
  std::string target;     ///< Target::name: "znver5", "aarch64+dotprod", "cuda:sm_90/znver5"
  std::string machine;    ///< the processor as it calls itself: "AMD EPYC 9655P", "Cortex-A72", "NVIDIA H100"
  std::string features;   ///< of it, that code may use: LLVM's names, sorted, with commas between them
  int threads = 0;        ///< that computed
  std::string precision;  ///< "fp32", "bf16", …; never "auto"
  std::string optimize;   ///< "speed", "size", "fast-math"
  std::string generator;  ///< generator_version() (host/records/generator.h) of who compiled it

  auto operator<=>(const Setting&) const = default;
};

struct Key {
  /// work_digest() of the node (host/passes/work_digest.h), 64 hexadecimal digits. It covers the op, its
  /// attributes, the types and extents of what it reads and writes, what of that is constant, and the
  /// elementwise steps that follow it and that nobody else reads; not the values of constants, and no names.
  /// Of what is decided for a network as a whole network_digest(): the same of all of its nodes, and what is
  /// asked.
  std::string work;
  Setting setting;

  auto operator<=>(const Key&) const = default;
};

/// What became of a trial.
enum class Outcome : uint8_t {
  kMeasured,     ///< right, and timed: the times are there
  kWrong,        ///< its results differ by more than its arithmetic explains
  kCrashed,      ///< the program ended by a signal
  kTimedOut,     ///< it took longer than it may
  kMisfit,       ///< the decision does not fit the node or the kernel that it became a part of
  kBuildFailed,  ///< the compiler failed
};
/// "measured", "wrong", "crashed", "timed-out", "misfit", "build-failed".
std::string_view name_of(Outcome outcome);
/// None for another name.
std::optional<Outcome> find_outcome(std::string_view name);

/// Two programs that differ in nothing but this decision, run in turns. Only of Outcome::kMeasured.
struct Timing {
  /// Medians of what was timed (Record::timed), seconds.
  double seconds = 0, baseline_seconds = 0;
  /// Of a run with the decision to one with the baseline: below 1 it is faster. With its 95 % interval.
  double ratio = 0, ratio_low = 0, ratio_high = 0;
  /// Medians of each process, seconds, in the order in which they ran.
  std::vector<double> process_seconds, baseline_process_seconds;

  bool operator==(const Timing&) const = default;
};

inline constexpr char kNetworkOp[] = "network";

struct Record {
  int64_t id = 0;  ///< of the store that it was read from, rising with time; 0: of none yet
  Key key;
  std::string op;  ///< of the node: "nn.conv"; of a network kNetworkOp
  /// Of a network {form=layouts}, {form=combined} or {form=apart}: what is decided, of the nodes of `parts`.
  Decision decision;
  /// Of a network alone, by the numbers of its nodes, which rise: how those are computed whose images lie
  /// otherwise, or, by {form=apart, reader=N}, that node N, which reads this one, is kept apart from it.
  std::vector<NumberedDecision> parts = {};
  /// With which it was compared. Of a confirmation: what the compiler takes by itself. Of a network
  /// {form=own}, or {form=separate} products.
  Decision baseline;
  Outcome outcome = Outcome::kMeasured;
  std::string reason;            ///< of what was not measured: what was wrong, for people
  std::optional<Timing> timing;  ///< if and only if it was measured
  /// The last comparison, with what the compiler takes by itself, of what trials left over.
  bool confirmation = false;

  // Where it comes from; none of it decides anything.
  std::string timed;   ///< what the times are of: "kernel", "network", …
  std::string model;   ///< where the node was seen: "resnet18.onnx"
  std::string nodes;   ///< the nodes of that model that it comes from, as decision files have them
  std::string board;   ///< that measured, as `gantry boards` calls it; empty: this machine
  std::string beside;  ///< what else ran meanwhile; empty: nothing was seen
  std::string date;    ///< of the end of the trial, UTC: "2026-11-27T08:05:00Z"; or later (Store::add)
  std::string source;  ///< who wrote it: "gantry tune 0.4.0 on lab7"

  bool operator==(const Record&) const = default;
};

/// Throws a user error that says which field is wrong, and how: a key without a part, numbers that are none
/// or contradict each other (a ratio outside of its interval, times that are not positive), text that is
/// longer than such text is or has control characters, a date that is none, times of what was not measured or
/// none of what was.
void check(const Record& record);

/// 64 hexadecimal digits, as of Key::work.
bool is_digest(std::string_view text);

/// "{form=direct, block=8}"; with parts "{form=layouts}; 12 {form=direct, block=8}; 15 {form=gemm}".
std::string decision_text(const Record& record);

/// What a machine said, or how a file or a node is called, in one line of a length that records take. Bytes
/// that are no UTF-8, which neither JSON nor PostgreSQL has, become \xff.
std::string line_of(std::string text);

/// The interval excludes a loss.
bool is_gain(const Timing& timing);

/// What is asked of records; members that are empty, or 0, are not asked about.
struct Filter {
  std::string work;  ///< its first digits
  std::string op, target, machine, precision, generator;
  std::string other_generator;  ///< all but those of this one
  int threads = 0;
  std::string before, since;  ///< dates: strictly before, from then on
  std::optional<Outcome> outcome;
  bool confirmations = false;  ///< no others
  std::vector<int64_t> ids;    ///< no others
  int64_t after = 0;           ///< larger ids only

  bool operator==(const Filter&) const = default;
};

/// What decides for a work, and what might have.
struct Best {
  std::optional<Record> record;
  /// Why confirmed gains for the same work are not used, each once: "of 4 threads, not 2", "of another
  /// version of the generator, …". Only where nothing matches.
  std::vector<std::string> mismatches;
};

/// Of the records of one work (Store::of_work), in any order. In the setting that is asked for `machine` may
/// be empty and `threads` 0, where nobody knows on what the module will run: then records decide if those
/// that match in all else are of one machine and of one number of threads. Of several decisions the one with
/// the least upper end of its interval.
Best best_of(std::span<const Record> of_work, const Setting& setting);

/// "2026-11-27T08:05:00Z".
bool is_date(std::string_view text);
/// Of now, as records have it.
std::string date_now();

}  // namespace gantry::records
